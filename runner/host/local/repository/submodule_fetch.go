package repository

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/files"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// fetchSubmodules fetches the commits of submodules that are in the base, or in others' pushed
// commits, but not in HEAD of a workspace. After a merge the agent can check them out with git
// submodule update, without a network.
func (m *Mirror) fetchSubmodules(
	ctx context.Context, workspace string, head git.Head, from host.CloneAnswer,
) error {
	if !m.remote.Submodules {
		return nil
	}
	for _, commit := range []string{from.BaseCommit, from.Pushed} {
		if commit == "" {
			continue
		}
		list, err := m.submodulesSince(ctx, head.Commit, commit, head.Objects)
		if err != nil {
			return err
		}
		for _, s := range list[:min(len(list), mostSubmodules)] {
			if err := m.fetchSubmodule(ctx, workspace, s); err != nil {
				return s.failed(err)
			}
		}
	}
	return nil
}

// fetchSubmodule brings the commit of a submodule into its mirror, and a branch that leads to
// it into the submodule of a workspace. git submodule update needs such a branch.
func (m *Mirror) fetchSubmodule(ctx context.Context, workspace string, s submodule) error {
	if s.url == "" {
		return nil
	}
	address, err := m.addressOf(s.url)
	if err != nil {
		return err
	}
	from := m.mirrorOf(address)
	branch, tip, err := from.branchWith(ctx, s.commit)
	if err != nil || s.was == "" || branch == "" {
		return err
	}
	return git.SetSubmoduleBranch(workspace, s.path, branch, tip)
}

// branchWith fetches, unless a branch of the mirror contains a commit, and returns such a
// branch and its commit; empty if there is none.
func (m *Mirror) branchWith(ctx context.Context, commit string) (branch, tip string, err error) {
	list := func() (string, error) {
		const format = "--format=%(objectname) %(refname:lstrip=2)"
		list := m.localGit(ctx, "for-each-ref", "--count=1", format, "--contains="+commit, "refs/heads")
		return m.output(list)
	}
	found := ""
	if m.exists() && m.renewConfig() == nil {
		found, _ = list() // without the commit git reports an error
	}
	if found == "" {
		if _, err := m.current(ctx); err != nil {
			return "", "", err
		}
		found, _ = list()
	}
	tip, branch, _ = strings.Cut(found, " ")
	return branch, tip, nil
}

// renewSubmodule sets up a submodule of a workspace again, at its new commit. It must have
// no work of its own. After an error it is empty, and the next fetch sets it up.
func (m *Mirror) renewSubmodule(ctx context.Context, workspace string, s submodule) error {
	gitDir := filepath.Join(workspace, ".git")
	at := filepath.Join(workspace, s.path)
	empty := func(ctx context.Context) error {
		for _, dir := range []string{at, s.gitDir(gitDir)} {
			if err := files.RemoveTree(ctx, dir); err != nil {
				return err
			}
		}
		return os.MkdirAll(at, 0o755)
	}
	if err := empty(ctx); err != nil {
		return err
	}
	err := m.addSubmodule(ctx, workspace, gitDir, s, 0)
	if err != nil {
		return errors.Join(err, empty(context.WithoutCancel(ctx)))
	}
	return nil
}

// submoduleWork returns why a submodule of a workspace can't be set up again; empty if it can.
func (m *Mirror) submoduleWork(ctx context.Context, workspace string, s submodule) string {
	gitDir := filepath.Join(workspace, ".git")
	at := filepath.Join(workspace, s.path)
	own := s.gitDir(gitDir)
	if err := s.check(workspace, gitDir); err != nil {
		return s.failed(err).Error()
	}
	_, err := os.Lstat(filepath.Join(at, ".git"))
	commit, _ := git.Began(ctx, at)
	if err == nil && commit != s.was && commit != s.commit {
		return s.failed(errors.New("it is at another commit")).Error()
	}
	for _, dir := range []string{at, own} {
		work, _ := git.Unsaved(ctx, dir, "", "", git.AccountFiles{}, at, own)
		if work != "" {
			return s.failed(errors.New("it has " + work)).Error()
		}
	}
	return ""
}
