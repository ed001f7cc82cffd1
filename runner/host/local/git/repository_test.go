package git

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// gitCommand is the real git with an account of its own.
func gitCommand(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
	}
	return cmd
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := gitCommand(t, dir, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// clone makes a repository with one commit at dir.
func clone(t *testing.T, dir string) {
	t.Helper()
	check(t, os.MkdirAll(dir, 0o700))
	git(t, dir, "init", "-q", "-b", "main")
	write(t, filepath.Join(dir, "file"), "one\n")
	write(t, filepath.Join(dir, ".gitignore"), "*.o\n")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "one")
}

func realTemp(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	check(t, err)
	return dir
}

func wantWritable(t *testing.T, dir string, want ...string) {
	t.Helper()
	wantOpened(t, nil, dir, want...)
}

func wantOpened(t *testing.T, opened []string, dir string, want ...string) {
	t.Helper()
	got, err := Writable(dir, opened...)
	check(t, err)
	if !slices.Equal(got, want) {
		t.Fatalf("%s: %q, want %q", dir, got, want)
	}
}

func TestGitWritableOfAClone(t *testing.T) {
	dir := realTemp(t)
	wantWritable(t, dir)
	wantWritable(t, filepath.Join(dir, "none"))
	clone(t, filepath.Join(dir, "repo"))
	wantWritable(t, filepath.Join(dir, "repo"), filepath.Join(dir, "repo", ".git"))
	// A repository around the directory is not the workspace's.
	check(t, os.Mkdir(filepath.Join(dir, "repo", "sub"), 0o700))
	wantWritable(t, filepath.Join(dir, "repo", "sub"))
	check(t, os.Symlink("repo", filepath.Join(dir, "link")))
	wantWritable(t, filepath.Join(dir, "link"), filepath.Join(dir, "repo", ".git"))
}

func TestGitWritableOfALinkedWorktree(t *testing.T) {
	dir := realTemp(t)
	main := filepath.Join(dir, "main")
	clone(t, main)
	tree := filepath.Join(dir, "spaces", "ABC-1")
	check(t, os.MkdirAll(tree, 0o700)) // git takes an empty directory, as a workspace is
	git(t, main, "worktree", "add", "-q", "-b", "abc", tree)
	meta := filepath.Join(main, ".git")
	want := []string{
		filepath.Join(meta, "worktrees", "ABC-1"), filepath.Join(meta, "objects"), filepath.Join(meta, "refs"),
		filepath.Join(meta, "logs"),
	}
	wantWritable(t, tree, want...)
	if root, err := Root(tree); err != nil || root != main {
		t.Fatalf("%s, %v", root, err)
	}
	// A worktree made with relative paths, as newer versions of git can.
	rel, err := filepath.Rel(tree, want[0])
	check(t, err)
	write(t, filepath.Join(tree, ".git"), "gitdir: "+rel+"\n")
	back, err := filepath.Rel(want[0], filepath.Join(tree, ".git"))
	check(t, err)
	write(t, filepath.Join(want[0], "gitdir"), back+"\n")
	wantWritable(t, tree, want...)
}

// A bare main repository has no logs; one whose references are tables has a directory for these, and one that records
// resolutions of conflicts for them.
func TestGitWritableOfABareRepositorysWorktree(t *testing.T) {
	dir := realTemp(t)
	clone(t, filepath.Join(dir, "repo"))
	bare, tree := filepath.Join(dir, "store.git"), filepath.Join(dir, "tree")
	git(t, dir, "clone", "-q", "--bare", "repo", bare)
	git(t, bare, "worktree", "add", "-q", tree)
	own, objects, refs := filepath.Join(bare, "worktrees", "tree"), filepath.Join(bare, "objects"), filepath.Join(bare, "refs")
	wantWritable(t, tree, own, objects, refs)
	for _, name := range []string{"logs", "reftable", "rr-cache", "hooks", "info", "lfs"} {
		check(t, os.MkdirAll(filepath.Join(bare, name), 0o700))
	}
	wantWritable(t, tree, own, objects, refs, filepath.Join(bare, "logs"), filepath.Join(bare, "reftable"), filepath.Join(bare, "rr-cache"))
}

// The git directory of a submodule's checkout lies in that of the repository around it.
func TestGitWritableOfASubmodule(t *testing.T) {
	dir := realTemp(t)
	lib, super := filepath.Join(dir, "lib"), filepath.Join(dir, "super")
	clone(t, lib)
	clone(t, super)
	git(t, super, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib, "lib")
	meta := filepath.Join(super, ".git", "modules", "lib")
	wantWritable(t, super, filepath.Join(super, ".git"))
	wantWritable(t, filepath.Join(super, "lib"))
	wantOpened(t, []string{filepath.Join(super, ".git")}, filepath.Join(super, "lib"), meta)
}

// A git directory elsewhere is named where the operator has opened a directory around it, and only there.
func TestGitWritableOfASeparateDirectory(t *testing.T) {
	dir := realTemp(t)
	clone(t, filepath.Join(dir, "repo"))
	tree, meta := filepath.Join(dir, "tree"), filepath.Join(dir, "metas", "tree")
	check(t, os.Mkdir(filepath.Dir(meta), 0o700))
	git(t, dir, "clone", "-q", "--separate-git-dir", meta, "repo", tree)
	wantWritable(t, tree)
	check(t, os.Symlink("metas", filepath.Join(dir, "link")))
	for _, opened := range [][]string{{filepath.Dir(meta)}, {filepath.Join(dir, "none"), filepath.Join(dir, "link")}} {
		wantOpened(t, opened, tree, meta)
	}
	// What is opened within it, or beside it, does not open it.
	for _, opened := range []string{filepath.Join(meta, "objects"), filepath.Join(dir, "repo"), filepath.Join(dir, "met")} {
		wantOpened(t, []string{opened}, tree)
	}
	// Nor does what the agent puts there to lead out of it.
	check(t, os.Rename(meta, meta+".old"))
	check(t, os.Symlink(filepath.Join(dir, "repo", ".git"), meta))
	wantOpened(t, []string{filepath.Dir(meta)}, tree)
	check(t, os.Remove(meta))
	check(t, os.Rename(meta+".old", meta))
	// A worktree's main repository is not opened by this: its configuration and its hooks may be the operator's own.
	linked := filepath.Join(dir, "linked")
	git(t, tree, "worktree", "add", "-q", linked)
	wantOpened(t, []string{filepath.Dir(meta)}, linked,
		filepath.Join(meta, "worktrees", "linked"), filepath.Join(meta, "objects"), filepath.Join(meta, "refs"), filepath.Join(meta, "logs"))
}

// These directories are enough for git, and none can be spared: proved as a user who can write only them.
func TestGitWritableIsExactlyWhatCommitNeeds(t *testing.T) {
	if !unprivileged(t) {
		return
	}
	dir := realTemp(t)
	main, tree := filepath.Join(dir, "main"), filepath.Join(dir, "tree")
	clone(t, main)
	git(t, main, "worktree", "add", "-q", "-b", "abc", tree)
	list, err := Writable(tree)
	check(t, err)
	var closed []string
	check(t, filepath.WalkDir(filepath.Join(main, ".git"), func(path string, d os.DirEntry, err error) error {
		inside := func(w string) bool { return path == w || within(w, path) }
		if err == nil && d.IsDir() && !slices.ContainsFunc(list, inside) {
			closed = append(closed, path)
		}
		return err
	}))
	if len(closed) < 3 { // .git, hooks, info, worktrees, …
		t.Fatalf("nothing is protected: %v", closed)
	}
	chmod := func(mode os.FileMode, paths ...string) {
		t.Helper()
		for _, p := range paths {
			check(t, os.Chmod(p, mode))
		}
	}
	chmod(0o500, closed...)
	t.Cleanup(func() { chmod(0o700, closed...) })
	write(t, filepath.Join(tree, "file"), "two\n")
	git(t, tree, "commit", "-q", "-a", "-m", "two")
	if git(t, tree, "log", "--format=%s", "-1") != "two" {
		t.Fatal("no commit")
	}
}

// The agent can write the files that say where the repository is. Nothing it writes there may open a
// directory outside its workspace.
func TestGitWritableIsNotLedOut(t *testing.T) {
	dir := realTemp(t)
	victim := filepath.Join(dir, "victim")
	clone(t, victim)
	git(t, victim, "worktree", "add", "-q", filepath.Join(dir, "theirs"))
	theirs := filepath.Join(victim, ".git", "worktrees", "theirs")
	for name, arrange := range map[string]func(ws string){
		"plain directory":     func(ws string) { write(t, ws+"/.git", "gitdir: "+victim+"\n") },
		"another clone":       func(ws string) { write(t, ws+"/.git", "gitdir: "+victim+"/.git\n") },
		"another's worktree":  func(ws string) { write(t, ws+"/.git", "gitdir: "+theirs+"\n") },
		"link to a clone":     func(ws string) { check(t, os.Symlink(victim+"/.git", ws+"/.git")) },
		"link to a worktree":  func(ws string) { check(t, os.Symlink(dir+"/theirs/.git", ws+"/.git")) },
		"common dir outside":  func(ws string) { forge(t, ws, ws+"/fake", victim+"/.git") },
		"common dir in .git":  func(ws string) { write(t, ws+"/.git/commondir", victim+"/.git\n") },
		"git dir by a link":   func(ws string) { check(t, os.Symlink(theirs, ws+"/g")); write(t, ws+"/.git", "gitdir: g\n") },
		"outside of the tree": func(ws string) { write(t, ws+"/.git", "gitdir: ..\n") },
		"root":                func(ws string) { write(t, ws+"/.git", "gitdir: /\n") },
		"nonsense":            func(ws string) { write(t, ws+"/.git", "gitdir:\n") },
		"two lines":           func(ws string) { write(t, ws+"/.git", "gitdir: x\n"+victim+"\n") },
		"no such place":       func(ws string) { write(t, ws+"/.git", "gitdir: /nowhere/at/all\n") },
		"back by a link": func(ws string) {
			// theirs points back to dir/theirs/.git; a link of that name must not make it ours.
			write(t, ws+"/.git", "gitdir: "+theirs+"\n")
			check(t, os.Symlink(ws, ws+"/theirs"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			ws := filepath.Join(realTemp(t), "ws")
			check(t, os.Mkdir(ws, 0o700))
			arrange(ws)
			list, err := Writable(ws)
			check(t, err)
			for _, path := range list {
				real, err := filepath.EvalSymlinks(path)
				check(t, err)
				if !within(ws, real) {
					t.Errorf("%s leads to %s", path, real)
				}
			}
			_, err = Root(ws)
			check(t, err)
			_, err = Fingerprint(t.Context(), ws)
			check(t, err)
		})
	}
	t.Run("objects by a link", func(t *testing.T) {
		ws := filepath.Join(realTemp(t), "ws")
		check(t, os.Mkdir(ws, 0o700))
		common := filepath.Join(ws, "common")
		forge(t, ws, filepath.Join(common, "worktrees", "w"), common)
		check(t, os.Symlink(victim, filepath.Join(common, "objects")))
		check(t, os.Mkdir(filepath.Join(common, "refs"), 0o700))
		wantWritable(t, ws, filepath.Join(common, "worktrees", "w"), filepath.Join(common, "refs"))
	})
}

// forge writes what makes ws look like a worktree with this git directory and common directory.
func forge(t *testing.T, ws, gitDir, common string) {
	t.Helper()
	write(t, filepath.Join(ws, ".git"), "gitdir: "+gitDir+"\n")
	write(t, filepath.Join(gitDir, "commondir"), common+"\n")
	write(t, filepath.Join(gitDir, "gitdir"), filepath.Join(ws, ".git")+"\n")
	write(t, filepath.Join(gitDir, "HEAD"), "ref: refs/heads/main\n")
}

func TestRepoRoot(t *testing.T) {
	dir := realTemp(t)
	repo := filepath.Join(dir, "repo")
	clone(t, repo)
	below := filepath.Join(repo, "a", "b")
	check(t, os.MkdirAll(below, 0o700))
	plain := filepath.Join(dir, "plain")
	check(t, os.Mkdir(plain, 0o700))
	bare := filepath.Join(dir, "store", "bare.git")
	git(t, dir, "clone", "-q", "--bare", repo, bare)
	tree := filepath.Join(dir, "tree")
	git(t, bare, "worktree", "add", "-q", tree)
	separate := filepath.Join(dir, "separate")
	git(t, dir, "clone", "-q", "--separate-git-dir", filepath.Join(dir, "elsewhere"), repo, separate)
	for from, want := range map[string]string{
		repo: repo, below: repo, plain: plain, tree: filepath.Dir(bare), separate: separate,
	} {
		if got, err := Root(from); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", from, got, err, want)
		}
	}
	wantWritable(t, separate) // outside, and nothing there points back
	_, err := Root(filepath.Join(dir, "none"))
	wantCode(t, err, files.CodeFailed)
}
