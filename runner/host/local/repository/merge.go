package repository

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
)

// TryMerge implements host.Merges.
func (m *Mirror) TryMerge(ctx context.Context, q host.MergeRequest) (answer host.MergeAnswer, err error) {
	failed := func(err error) error {
		return m.failed(host.CodeRepositoryUnavailable, "try a merge of "+q.Base, ofSignal(ctx, err))
	}
	has, err := m.hasCommits(ctx, q.Head, q.BaseCommit)
	if err != nil {
		return answer, failed(err)
	}
	if !has {
		if _, err := m.current(ctx); err != nil {
			return answer, err
		}
	}
	answer.BaseCommit = q.BaseCommit
	answer.Contained, err = m.says(m.localGit(ctx, "merge-base", "--is-ancestor", answer.BaseCommit, q.Head))
	if err != nil || answer.Contained {
		return answer, failed(err)
	}
	scratch, err := os.MkdirTemp(filepath.Dir(m.path), incomingPrefix)
	if err != nil {
		return answer, failed(err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	merge := withObjects(m.mergeTree(ctx, scratch, q.Head, answer.BaseCommit), filepath.Join(m.path, "objects"))
	_, answer.Conflicts, err = m.mergedTree(merge)
	return answer, failed(err)
}

// hasCommits reports whether the mirror has these commits. It has no empty commit.
func (m *Mirror) hasCommits(ctx context.Context, ids ...string) (bool, error) {
	if !m.exists() {
		return false, nil
	}
	if err := m.renewConfig(); err != nil {
		return false, err
	}
	have, err := m.existing(ctx, "", ids)
	return len(have) == len(ids), err
}

// mergeTree is the command that merges two commits, and writes new objects to a directory. It
// exits with 1 if there are conflicts.
func (m *Mirror) mergeTree(ctx context.Context, objects, ours, theirs string) *exec.Cmd {
	merge := m.localGit(
		ctx, "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs,
	)
	merge.Env = append(merge.Env, "GIT_OBJECT_DIRECTORY="+objects, allocLimit)
	return merge
}

// mergedTree runs a mergeTree. It returns the tree, and the names of the files with conflicts.
func (m *Mirror) mergedTree(merge *exec.Cmd) (tree string, conflicts []string, err error) {
	out, err := m.output(merge)
	switch {
	case gitcmd.IsTooOld(err):
		return "", nil, errOldGit
	case err != nil && !gitcmd.ExitedWith(err, 1):
		return "", nil, err
	}
	tree, names, _ := strings.Cut(strings.TrimSuffix(out, "\x00"), "\x00")
	switch {
	case err == nil:
		return tree, nil, nil
	case names == "":
		// A file is new in a directory that the other side has split, for example.
		return tree, []string{renamedDirectories}, nil
	}
	return tree, strings.Split(names, "\x00"), nil
}

var errOldGit = reconcile.NewError(
	host.CodeRepositoryUnavailable,
	"git is older than 2.38: its merge-tree has no --write-tree",
	"upgrade git on the machine on which passes run",
)

// renamedDirectories stands for conflicts for which git names no file.
const renamedDirectories = "(renamed directories)"

// MakeMerge implements host.Merges.
func (m *Mirror) MakeMerge(ctx context.Context, q host.MergeRequest) (answer host.MergeAnswer, err error) {
	err = m.withLock(ctx, func(w writer) error {
		if _, err := w.update(ctx); err != nil {
			return err
		}
		answer, err = w.makeMerge(ctx, q)
		return m.failed(host.CodeDeliveryFailed, "merge "+q.Base, ofSignal(ctx, err))
	})
	return answer, err
}

// makeMerge is MakeMerge after the update. The objects of the merge stay in the mirror.
func (m writer) makeMerge(ctx context.Context, q host.MergeRequest) (answer host.MergeAnswer, err error) {
	if err := m.checkBranch(ctx, q.Branch, q.Base); err != nil {
		return answer, err
	}
	at, err := m.commitOf(ctx, q.Branch)
	if err != nil {
		return answer, err
	}
	if at != q.Head {
		return answer, fmt.Errorf("the branch %s is at %.12s instead of %.12s", q.Branch, at, q.Head)
	}
	answer.BaseCommit, err = m.commitOf(ctx, q.Base)
	if err != nil {
		return answer, err
	}
	if answer.BaseCommit == "" {
		return answer, fmt.Errorf("the remote has no branch %s", q.Base)
	}
	answer.Contained, err = m.contains(ctx, q.Head, answer.BaseCommit)
	if err != nil || answer.Contained {
		return answer, err
	}
	objects := filepath.Join(m.path, "objects")
	tree, conflicts, err := m.mergedTree(m.mergeTree(ctx, objects, q.Head, answer.BaseCommit))
	if err != nil || len(conflicts) > 0 {
		answer.Conflicts = conflicts
		return answer, err
	}
	answer.Commit, err = m.output(m.commitMerge(ctx, q, tree, answer.BaseCommit))
	return answer, err
}

// commitMerge is the command that makes the commit of a merge, as the author of the project's
// commits, and with the operator's key if commits are signed.
func (m *Mirror) commitMerge(ctx context.Context, q host.MergeRequest, tree, base string) *exec.Cmd {
	message := fmt.Sprintf("Merge branch '%s' into %s", q.Base, q.Branch)
	args := []string{"commit-tree", tree, "-p", q.Head, "-p", base, "-m", message}
	if m.remote.Sign {
		args = append(args, "-S")
	}
	cmd := m.signingGit(ctx, args...)
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		if m.remote.Name != "" {
			cmd.Env = append(cmd.Env, "GIT_"+who+"_NAME="+m.remote.Name)
		}
		if m.remote.Email != "" {
			cmd.Env = append(cmd.Env, "GIT_"+who+"_EMAIL="+m.remote.Email)
		}
	}
	return cmd
}

// PushMerge implements host.Merges.
func (m *Mirror) PushMerge(ctx context.Context, q host.MergeRequest, commit string) error {
	crash.At("repository.merge.push")
	ref := "refs/heads/" + q.Branch
	err := m.withLock(ctx, func(w writer) error {
		// The commit contains what is expected: nothing is overwritten.
		merge := refChange{ref: ref, expected: q.Head, commit: commit}
		return w.runWithin(w.pushCommand(ctx, []string{"--quiet"}, merge), gitcmd.NoLimit)
	})
	return m.failed(host.CodeDeliveryFailed, "", err)
}
