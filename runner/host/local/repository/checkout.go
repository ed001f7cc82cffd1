package repository

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
	"github.com/symphony-cron/symphony/runner/host/local/files"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// Checkout is a repository of its own in Dir, with a clean work tree of a commit. Branch is
// empty if HEAD is on none.
type Checkout struct {
	Dir, Commit, Branch string
}

// CheckOut makes a checkout of a workspace's HEAD. The directory must not exist. Nothing in
// the workspace but the commit and its objects takes part, and git hashes all of them. A clone
// of the mirror borrows the mirror's objects, and gets its history and branches; a checkout of
// another repository gets only the commit.
func (m *Mirror) CheckOut(ctx context.Context, workspace string, cloned host.Origin, to Checkout) error {
	if err := m.fillCheckout(ctx, workspace, cloned, to); err != nil {
		return err
	}
	if err := m.copyLargeFiles(ctx, workspace, to); err != nil {
		return err
	}
	return m.checkOutFiles(ctx, to)
}

// copyLargeFiles copies the content of files of Git LFS that the remote may not contain yet.
func (m *Mirror) copyLargeFiles(ctx context.Context, workspace string, to Checkout) error {
	head, err := git.HeadOf(workspace)
	if err != nil {
		return nil //nolint:nilerr // a worktree, for instance, shares its content with other work
	}
	l := largeFiles{
		Mirror:    m,
		gitDir:    filepath.Join(to.Dir, ".git"),
		commit:    to.Commit,
		known:     []string{"--remotes", "--tags"},
		workspace: head.GitDir(),
	}
	list, err := l.pointers(ctx)
	if err != nil {
		return err
	}
	_, _, err = l.copyContent(ctx, list[:min(len(list), mostPointers)], l.gitDir)
	return err
}

// fillCheckout makes the repository, without files of the work tree.
func (m *Mirror) fillCheckout(ctx context.Context, workspace string, cloned host.Origin, to Checkout) error {
	head, err := git.HeadOf(workspace)
	isBorrower := cloned.URL != "" || err == nil && m.checkBorrower(head.Objects) == nil
	if !m.exists() || !isBorrower {
		return m.packInto(ctx, workspace, to)
	}
	return m.WithHashedClone(ctx, workspace, git.Clone{Origin: cloned}, func(work git.Clone) error {
		if err := host.CheckCommit(work.Commit, to.Commit); err != nil {
			return err
		}
		err := m.withLock(ctx, func(writer) error { return clone{m, to.Dir, to.Branch}.copyMirror(ctx) })
		if err != nil || len(work.Objects) == 1 {
			return err // all objects are in the mirror
		}
		packs := filepath.Join(to.Dir, ".git", "objects", "pack") // which is empty
		if err := os.Remove(packs); err != nil {
			return err
		}
		return os.Rename(filepath.Join(work.Objects[0], "pack"), packs)
	})
}

// packInto makes a new repository with the commit and its files, and without its history.
func (m *Mirror) packInto(ctx context.Context, workspace string, to Checkout) error {
	format := "sha1"
	if len(to.Commit) == sha256Length {
		format = "sha256"
	}
	if err := files.OwnDir(filepath.Dir(m.path)); err != nil {
		return err
	}
	create := []string{"init", "--quiet", "--template=", "--object-format=" + format, "--", to.Dir}
	if err := m.run(m.command(ctx, gitcmd.Nobody, create...)); err != nil {
		return err
	}
	pack, err := m.temporary()
	if err != nil {
		return err
	}
	defer pack.Close()
	if err := git.PackTree(ctx, workspace, to.Commit, pack); err != nil {
		return err
	}
	if _, err := pack.Seek(0, io.SeekStart); err != nil {
		return err
	}
	shallow := filepath.Join(to.Dir, ".git", "shallow") // its parents are missing
	if err := os.WriteFile(shallow, []byte(to.Commit+"\n"), 0o600); err != nil {
		return err
	}
	index := m.gitIn(ctx, to.Dir, gitcmd.Nobody, "index-pack", "--stdin")
	index.Env = append(index.Env, allocLimit)
	index.Stdin = pack
	return m.run(index)
}

// gitIn is git in a repository with a work tree.
func (c *commands) gitIn(ctx context.Context, dir string, trust gitcmd.Trust, args ...string) *exec.Cmd {
	return withDir(c.commandAt(ctx, dir, trust, args...), filepath.Join(dir, ".git"), dir)
}

// checkOutFiles writes the files, with the operator's configuration, because that contains the
// filters of Git LFS.
func (m *Mirror) checkOutFiles(ctx context.Context, to Checkout) error {
	if err := m.configure(ctx, to.Dir); err != nil {
		return err
	}
	how := []string{"--detach", to.Commit}
	valid, err := git.IsBranchName(ctx, to.Branch)
	if err != nil {
		return fmt.Errorf("check the name of the branch: %w", err)
	}
	if valid {
		how = []string{"--no-track", "-B", to.Branch, to.Commit}
	}
	checkOut := m.gitIn(ctx, to.Dir, gitcmd.Operator, append([]string{"checkout", "--quiet"}, how...)...)
	if err := m.run(checkOut); err != nil {
		return ofSignal(ctx, err)
	}
	if !m.remote.Submodules {
		return nil
	}
	gitDir := filepath.Join(to.Dir, ".git")
	return m.addSubmodules(ctx, to.Dir, gitDir, to.Commit, filepath.Join(gitDir, "objects"), 0)
}

// Path is the directory of the mirror, which may not exist yet.
func (m *Mirror) Path() string { return m.path }
