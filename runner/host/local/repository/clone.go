package repository

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// Clone fills an empty workspace as host.CloneRequest describes.
func (m *Mirror) Clone(ctx context.Context, workspace, branch, delivered string) (host.CloneAnswer, error) {
	return m.fill(ctx, workspace, branch, func(w writer) (host.CloneAnswer, error) { return w.fetch(ctx, branch, delivered) })
}

// fill fills an empty workspace after update, which brings into the mirror what the clone needs.
func (m *Mirror) fill(
	ctx context.Context, workspace, branch string, update func(writer) (host.CloneAnswer, error),
) (answer host.CloneAnswer, err error) {
	err = m.withLock(ctx, func(w writer) (err error) {
		if answer, err = update(w); err != nil {
			return err
		}
		return m.copyTo(ctx, workspace)
	})
	if err == nil {
		crash.At("repository.clone.copied")
		err = m.checkOut(ctx, workspace, branch, answer)
	}
	return answer, err
}

// fetch updates the mirror, and chooses the commit to check out.
func (m writer) fetch(ctx context.Context, branch, delivered string) (answer host.CloneAnswer, err error) {
	if answer.Base, err = m.update(ctx); err == nil {
		err = m.checkBranch(ctx, branch, answer.Base)
	}
	if err != nil {
		return answer, err
	}
	base := m.commitOf(ctx, answer.Base)
	answer.Commit, answer.BaseCommit = base, base
	at := m.commitOf(ctx, branch)
	if delivered != "" && at != "" && m.contains(ctx, at, delivered) && !m.contains(ctx, base, at) {
		answer.Commit = at
	}
	return answer, nil
}

// checkBranch returns an error for a branch that work is never pushed to.
func (m *Mirror) checkBranch(ctx context.Context, branch, base string) error {
	why := "it is the base, or the default branch of the remote"
	switch {
	case m.run(m.localGit(ctx, "check-ref-format", "--branch", branch)) != nil:
		why = "git does not allow this name"
	case branch != base && branch != m.headBranch():
		return nil
	}
	return reconcile.NewError(host.CodeInvalidBranch, fmt.Sprintf("repository.branch gives %q: %s", branch, why),
		"use issue.identifier, or filters such as replace, in repository.branch")
}

// copyTo makes an empty workspace a clone of the mirror, without a work tree.
func (m *Mirror) copyTo(ctx context.Context, workspace string) error {
	err := m.run(m.command(ctx, append(m.plain(), "GIT_ALLOW_PROTOCOL=file"), []string{
		"clone", "--quiet", "--shared", "--no-checkout", "--template=", "--origin=origin", "--", m.path, workspace,
	}))
	if err != nil {
		return m.failed(host.CodeRepositoryUnavailable, "clone the mirror", ofSignal(ctx, err))
	}
	for _, dir := range []string{"info", "hooks"} { // scripts that write there rely on git's template
		if err := os.Mkdir(filepath.Join(workspace, ".git", dir), 0o755); err != nil {
			return files.Failed(err, "clone the mirror")
		}
	}
	return nil
}

// checkOut sets the clone up for work on a branch.
func (m *Mirror) checkOut(ctx context.Context, workspace, branch string, from host.CloneAnswer) (err error) {
	in := func(env []string, args ...string) {
		if err == nil {
			cmd := m.command(ctx, append(slices.Clone(env), "GIT_DIR="+filepath.Join(workspace, ".git"), "GIT_WORK_TREE="+workspace), args)
			cmd.Dir = workspace
			err = ofSignal(ctx, m.run(cmd))
		}
	}
	in(m.plain(), "config", "remote.origin.url", m.Address())
	if m.remote.Name != "" {
		in(m.plain(), "config", "user.name", m.remote.Name)
	}
	if m.remote.Email != "" {
		in(m.plain(), "config", "user.email", m.remote.Email)
	}
	if err == nil {
		in(m.env, "var", "GIT_COMMITTER_IDENT")
		if err != nil && !errors.As(err, &killedError{}) {
			return &reconcile.Error{
				Code: host.CodeNoIdentity, Message: "the agent's commits would have no author: " + err.Error(), Err: err,
				Hint: "set repository.git_name and repository.git_email, or user.name and user.email with git config --global",
			}
		}
	}
	in(m.plain(), "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/"+from.Base)
	// With the operator's configuration, because it has the filters of Git LFS.
	in(m.env, "checkout", "--quiet", "--no-track", "-B", branch, from.Commit)
	return m.failed(host.CodeRepositoryUnavailable, "check out "+branch, err)
}
