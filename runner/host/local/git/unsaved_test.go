package git

import (
	"os"
	"path/filepath"
	"testing"
)

// remoteClone is a clone of a repository with one commit, and the path of that repository.
func remoteClone(t *testing.T, dir string) (remote string) {
	t.Helper()
	remote = filepath.Join(realTemp(t), "remote")
	clone(t, remote)
	check(t, os.MkdirAll(filepath.Dir(dir), 0o700))
	git(t, filepath.Dir(dir), "clone", "-q", remote, dir)
	return remote
}

// A workspace is saved when a remote has every commit and a commit has every change.
func TestUnsaved(t *testing.T) {
	t.Parallel()
	commit := func(t *testing.T, dir string) { git(t, dir, "commit", "-q", "--allow-empty", "-m", "x") }
	for name, c := range map[string]struct {
		do   func(t *testing.T, dir string)
		want string
	}{
		"a fresh clone": {func(*testing.T, string) {}, ""},
		"pushed": {func(t *testing.T, dir string) {
			commit(t, dir)
			git(t, dir, "push", "-q", "origin", "HEAD:topic")
		}, ""},
		"a commit": {commit, "1 commit not on any remote"},
		"a commit on a branch": {func(t *testing.T, dir string) {
			git(t, dir, "switch", "-qc", "b")
			commit(t, dir)
			git(t, dir, "switch", "-q", "main")
		}, "1 commit not on any remote"},
		"a detached HEAD": {func(t *testing.T, dir string) { git(t, dir, "switch", "-q", "--detach"); commit(t, dir) }, "1 commit not on any remote"},
		"a packed branch": {func(t *testing.T, dir string) {
			git(t, dir, "switch", "-qc", "b")
			commit(t, dir)
			git(t, dir, "switch", "-q", "main")
			git(t, dir, "pack-refs", "--all")
		}, "1 commit not on any remote"},
		"a tag": {func(t *testing.T, dir string) {
			git(t, dir, "switch", "-q", "--detach")
			commit(t, dir)
			git(t, dir, "tag", "v1")
			git(t, dir, "switch", "-q", "main")
		}, "1 commit not on any remote"},
		"two stashes": {func(t *testing.T, dir string) {
			for _, content := range []string{"a", "b"} {
				write(t, filepath.Join(dir, "file"), content)
				git(t, dir, "add", "file")
				git(t, dir, "stash", "-q")
			}
		}, "4 commits not on any remote"},
		"a changed file": {func(t *testing.T, dir string) { write(t, filepath.Join(dir, "file"), "changed") }, "1 change not committed"},
		"a new file":     {func(t *testing.T, dir string) { write(t, filepath.Join(dir, "a", "new"), "") }, "1 change not committed"},
		"an ignored one": {func(t *testing.T, dir string) { write(t, filepath.Join(dir, "x.o"), "") }, ""},
		"a linked worktree's commit": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, ".git", "info", "exclude"), "wt\n")
			git(t, dir, "worktree", "add", "-q", "--detach", "wt")
			commit(t, filepath.Join(dir, "wt"))
		}, "1 commit not on any remote, in wt 1 commit not on any remote"},
		"a repository below": {func(t *testing.T, dir string) { clone(t, filepath.Join(dir, "sub")) }, "in sub 1 commit not on any remote"},
		"a submodule": {func(t *testing.T, dir string) {
			other := filepath.Join(realTemp(t), "other")
			clone(t, other)
			git(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other, "sub")
			git(t, dir, "commit", "-qm", "sub")
			git(t, dir, "push", "-q", "origin", "HEAD:topic")
			commit(t, filepath.Join(dir, "sub"))
			git(t, dir, "submodule", "--quiet", "deinit", "--force", "--all")
		}, "in submodule sub 1 commit not on any remote"},
		"without a remote": {func(t *testing.T, dir string) { check(t, os.RemoveAll(dir)); clone(t, dir) }, "1 commit not on any remote"},
		"a repository without commits": {func(t *testing.T, dir string) {
			check(t, os.RemoveAll(dir))
			check(t, os.Mkdir(dir, 0o700))
			git(t, dir, "init", "-q")
		}, ""},
		"no repository":      {func(t *testing.T, dir string) { check(t, os.RemoveAll(filepath.Join(dir, ".git"))) }, ""},
		"nothing":            {func(t *testing.T, dir string) { check(t, os.RemoveAll(dir)) }, ""},
		"a broken reference": {func(t *testing.T, dir string) { write(t, filepath.Join(dir, ".git", "refs", "heads", "x"), "?") }, "commits that git can't count"},
		"a broken HEAD":      {func(t *testing.T, dir string) { write(t, filepath.Join(dir, ".git", "HEAD"), "?") }, "a repository that can't be read"},
		"a .git that leads nowhere": {func(t *testing.T, dir string) {
			check(t, os.RemoveAll(filepath.Join(dir, ".git")))
			write(t, filepath.Join(dir, ".git"), "gitdir: /nowhere\n")
		}, "a repository that can't be read"},
		"a configuration that runs a program": {func(t *testing.T, dir string) {
			git(t, dir, "config", "core.fsmonitor", "touch "+dir+"/ran; false")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(realTemp(t), "ws")
			remoteClone(t, dir)
			c.do(t, dir)
			if got := Unsaved(t.Context(), dir); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// A linked worktree leaves its branches in the main repository, but not the commits of a detached HEAD.
func TestUnsavedLinkedWorktree(t *testing.T) {
	t.Parallel()
	main := filepath.Join(realTemp(t), "main")
	remoteClone(t, main)
	dir := filepath.Join(realTemp(t), "ws")
	git(t, main, "worktree", "add", "-q", "-b", "topic", dir)
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "x")
	if got := Unsaved(t.Context(), dir); got != "" {
		t.Errorf("on a branch: %q", got)
	}
	git(t, dir, "switch", "-q", "--detach")
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "y")
	if got := Unsaved(t.Context(), dir); got != "1 commit not on any remote" {
		t.Errorf("detached: %q", got)
	}
}
