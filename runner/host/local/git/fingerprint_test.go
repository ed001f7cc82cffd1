package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/symphony-cron/symphony/runner/host/local/files"
)

func fingerprintOf(t *testing.T, dir, how string) string {
	t.Helper()
	print, err := Fingerprint(t.Context(), dir)
	check(t, err)
	if !strings.HasPrefix(print, how+":") {
		t.Fatalf("%s, want %s", print, how)
	}
	return print
}

// step says what is done, and whether it is progress.
type step struct {
	name     string
	progress bool
	do       func(dir string)
}

func steps(t *testing.T, dir, how string, list []step) {
	t.Helper()
	before := fingerprintOf(t, dir, how)
	for _, s := range list {
		if again := fingerprintOf(t, dir, how); again != before {
			t.Fatalf("before %q: it changes by itself", s.name)
		}
		s.do(dir)
		after := fingerprintOf(t, dir, how)
		if (after != before) != s.progress {
			t.Errorf("%s: progress %v, want %v", s.name, after != before, s.progress)
		}
		before = after
	}
}

func gitSteps(t *testing.T) []step {
	run := func(args ...string) func(string) { return func(dir string) { git(t, dir, args...) } }
	put := func(name, content string) func(string) {
		return func(dir string) { write(t, filepath.Join(dir, name), content) }
	}
	return []step{
		{"nothing", false, func(string) {}},
		{"git status", false, run("status")},
		{"touch", false, func(dir string) {
			check(t, os.Chtimes(filepath.Join(dir, "file"), longAgo, longAgo))
		}},
		{"change", true, put("file", "two\n")},
		{"change again, same size", true, put("file", "six\n")},
		{"stage", true, run("add", "file")},
		{"commit", true, run("commit", "-q", "-m", "two")},
		{"pack references", false, run("pack-refs", "--all")},
		{"collect garbage", false, run("gc", "-q")},
		{"new branch", true, run("checkout", "-q", "-b", "topic")},
		{"new file", true, put("new\nline", "x")},
		{"deep file", true, put("a/b/c", "x")},
		{"deep file again", true, put("a/b/c", "xy")},
		{"ignored file", false, put("x.o", "x")},
		{"deletion", true, func(dir string) { check(t, os.Remove(filepath.Join(dir, "file"))) }},
		{"empty commit", true, run("commit", "-q", "--allow-empty", "-m", "none")},
		{"detach", true, run("checkout", "-q", "--detach")},
		{"nested repository", true, func(dir string) { clone(t, filepath.Join(dir, "nested")) }},
		{"in the nested repository", true, put("nested/sub/file", "x")},
		{"in the nested repository again", true, put("nested/sub/file", "xy")},
		{"amend", true, run("commit", "-q", "--amend", "--allow-empty", "-m", "other")},
		{"excluded file", false, func(dir string) {
			exclude := git(t, dir, "rev-parse", "--git-path", "info/exclude")
			if !filepath.IsAbs(exclude) {
				exclude = filepath.Join(dir, exclude)
			}
			write(t, exclude, "local\n")
			write(t, filepath.Join(dir, "local"), "x")
		}},
	}
}

func TestFingerprintOfAClone(t *testing.T) {
	dir := filepath.Join(realTemp(t), "repo")
	clone(t, dir)
	steps(t, dir, "git", gitSteps(t))
}

func TestFingerprintOfALinkedWorktree(t *testing.T) {
	dir := realTemp(t)
	main, tree := filepath.Join(dir, "main"), filepath.Join(dir, "tree")
	clone(t, main)
	git(t, main, "worktree", "add", "-q", "-b", "abc", tree)
	steps(t, tree, "git", gitSteps(t))
}

func TestFingerprintOfSpecialRepositories(t *testing.T) {
	put := func(name string) step {
		return step{"change of " + name, true, func(dir string) { write(t, filepath.Join(dir, name), "x") }}
	}
	t.Run("without a commit", func(t *testing.T) {
		dir := realTemp(t)
		git(t, dir, "init", "-q")
		steps(t, dir, "git", []step{put("file"), {"stage", true, func(dir string) { git(t, dir, "add", ".") }}})
	})
	t.Run("sha256", func(t *testing.T) {
		dir := realTemp(t)
		git(t, dir, "init", "-q", "--object-format=sha256")
		git(t, dir, "commit", "-q", "--allow-empty", "-m", "one")
		steps(t, dir, "git", []step{put("file")})
	})
	t.Run("shallow, shared objects", func(t *testing.T) {
		dir := realTemp(t)
		clone(t, filepath.Join(dir, "from"))
		git(t, dir, "clone", "-q", "--shared", "from", "shared")
		steps(t, filepath.Join(dir, "shared"), "git", []step{put("file")})
		git(t, dir, "clone", "-q", "--depth=1", "file://"+dir+"/from", "shallow")
		steps(t, filepath.Join(dir, "shallow"), "git", []step{put("file")})
	})
	t.Run("split index", func(t *testing.T) {
		dir := filepath.Join(realTemp(t), "repo")
		clone(t, dir)
		git(t, dir, "update-index", "--split-index")
		steps(t, dir, "git", []step{put("file"), put("sub/new"), {"commit", true, func(dir string) {
			git(t, dir, "commit", "-q", "-a", "-m", "two")
		}}})
	})
	t.Run("index of a later version", func(t *testing.T) {
		dir := filepath.Join(realTemp(t), "repo")
		clone(t, dir)
		write(t, filepath.Join(dir, ".git", "index"), "DIRC\x00\x00\x00\x09")
		steps(t, dir, "walk", []step{put("file"), put("sub/new"), {"index", true, func(dir string) {
			write(t, filepath.Join(dir, ".git", "index"), "DIRC\x00\x00\x00\x0a")
		}}})
	})
	t.Run("torn HEAD", func(t *testing.T) {
		dir := filepath.Join(realTemp(t), "repo")
		clone(t, dir)
		write(t, filepath.Join(dir, ".git", "HEAD"), "?\n")
		steps(t, dir, "walk", []step{put("file")})
	})
}

func TestFingerprintWithoutARepository(t *testing.T) {
	dir := realTemp(t)
	put := func(name, content string) func(string) {
		return func(dir string) { write(t, filepath.Join(dir, name), content) }
	}
	steps(t, dir, "walk", []step{
		{"nothing", false, func(string) {}},
		{"file", true, put("a", "1")},
		{"same size", true, put("a", "2")},
		{"deep", true, put("d/e/f", "1")},
		{"rename", true, func(dir string) { check(t, os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "b"))) }},
		{"deletion", true, func(dir string) { check(t, os.Remove(filepath.Join(dir, "b"))) }},
		{"loop of links", true, func(dir string) { check(t, os.Symlink(".", filepath.Join(dir, "self"))) }},
		{"empty directory", true, func(dir string) { check(t, os.Mkdir(filepath.Join(dir, "empty"), 0o700)) }},
	})
}

// Everything that a repository can tell git to run, arranged so that plain git status would run it.
func TestFingerprintRunsNothingOfTheRepository(t *testing.T) {
	dir := filepath.Join(realTemp(t), "repo")
	clone(t, dir)
	mark := filepath.Join(dir, "ran.o") // ignored
	trap := filepath.Join(dir, "trap.o")
	check(t, os.WriteFile(trap, []byte(fmt.Sprintf("#!/bin/sh\necho \"$0 $*\" >>%s\ncat\n", mark)), 0o700))
	write(t, filepath.Join(dir, ".gitattributes"), "* filter=evil diff=evil\n")
	for _, name := range []string{
		"filter.evil.clean", "filter.evil.process", "filter.evil.smudge", "core.fsmonitor", "diff.external",
		"diff.evil.command", "diff.evil.textconv", "core.sshCommand", "core.pager", "pager.status", "alias.status",
		"core.gitProxy", "remote.origin.uploadpack", "core.alternateRefsCommand",
	} {
		git(t, dir, "config", name, trap)
	}
	for _, hook := range []string{"post-index-change", "fsmonitor-watchman", "pre-auto-gc", "reference-transaction"} {
		check(t, os.WriteFile(filepath.Join(dir, ".git", "hooks", hook), []byte("#!/bin/sh\necho "+hook+" >>"+mark+"\n"), 0o700))
	}
	git(t, dir, "config", "include.path", filepath.Join(dir, "more.o"))
	write(t, filepath.Join(dir, "more.o"), "[filter \"evil\"]\n\trequired = true\n")
	git(t, dir, "config", "extensions.partialClone", "origin")
	git(t, dir, "config", "remote.origin.url", "ext::"+trap)
	git(t, dir, "config", "protocol.ext.allow", "always")
	// Same size, other time: git has to look at the content, so that the filter would run.
	write(t, filepath.Join(dir, "file"), "two\n")
	check(t, os.Chtimes(filepath.Join(dir, "file"), longAgo, longAgo))
	_ = os.Remove(mark) // by git config above, if at all
	print := fingerprintOf(t, dir, "git")
	if there(t, mark) {
		b, err := os.ReadFile(mark)
		check(t, err)
		t.Fatalf("it ran\n%s", b)
	}
	// A commit whose objects are missing would be fetched in a partial clone.
	tree := git(t, dir, "rev-parse", "HEAD^{tree}")
	check(t, os.Remove(filepath.Join(dir, ".git", "objects", tree[:2], tree[2:])))
	if got, err := Fingerprint(t.Context(), dir); err != nil || got == print {
		t.Errorf("%s, %v", got, err)
	}
	if there(t, mark) {
		t.Fatal("it ran for a missing object")
	}
	// The trap is one: git itself falls into it.
	_ = gitCommand(t, dir, "status", "--porcelain").Run() // it may well fail
	if !there(t, mark) {
		t.Fatal("the trap does not work: the test shows nothing")
	}
}

func TestFingerprintDoesNotWait(t *testing.T) {
	dir := realTemp(t)
	clone(t, filepath.Join(dir, "repo"))
	for _, name := range []string{".git/HEAD", ".git/packed-refs"} {
		path := filepath.Join(dir, "repo", name)
		_ = os.Remove(path) // packed-refs need not exist
		check(t, syscall.Mkfifo(path, 0o600))
		fingerprintOf(t, filepath.Join(dir, "repo"), "walk")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, d := range []string{dir, filepath.Join(dir, "repo")} {
		if _, err := Fingerprint(ctx, d); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
	_, err := Fingerprint(t.Context(), filepath.Join(dir, "none"))
	wantCode(t, err, files.CodeFailed)
}
