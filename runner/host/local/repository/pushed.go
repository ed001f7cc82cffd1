package repository

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// continued returns the commit of a branch on the remote, if it is the last delivery or
// descends from it, and the base does not contain it; empty if not.
func (m writer) continued(ctx context.Context, branch, base, delivered string) (string, error) {
	if delivered == "" {
		return "", nil
	}
	at, err := m.commitOf(ctx, branch)
	if err != nil || at == "" {
		return "", err
	}
	descends, err := m.contains(ctx, at, delivered)
	if err != nil || !descends {
		return "", err
	}
	isMerged, err := m.contains(ctx, base, at)
	if err != nil || isMerged {
		return "", err
	}
	return at, nil
}

// Unchanged reports whether a branch on the remote is still where symphony left it. It asks
// the remote only once, and changes nothing.
func (m *Mirror) Unchanged(ctx context.Context, branch, delivered string) (bool, error) {
	at, err := m.remoteCommit(ctx, branch)
	if err != nil {
		return false, m.failed(host.CodeRepositoryUnavailable, "look for pushes to "+branch, err)
	}
	if at != delivered || !m.remote.Team {
		return at == delivered, nil
	}
	return m.attempted(ctx, branch, at) // else another machine of the team has delivered it
}

// pushedByOthers describes others' commits on the branch of a workspace, which the agent merges.
func (m *Mirror) pushedByOthers(
	ctx context.Context, head git.Head, from host.CloneAnswer,
) (p *host.Pushed, err error) {
	p = &host.Pushed{Commit: from.Pushed}
	if err := m.describePushed(ctx, from, p); err != nil {
		return nil, err
	}
	contains := m.localGit(ctx, "merge-base", "--is-ancestor", from.Pushed, head.Commit)
	p.Taken, err = m.says(withObjects(contains, head.Objects))
	return p, err
}

// describePushed lists others' commits since the last delivery.
func (m *Mirror) describePushed(ctx context.Context, from host.CloneAnswer, p *host.Pushed) error {
	since := []string{from.Pushed, "^" + from.Delivered, "^" + from.BaseCommit, "--"}
	count, err := m.output(m.localGit(ctx, append([]string{"rev-list", "--count"}, since...)...))
	if err != nil {
		return err
	}
	p.Total, err = strconv.Atoi(count)
	if err != nil {
		return err
	}
	list := []string{"log", "-z", "--format=%an%x01%s", "--max-count=" + strconv.Itoa(host.MaxPushed)}
	commits, err := m.entries(m.localGit(ctx, append(list, since...)...))
	if err != nil {
		return err
	}
	for _, entry := range commits {
		author, subject, found := strings.Cut(entry, "\x01")
		if found {
			p.Commits = append(p.Commits, host.PushedCommit{Author: author, Subject: subject})
		}
	}
	slices.Reverse(p.Commits)
	return nil
}
