package repository

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/symphony-cron/symphony/runner/host"
)

// Clone fills an empty workspace as host.CloneRequest describes.
func (m *Mirror) Clone(ctx context.Context, workspace, branch, delivered string) (answer host.CloneAnswer, err error) {
	if err := m.lock(ctx); err != nil {
		return answer, err
	}
	defer m.unlock()
	if answer.Base, err = m.update(ctx); err != nil {
		return answer, err
	}
	if err := m.mayDeliver(ctx, branch, answer.Base); err != nil {
		return answer, err
	}
	base := m.commitOf(ctx, answer.Base)
	answer.Commit = base
	at := m.commitOf(ctx, branch)
	if delivered != "" && at != "" && m.contains(ctx, at, delivered) && !m.contains(ctx, base, at) {
		answer.Commit = at
	}
	return answer, m.fill(ctx, workspace, branch, answer)
}

// mayDeliver returns an error for a branch that work is never pushed to.
func (m *Mirror) mayDeliver(ctx context.Context, branch, base string) error {
	err := m.run(m.localGit(ctx, "check-ref-format", "refs/heads/"+branch))
	switch {
	case err != nil:
		err = errors.New("git does not allow this name")
	case branch == base, branch == m.headBranch():
		err = errors.New("it is the base, or the default branch of the remote")
	default:
		return nil
	}
	return m.failed(host.CodeDeliveryFailed, fmt.Sprintf("use the branch %q", branch), err)
}

// fill clones the mirror into a workspace, and checks a branch out.
func (m *Mirror) fill(ctx context.Context, workspace, branch string, from host.CloneAnswer) error {
	clone := m.command(ctx, append(m.plain(), "GIT_ALLOW_PROTOCOL=file"), []string{
		"clone", "--quiet", "--shared", "--no-checkout", "--template=", "--origin=origin", "--", m.path, workspace,
	})
	err := m.run(clone)
	in := func(env []string, args ...string) {
		if err == nil {
			cmd := m.command(ctx, append(env, "GIT_DIR="+filepath.Join(workspace, ".git"), "GIT_WORK_TREE="+workspace), args)
			cmd.Dir = workspace
			err = m.run(cmd)
		}
	}
	in(m.plain(), "config", "remote.origin.url", m.address())
	if m.remote.Name != "" {
		in(m.plain(), "config", "user.name", m.remote.Name)
	}
	if m.remote.Email != "" {
		in(m.plain(), "config", "user.email", m.remote.Email)
	}
	in(m.plain(), "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/"+from.Base)
	// With the operator's configuration, because it has the filters of Git LFS.
	in(m.env, "checkout", "--quiet", "--no-track", "-B", branch, from.Commit)
	if err != nil {
		return m.failed(host.CodeRepositoryUnavailable, "clone the mirror", err)
	}
	return nil
}
