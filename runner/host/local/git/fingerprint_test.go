package git

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// step is what a script does, and whether it is progress.
type step struct {
	progress bool
	script   string
}

// wantSteps plays steps in a directory. how is whether git says what has changed, or a walk.
func wantSteps(t *testing.T, dir, how string, steps ...step) {
	t.Helper()
	fingerprint := func() string {
		print, err := Fingerprint(t.Context(), dir)
		check(t, err)
		if !strings.HasPrefix(print, how+":") {
			t.Fatalf("%s, want %s", print, how)
		}
		return print
	}
	before := fingerprint()
	for _, s := range steps {
		if again := fingerprint(); again != before {
			t.Fatalf("before %q: it changes by itself", s.script)
		}
		sh(t, dir, s.script)
		after := fingerprint()
		if (after != before) != s.progress {
			t.Errorf("%s: progress %v, want %v", s.script, after != before, s.progress)
		}
		before = after
	}
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"repo ws", "repo main; git -C main worktree add -q ../ws"} {
		dir := realTemp(t)
		sh(t, dir, script)
		wantSteps(t, filepath.Join(dir, "ws"), "git", []step{
			{false, "true"},
			{false, "git status"},
			{false, "touch -d 2001-01-01 file"},
			{true, "echo two > file"},
			{true, "echo six > file"},
			{true, "git add file"},
			{true, "git commit -qm two"},
			{false, "git pack-refs --all"},
			{false, "git gc -q"},
			{true, "git checkout -q -b topic"},
			{true, "put 'new\nline' x"},
			{true, "put a/b/c x"},
			{true, "put a/b/c xy"},
			{false, "put x.o x"}, // git ignores it
			{true, "rm file"},
			{true, "commit"},
			{true, "git checkout -q --detach"},
			{true, "repo nested"},
			{true, "put nested/sub/file x"},
			{true, "put nested/sub/file xy"},
			{true, "git commit -q --amend --allow-empty -m other"},
			{false, "exclude=$(git rev-parse --git-path info/exclude); put $exclude local; put local x"},
		}...)
	}
	for how, scripts := range map[string][]string{
		"git": {
			"git init -q", "git init -q --object-format=sha256; commit", "repo r; mv r/.git .; git update-index --split-index",
			"repo r; git clone -q --depth=1 file://$PWD/r .r; mv .r/.git .",
		},
		"walk": {"repo r; mv r/.git .; put .git/index 'DIRC\\000\\000\\000\\011'", "repo r; mv r/.git .; put .git/HEAD ?", "true"},
	} {
		for _, script := range scripts {
			dir := realTemp(t)
			sh(t, dir, script)
			wantSteps(t, dir, how, step{false, "true"}, step{true, "put file x"}, step{true, "put file y"}, step{true, "mv file moved"},
				step{true, "put d/e/f x"}, step{true, "ln -s . self"}, step{true, "rm -r d"})
		}
	}
}

func TestFingerprintDoesNotWait(t *testing.T) {
	t.Parallel()
	dir := realTemp(t)
	repo := filepath.Join(dir, "repo")
	clone(t, repo)
	for _, name := range []string{".git/HEAD", ".git/packed-refs"} {
		sh(t, repo, "rm -f "+name+"; mkfifo "+name)
		wantSteps(t, repo, "walk")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, d := range []string{dir, repo} {
		if _, err := Fingerprint(ctx, d); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
	_, err := Fingerprint(t.Context(), filepath.Join(dir, "none"))
	wantCode(t, err, files.CodeFailed)
}
