package repository

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// Compare compares the commit of the base that a workspace knew with the one that a fetch found.
// It returns the record of the clone from now on, and that of the dropped commits on which HEAD
// is built; empty if there is none.
func (m *Mirror) Compare(
	ctx context.Context, workspace string, cloned host.Origin, found host.FetchAnswer,
) (now host.Origin, dropped string, err error) {
	now = cloned
	now.Dropped, err = m.findDropped(ctx, cloned, found.Base)
	now.Base = found.Commit
	now.Branch = found.Base
	if err != nil || now.Dropped == "" {
		return now, "", m.failed(host.CodeRepositoryUnavailable, "compare the base", err)
	}
	head, err := git.HeadOf(workspace)
	if err == nil && head.Commit != "" {
		dropped, err = m.builtOn(ctx, head.Commit, found.Base, now.Dropped, head.Objects)
	}
	return now, dropped, m.failed(host.CodeRepositoryUnavailable, "compare the base", err)
}

// findDropped returns the commits of the base that it no longer contains: those that are known,
// and the last one that was fetched, such as one with a secret that a person has purged. Another
// branch that became the base has dropped nothing.
func (m *Mirror) findDropped(ctx context.Context, cloned host.Origin, base string) (string, error) {
	last := cmp.Or(cloned.Base, cloned.Commit)
	if last == "" || cloned.Branch != base || slices.Contains(strings.Fields(cloned.Dropped), last) {
		return cloned.Dropped, nil
	}
	contains, err := m.contains(ctx, "refs/heads/"+base, last)
	if err != nil || contains {
		return cloned.Dropped, err
	}
	return strings.TrimSpace(cloned.Dropped + " " + last), nil
}

// builtOn returns that of the dropped commits whose history, as far as the base lacks it, is part
// of a commit; empty if there is none. objects may be a directory with more objects.
func (m *Mirror) builtOn(ctx context.Context, commit, base, dropped, objects string) (string, error) {
	for _, one := range strings.Fields(dropped) {
		shared, err := m.output(withObjects(m.localGit(ctx, "merge-base", "--all", one, commit), objects))
		if gitcmd.Exited(err) { // nothing is shared
			continue
		}
		if err != nil {
			return "", err
		}
		list := append([]string{"rev-list", "--max-count=1", "^refs/heads/" + base}, strings.Fields(shared)...)
		lacking, err := m.output(withObjects(m.localGit(ctx, list...), objects))
		if err != nil || lacking != "" {
			return one, err
		}
	}
	return "", nil
}

// checkDropped returns an error if the commit is built on commits that the base has dropped.
func (d *delivery) checkDropped(ctx context.Context) error {
	failed := func(err error) error { return d.failed(host.CodeDeliveryFailed, "compare the base", err) }
	if d.Commit == "" || d.Cloned.URL != d.remote.URL && d.Cloned.URL != d.Address() {
		return nil
	}
	dropped, err := d.findDropped(ctx, d.Cloned, d.base)
	if err != nil {
		return failed(err)
	}
	one, err := d.builtOn(ctx, d.Commit, d.base, dropped, "")
	if err != nil || one == "" {
		return failed(err)
	}
	return reconcile.NewError(host.CodeBaseReplaced, fmt.Sprintf(
		"the history of %s was replaced, and the work is built on commits that it has dropped; put your own "+
			"commits on top of it: %s",
		text.Visible(d.base),
		host.Rebase(one),
	), "")
}

// checkRelated returns an error if the commit would take the place of delivered work, and has no common
// history with the base, which that work has.
func (d *delivery) checkRelated(ctx context.Context) error {
	if d.Commit == "" || d.last == "" {
		return nil
	}
	for _, one := range []string{d.last, d.Commit} {
		_, err := d.output(d.localGit(ctx, "merge-base", "refs/heads/"+d.base, one))
		switch {
		case err == nil:
		case gitcmd.ExitedWith(err, 1) && one == d.last:
			return nil
		case gitcmd.ExitedWith(err, 1):
			return refusal("symphony", []string{"they have no common history with " + text.Visible(d.base) + ", and would " +
				"take the place of what was delivered: put them on top of it, as git rebase --onto origin/HEAD --root does"})
		default:
			return d.failed(host.CodeDeliveryFailed, "compare the base", err)
		}
	}
	return nil
}
