package feedback

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
)

const (
	// gitTimeout bounds a fetch and a merge in the mirror, because a pass waits for them.
	gitTimeout = time.Minute
	mostNamed  = 3 // files with conflicts
	// forgeLooks is how long after a push a forge may still believe that the branch is behind.
	forgeLooks = 10 * time.Minute
)

// tryMerge lets git decide whether a pull request conflicts with its base, if the forge can't
// say. The answer is stored with both commits.
func (d Watcher) tryMerge(ctx context.Context, w *reconcile.Watch) error {
	if d.Mirror == nil || !w.WantsTry(d.Feedback, d.Now()) {
		return nil
	}
	q := host.MergeRequest{
		Branch:     w.Pull.Branch,
		Head:       w.Pull.Head,
		Base:       w.Pull.Base,
		BaseCommit: w.Pull.BaseCommit,
	}
	var answer host.MergeAnswer
	err := d.inMirror(ctx, "the look for conflicts", func(ctx context.Context, m host.Merges) (err error) {
		answer, err = m.TryMerge(ctx, q)
		return err
	})
	w.NoteTry(err == nil, len(answer.Conflicts) > 0, d.Now())
	return err
}

// inMirror calls use with the mirror, for a bounded time.
func (d Watcher) inMirror(
	ctx context.Context,
	what string,
	use func(context.Context, host.Merges) error,
) error {
	_, err := host.Within(ctx, gitTimeout, host.CodeRepositoryUnavailable, what,
		func(ctx context.Context) (struct{}, error) {
			return struct{}{}, d.Mirror(ctx, func(m host.Merges) error { return use(ctx, m) })
		})
	return err
}

// next returns the pull request of the same base that is merged before w: its branch was brought
// up to date, and its checks are at work. It is nil if there is none.
func (d Watcher) next(w *reconcile.Watch) *reconcile.Watch {
	for i := range d.all {
		other := &d.all[i]
		if other.IssueID != w.IssueID && other.Pull.Base == w.Pull.Base && other.HasTurn(d.Feedback, d.Now()) {
			return other
		}
	}
	return nil
}

// bringUpToDate merges the base into the branch of a pull request, because the base demands that
// the branch contain it: of one pull request of a base at a time, as each merge makes the others
// out of date. A conflict is feedback.
func (d Watcher) bringUpToDate(
	ctx context.Context,
	forge *reconcile.Forge,
	w *reconcile.Watch,
	issue reconcile.Issue,
) error {
	if w.MayBeArmed() {
		if err := d.disarm(ctx, forge, w); err != nil {
			return err
		}
	}
	if first := d.next(w); first != nil {
		w.QueueMerge(first, d.Now())
		return nil
	}
	q := host.MergeRequest{Branch: w.Delivered.Branch, Head: w.Pull.Head, Base: w.Pull.Base}
	var made host.MergeAnswer
	err := d.inMirror(ctx, "the merge of "+q.Base, func(ctx context.Context, m host.Merges) (err error) {
		made, err = m.MakeMerge(ctx, q)
		return err
	})
	const demand = "the base demands an up-to-date branch, "
	switch {
	case err != nil:
		w.RefuseMerge(demand+"and symphony can't merge the base into it: "+err.Error(), d.Now())
		return err
	case made.Contained && d.Now().Sub(w.BaseMerges.At).Abs() < forgeLooks:
		w.Merge = nil // the next pass tries to merge it again
		return nil
	case made.Contained:
		w.RefuseMerge(demand+"and does not see that it contains the base", d.Now())
		return nil
	case len(made.Conflicts) > 0:
		files := made.Conflicts[:min(len(made.Conflicts), mostNamed)]
		w.RefuseMerge(fmt.Sprintf("%sand it conflicts in %s: %s", demand,
			text.Plural(len(made.Conflicts), "file"), strings.Join(files, ", ")), d.Now())
		w.NoteTry(true, true, d.Now())
		return d.look(ctx, forge, w, issue)
	}
	w.BeginUpdate(made.Commit, d.Now())
	if err := d.save(ctx, w); err != nil {
		return err
	}
	crash.At("feedback.updating")
	err = d.inMirror(ctx, "the push", func(ctx context.Context, m host.Merges) error {
		return m.PushMerge(ctx, q, made.Commit)
	})
	if err != nil {
		w.RefuseMerge(demand+"and symphony can't push the base to it: "+err.Error(), d.Now())
		return err
	}
	crash.At("feedback.updated")
	return nil
}
