package git

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	known, is := errors.AsType[*reconcile.Error](err)
	if !is || known.Code != code {
		t.Fatalf("error %v, want code %s", err, code)
	}
}

func realTemp(t *testing.T) string {
	t.Helper()
	return test.Must(filepath.EvalSymlinks(t.TempDir()))
}

// command prepares a program with its own configuration of git.
func command(t *testing.T, dir, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), test.Patience())
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a",
		"GIT_COMMITTER_EMAIL=a@example.org",
	}
	return cmd
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	return test.Run(t, command(t, dir, "git", args...))
}

// words are shell functions for scripts of tests: create a repository with one commit, a
// further commit, a file.
const words = `
repo() {
	git init -q -b main "$1"; echo one > "$1/file"; echo "*.o" > "$1/.gitignore"
	git -C "$1" add .; git -C "$1" commit -qm one
}
commit() { git -C "${1:-.}" commit -q --allow-empty -m "${2:-x}"; }
put() { mkdir -p "$(dirname "$1")"; printf "$2" > "$1"; }
`

// sh runs a script, which must succeed.
func sh(t *testing.T, dir, script string) string {
	t.Helper()
	return test.Run(t, command(t, dir, "sh", "-ec", words+script))
}

// clone makes a repository with one commit at dir.
func clone(t *testing.T, dir string) {
	t.Helper()
	sh(t, filepath.Dir(dir), "repo "+filepath.Base(dir))
}

// ended returns a context that has ended.
func ended(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// first returns the first of two results.
func first[A, B any](a A, _ B) A { return a }
