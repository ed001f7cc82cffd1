package feedback

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
)

const (
	// gitTimeout bounds how long a pass waits for git, for all pull requests together: it holds
	// the lock of the project meanwhile.
	gitTimeout = time.Minute
	// gitLeast is how much of that must be left to begin something.
	gitLeast  = 10 * time.Second
	mostNamed = 3 // files with conflicts
	// forgeLooks is how long after a push a forge may still believe that the branch is behind.
	forgeLooks = 10 * time.Minute
)

// gitTime is the time that a pass may still wait for git.
type gitTime struct{ left time.Duration }

// errGitLater is the error of work in the mirror for which a pass has no time left.
var errGitLater = errors.New("the next pass does it, because git has taken the time of this one")

// tryMerge lets git decide whether a pull request conflicts with its base, if the forge can't
// say. The answer is stored with both commits. If no time is left, the next pass does it.
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
	if errors.Is(err, errGitLater) {
		return nil
	}
	if err != nil {
		w.NoteFailedTry(failureOf(err), d.Now())
		return err
	}
	w.NoteTry(len(answer.Conflicts) > 0, d.Now())
	return nil
}

// failureOf describes an error for views.
func failureOf(err error) reconcile.GitFailure {
	known := exit.From(err)
	return reconcile.GitFailure{
		Code:    known.Code,
		Message: strings.TrimSuffix(known.Message+"; "+known.Hint, "; "),
	}
}

// inMirror calls use with the mirror, as long as the pass has time for git. The error is
// errGitLater if another pull request has taken that.
func (d Watcher) inMirror(
	ctx context.Context,
	what string,
	use func(context.Context, host.Merges) error,
) error {
	limit := d.git.left
	if limit < gitLeast {
		return errGitLater
	}
	began := time.Now()
	_, err := host.Within(ctx, limit, host.CodeRepositoryUnavailable, what,
		func(ctx context.Context) (struct{}, error) {
			return struct{}{}, d.Mirror(ctx, func(m host.Merges) error { return use(ctx, m) })
		})
	took := time.Since(began)
	d.git.left -= took
	if err != nil && took >= limit && limit < gitTimeout {
		return errGitLater
	}
	return err
}

// next returns the pull request of the same base that is merged before w; nil if there is none.
func (d Watcher) next(w *reconcile.Watch) *reconcile.Watch {
	for i := range d.all {
		if d.all[i].GoesBefore(w, d.Feedback, d.Now()) {
			return &d.all[i]
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
	const demand = "the base demands an up-to-date branch, "
	if w.UpdatesLeft() <= 0 {
		const tooLate = "%sand symphony has merged %s into it %d times since it was delivered, each time too late: " +
			"merge it yourself, or let an agent deliver it anew with symphony tell %s 'Merge the base.'"
		w.RefuseMerge(fmt.Sprintf(tooLate, demand, w.Pull.Base, reconcile.MostUpdates, w.Identifier), d.Now())
		return nil
	}
	made, err := d.pushBase(ctx, w)
	switch {
	case errors.Is(err, errGitLater):
		w.PutOff(d.Now())
		return nil
	case err != nil && made.Commit != "":
		w.RefuseUpdate(demand+"and symphony can't push the base to it: ", failureOf(err), d.Now())
		return err
	case err != nil:
		w.RefuseUpdate(demand+"and symphony can't merge the base into it: ", failureOf(err), d.Now())
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
		w.NoteTry(true, d.Now())
		return d.look(ctx, forge, w, issue)
	}
	crash.At("feedback.updated")
	return nil
}

// pushBase makes the merge of the base, stores it and pushes it.
func (d Watcher) pushBase(ctx context.Context, w *reconcile.Watch) (made host.MergeAnswer, err error) {
	q := host.MergeRequest{Branch: w.Delivered.Branch, Head: w.Pull.Head, Base: w.Pull.Base}
	err = d.inMirror(ctx, "the merge of "+q.Base, func(ctx context.Context, m host.Merges) error {
		made, err = m.MakeMerge(ctx, q)
		if err != nil || made.Commit == "" {
			return err
		}
		w.BeginUpdate(made.Commit, d.Now())
		if err := d.save(ctx, w); err != nil {
			return err
		}
		crash.At("feedback.updating")
		return m.PushMerge(ctx, q, made.Commit)
	})
	return made, err
}
