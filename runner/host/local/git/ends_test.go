package git

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
)

// wantEnd keeps the end of a run, and checks the files, lines, commits and uncommitted files
// that are counted.
func wantEnd(t *testing.T, dir, ends, want string) (tree string) {
	t.Helper()
	end := test.Must(KeepEnd(t.Context(), dir, Clone{}, ends))
	got := fmt.Sprintf(
		"%d +%d -%d, %d commits, %d uncommitted",
		end.Files,
		end.Added,
		end.Removed,
		end.Commits,
		end.Uncommitted,
	)
	test.Equal(t, "the end", got, want)
	return end.Tree
}

// between is what DiffEnds writes, without the heads of files.
func between(t *testing.T, dir, ends, from, to string) (lines string) {
	t.Helper()
	var out strings.Builder
	test.Must(DiffEnds(t.Context(), dir, ends, from, to, &out))
	for line := range strings.Lines(out.String()) {
		if line[0] == '+' || line[0] == '-' {
			lines += line
		}
	}
	return lines
}

func TestEnds(t *testing.T) {
	dir := realTemp(t)
	ends := filepath.Join(dir, "ends")
	sh(t, dir, "repo repo; git clone -q repo copy")
	copied := filepath.Join(dir, "copy")
	sh(t, copied, "git switch -q -c topic; put ignored.o x")
	base := wantEnd(t, copied, ends, "0 +0 -0, 0 commits, 0 uncommitted")

	// The first attempt commits a file, changes another, and leaves a new one; the second
	// commits all, and merges the base.
	sh(
		t,
		copied,
		`put a "1\n2\n"; git add a; git commit -qm a; put file "two\n"; put "new one" "n\n"; git init -q nested`,
	)
	index := test.Must(os.ReadFile(filepath.Join(copied, ".git", "index")))
	first := wantEnd(t, copied, ends, "3 +4 -1, 1 commits, 2 uncommitted")
	test.Equal(t, "index", test.Must(os.ReadFile(filepath.Join(copied, ".git", "index"))), index)
	test.Equal(t, "same again", wantEnd(t, copied, ends, "0 +0 -0, 0 commits, 2 uncommitted"), first)
	sh(
		t,
		dir,
		"commit repo; commit repo; cd copy; git fetch -q; git add -A . ':!nested'; git commit -qm all; "+
			"git merge -q origin/main; rm a",
	)
	second := wantEnd(t, copied, ends, "1 +0 -2, 2 commits, 1 uncommitted")
	test.Equal(
		t,
		"the first",
		between(t, copied, ends, base, first),
		"--- /dev/null\n+++ b/a\n+1\n+2\n--- a/file\n+++ b/file\n-one\n+two\n--- /dev/null\n+++ b/new one\t\n+n\n",
	)
	test.Equal(t, "the second", between(t, copied, ends, first, second), "--- a/a\n+++ /dev/null\n-1\n-2\n")

	// What git has removed is not compared with; what was not committed is still there.
	sh(
		t,
		copied,
		"git checkout -q -f origin/main; rm -rf .git/logs; git branch -qD topic; git gc -q --prune=now",
	)
	for _, tree := range []string{"HEAD", strings.Repeat("a", 40)} {
		_, err := DiffEnds(t.Context(), copied, ends, first, tree, io.Discard)
		wantCode(t, err, host.CodeEndNotKept)
	}
	wantEnd(t, copied, ends, "2 +1 -2, 0 commits, 0 uncommitted")
}

// An agent can tell git to assume that a file is unchanged. Its changes are kept all the same.
func TestEndsWithHiddenChanges(t *testing.T) {
	dir := realTemp(t)
	ends := filepath.Join(dir, "ends")
	sh(t, dir, "repo repo")
	repo := filepath.Join(dir, "repo")
	base := wantEnd(t, repo, ends, "0 +0 -0, 0 commits, 0 uncommitted")
	sh(t, repo, `git update-index --assume-unchanged file; put file "two\n"; put new "n\n"`)
	hidden := wantEnd(t, repo, ends, "2 +2 -1, 0 commits, 2 uncommitted")
	test.Contains(t, "the changes", between(t, repo, ends, base, hidden), "-one\n+two\n")
}

// Objects of the repository may be links that an agent has made, and what they lead to stays
// as it is.
func TestEndsTouchNothing(t *testing.T) {
	dir := realTemp(t)
	sh(
		t,
		dir,
		`repo .; put file "two\n"; put outside x; touch -d 2001-01-01 outside; id=$(git hash-object -w file); `+
			`o=.git/objects/$(echo $id | cut -c1-2)/$(echo $id | cut -c3-); rm -f $o; ln -s "$PWD/outside" $o`,
	)
	test.Must(KeepEnd(t.Context(), dir, Clone{}, filepath.Join(dir, ".git", "ends")))
	test.Equal(t, "year", test.Must(os.Stat(filepath.Join(dir, "outside"))).ModTime().Year(), 2001)
}

func TestEndsWithoutARepository(t *testing.T) {
	dir := realTemp(t)
	ends := filepath.Join(dir, "ends")
	end, err := KeepEnd(t.Context(), dir, Clone{}, ends)
	test.Equal(t, "no repository", []any{end, err}, []any{(*host.WorkEnd)(nil), nil})
	ws := filepath.Join(dir, "ws")
	sh(t, dir, "git init -q ws; put ws/new 'n\n'")
	wantEnd(t, ws, ends, "1 +1 -0, 0 commits, 1 uncommitted")
	test.OK(t, os.Truncate(filepath.Join(ws, "new"), maxEnd+1))
	_, err = KeepEnd(t.Context(), ws, Clone{}, ends)
	test.Contains(t, "error", fmt.Sprint(err), "have more than 64 MiB")
}
