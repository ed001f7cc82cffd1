package git

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// bomb makes HEAD a commit whose objects have 2 kB, and which lists a thousand million files.
const bomb = `
	blob=$(git hash-object -w --stdin </dev/null)
	tree=$(for n in 0 1 2 3 4 5 6 7 8 9; do printf '100644 blob %s\t%s\n' $blob $n; done | git mktree)
	for level in 1 2 3 4 5 6 7 8; do
		tree=$(for n in 0 1 2 3 4 5 6 7 8 9; do printf '040000 tree %s\t%s\n' $tree $n; done | git mktree)
	done
	git update-ref HEAD $(git commit-tree -p HEAD -m bomb $tree)
`

// haveTime lets Inspect take as long as a busy machine needs to reach another limit.
func haveTime(t *testing.T) {
	before := inspectFor
	inspectFor = test.Patience()
	t.Cleanup(func() { inspectFor = before })
}

// A commit that lists a thousand million files is found before git compares it with anything.
func TestBombIsCounted(t *testing.T) {
	haveTime(t)
	dir := filepath.Join(realTemp(t), "work")
	clone(t, dir)
	base := git(t, dir, "rev-parse", "HEAD")
	sh(t, dir, bomb)
	made := Clone{Origin: host.Origin{Commit: strings.TrimSpace(base)}}
	const why = " has more than 2000000 files and directories"
	_, _, _, err := Inspect(t.Context(), dir, made, 9)
	wantCode(t, err, host.CodeGitLimit)
	test.Contains(t, "error", err.Error(), why)
	_, err = Diff(t.Context(), dir, made, &strings.Builder{})
	wantCode(t, err, host.CodeGitLimit)
	test.Contains(t, "error", err.Error(), why)
	_, err = DiffEnds(
		t.Context(),
		dir,
		t.TempDir(),
		base,
		git(t, dir, "rev-parse", "HEAD"),
		&strings.Builder{},
	)
	wantCode(t, err, host.CodeGitLimit)
	test.Contains(t, "error", err.Error(), why)
	work, _ := Unsaved(t.Context(), dir, "", "", AccountFiles{})
	test.Equal(t, "unsaved", work, "2 commits not on any remote, changes that git can't list")
	print, err := Fingerprint(t.Context(), dir)
	test.OK(t, err)
	test.Contains(t, "fingerprint", print, "walk:")

	// Directories without files count, too.
	sh(t, dir, `
		tree=$(git mktree </dev/null)
		for level in 1 2 3 4 5 6 7 8; do
			tree=$(for n in 0 1 2 3 4 5 6 7 8 9; do printf '040000 tree %s\t%s\n' $tree $n; done | git mktree)
		done
		git update-ref HEAD $(git commit-tree -p HEAD -m empty $tree)`)
	_, _, _, err = Inspect(t.Context(), dir, made, 9)
	wantCode(t, err, host.CodeGitLimit)
	test.Contains(t, "error", err.Error(), why)
}

// A git that takes too long is a limit of its own, with advice of its own.
func TestTimeOfGit(t *testing.T) {
	before := inspectFor
	inspectFor = time.Nanosecond
	t.Cleanup(func() { inspectFor = before })
	dir := filepath.Join(realTemp(t), "work")
	clone(t, dir)
	_, _, _, err := Inspect(t.Context(), dir, Clone{}, 9)
	wantCode(t, err, host.CodeGitLimit)
	test.ErrorIs(t, "error", err, context.DeadlineExceeded)
	test.Contains(t, "error", err.Error(), "read the repository of "+dir+": git has not ended within ")
	known, _ := errors.AsType[*reconcile.Error](err)
	test.Contains(t, "hint", known.Hint, "try again when the machine is less busy")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, _, err = Inspect(ended, dir, Clone{}, 9)
	test.ErrorIs(t, "error", err, context.Canceled)
}

// No git takes more than its memory to read a commit that lists a thousand million files, and
// what is not known of it counts as unsaved.
func TestTreeBomb(t *testing.T) {
	memory := maxMemory
	files := mostFiles
	maxMemory = 64 << 20
	mostFiles = math.MaxInt
	t.Cleanup(func() {
		maxMemory = memory
		mostFiles = files
	})
	haveTime(t)
	dir := filepath.Join(realTemp(t), "work")
	clone(t, dir)
	base := git(t, dir, "rev-parse", "HEAD")
	sh(t, dir, bomb)
	made := Clone{Origin: host.Origin{Commit: strings.TrimSpace(base)}}
	_, _, _, err := Inspect(t.Context(), dir, made, 9)
	wantCode(t, err, host.CodeGitLimit)
	_, err = Diff(t.Context(), dir, made, &strings.Builder{})
	wantCode(t, err, host.CodeGitLimit)
	_, err = KeepEnd(t.Context(), dir, made, filepath.Join(t.TempDir(), "ends"))
	wantCode(t, err, host.CodeGitLimit)
	work, _ := Unsaved(t.Context(), dir, "", "", AccountFiles{})
	test.Equal(t, "unsaved", work, "2 commits not on any remote, changes that git can't list")
	var used syscall.Rusage
	test.OK(t, syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used))
	if mebibytes := used.Maxrss >> 10; mebibytes > 100 {
		t.Errorf("a git used %d MiB", mebibytes)
	}
}

// A repository with very many references, in files or packed, is not read.
func TestManyReferences(t *testing.T) {
	test.Expensive(t)
	haveTime(t)
	dir := filepath.Join(realTemp(t), "work")
	clone(t, dir)
	sh(t, dir, `id=$(git rev-parse HEAD); seq 500001 | sed "s|.*|$id refs/tags/&|" > .git/packed-refs`)
	_, _, _, err := Inspect(t.Context(), dir, Clone{}, 9)
	wantCode(t, err, host.CodeGitLimit)
}
