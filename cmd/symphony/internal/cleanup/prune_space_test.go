package cleanup

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnsaved: what would be lost with a workspace is named, and asking runs nothing that the workspace's agent has
// written.
func TestUnsaved(t *testing.T) {
	environ := append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@b")
	home := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir, cmd.Env = home, environ
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	at := func(name string) string { return filepath.Join(home, name) }
	git("init", "-q", "-b", "main", "origin")
	git("-C", "origin", "commit", "-q", "--allow-empty", "-m", "One")
	git("clone", "-q", "origin", "clone")
	git("clone", "-q", "origin", "ahead")
	git("-C", "ahead", "switch", "-q", "-c", "work")
	git("-C", "ahead", "commit", "-q", "--allow-empty", "-m", "Two")
	git("-C", "ahead", "commit", "-q", "--allow-empty", "-m", "Three")
	git("-C", "origin", "worktree", "add", "-q", "-b", "work", at("worktree"))
	git("-C", "worktree", "commit", "-q", "--allow-empty", "-m", "Two")
	git("-C", "origin", "worktree", "add", "-q", "--detach", at("detached"))
	git("-C", "detached", "commit", "-q", "--allow-empty", "-m", "Other")
	git("init", "-q", "empty")
	write(t, at("changed/file"), "text")
	git("init", "-q", "changed")
	write(t, at("plain/file"), "text")

	// What an agent could name in the configuration of its repository.
	git("init", "-q", "hostile")
	write(t, at("hostile/file"), "text")
	write(t, at("hostile/.gitattributes"), "* filter=evil")
	git("-C", "hostile", "add", ".")
	git("-C", "hostile", "commit", "-qm", "One")
	write(t, at("hostile/file"), "texts")
	for _, key := range []string{"filter.evil.clean", "filter.evil.process", "core.fsmonitor"} {
		git("-C", "hostile", "config", key, "touch "+at("ran"))
	}
	git("-C", "hostile", "config", "filter.evil.required", "true")
	if err := os.WriteFile(at("broken"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, at("corrupt/.git/HEAD"), "nonsense")

	// What is not at the top, and what git has to be told to see.
	git("clone", "-q", "origin", "outer")
	write(t, at("outer/.gitignore"), "vendor\n")
	git("-C", "outer", "add", ".")
	git("-C", "outer", "commit", "-qm", "One")
	git("-C", "outer", "push", "-q", "origin", "HEAD:outer")
	git("clone", "-q", "origin", "outer/vendor/inner")
	git("-C", "outer/vendor/inner", "commit", "-q", "--allow-empty", "-m", "Inner")
	git("-c", "protocol.file.allow=always", "clone", "-q", "origin", "super")
	git("-C", "super", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", at("origin"), "sub")
	git("-C", "super", "commit", "-qm", "Sub")
	git("-C", "super", "push", "-q", "origin", "HEAD:super")
	git("-C", "super/sub", "switch", "-q", "-c", "work")
	git("-C", "super/sub", "commit", "-q", "--allow-empty", "-m", "Below")
	git("-C", "super/sub", "switch", "-q", "main")
	git("clone", "-q", "origin", "quiet")
	git("-C", "quiet", "config", "status.showUntrackedFiles", "no")
	write(t, at("quiet/file"), "text")
	git("clone", "-q", "origin", "above")
	write(t, at("above/broken/.git/HEAD"), "nonsense")

	for name, want := range map[string]string{
		"outer": "in vendor/inner 1 commit not on any remote", "super": "in sub 1 commit not on any remote", "quiet": "1 change not committed",
		"above/broken": "commits that git can't count, changes that git can't list",
		"clone":        "", "ahead": "2 commits not on any remote", "worktree": "", "detached": "1 commit not on any remote", "empty": "",
		"changed": "1 change not committed", "plain": "", "gone": "",
		"hostile": "1 commit not on any remote, 1 change not committed",
		"corrupt": "commits that git can't count, changes that git can't list",
	} {
		if got := unsaved(context.Background(), at(name), environ); got != want {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
	}
	// Called by a hook of git's, its variables name another repository.
	if got := unsaved(context.Background(), at("ahead"), append(environ, "GIT_DIR="+at("clone/.git"), "GIT_WORK_TREE="+at("clone"))); got == "" {
		t.Error("another repository was asked")
	}
	if _, err := os.Stat(at("ran")); err == nil {
		t.Error("asking has run what the configuration of the repository names")
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
