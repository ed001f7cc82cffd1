package git

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// wantStatus checks branch, base, commits ahead, remote, commits unpushed, and the changed files.
func wantStatus(t *testing.T, dir, want string, changed ...string) {
	t.Helper()
	g, ok, err := Inspect(t.Context(), dir)
	check(t, err)
	if got := fmt.Sprintf("%s %s %d %s %d", g.Branch, g.Base, g.Ahead, g.Remote, g.Unpushed); !ok || got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var list []string
	for _, c := range g.Changed {
		list = append(list, c.Status+" "+c.Path)
	}
	if !slices.Equal(list, changed) || g.Count != len(changed) {
		t.Errorf("changed: %q, want %q", list, changed)
	}
}

// wantDiff looks for whole lines, and for parts that must not be there.
func wantDiff(t *testing.T, dir string, lines []string, not ...string) {
	t.Helper()
	var out strings.Builder
	ok, err := Diff(t.Context(), dir, &out)
	check(t, err)
	if !ok || len(lines) == 0 && out.Len() > 0 {
		t.Errorf("%v: %s", ok, out.String())
	}
	for _, line := range lines {
		if !strings.Contains("\n"+out.String(), "\n"+line+"\n") {
			t.Errorf("no line %q in\n%s", line, out.String())
		}
	}
	for _, part := range not {
		if strings.Contains(out.String(), part) {
			t.Errorf("%s in\n%s", part, out.String())
		}
	}
}

// work changes a clone in every way: commits, the index, the work tree, a new file, one that git ignores.
const work = `put committed "c\n"; git add .; git commit -qm two; put staged "s\n"; git add .; put file "two\n"; put "a new one" "n\n"; put ignored.o "i\n"`

var (
	workFiles = []string{".M file", "A. staged", "? a new one"}
	workLines = []string{"-one", "+two", "+c", "+s", "+n", "+++ b/a new one\t"}
)

// A clone is compared with the branch of origin that it began with, whatever is called main here.
func TestInspectClone(t *testing.T) {
	dir, temp := realTemp(t), realTemp(t)
	t.Setenv("TMPDIR", temp)
	copied := filepath.Join(dir, "copy: \"1\"") // a name that a list of paths has to quote
	sh(t, dir, `repo origin; git -C origin branch -m trunk; git clone -q origin 'copy: "1"'`)
	sh(t, copied, "git switch -q -c main")
	wantStatus(t, copied, "main origin/trunk 0  0")
	wantDiff(t, copied, nil)
	sh(t, copied, work)
	wantStatus(t, copied, "main origin/trunk 1  0", workFiles...)
	wantDiff(t, copied, workLines, "ignored")
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A file that was changed in the moment in which the index was written has the time and size that the index has: git
// compares its content, also while it reads a copy of the index for new files.
func TestDiffOfAFileAsOldAsTheIndex(t *testing.T) {
	dir := realTemp(t)
	sh(t, dir, "repo .")
	past := time.Now().Add(-time.Hour).Truncate(time.Second)
	file, index := filepath.Join(dir, "file"), filepath.Join(dir, ".git", "index")
	check(t, os.Chtimes(file, past, past))
	sh(t, dir, `git update-index -q --refresh; put file "two\n"; put new "n\n"`)
	check(t, os.Chtimes(file, past, past))
	check(t, os.Chtimes(index, past, past))
	wantDiff(t, dir, []string{"-one", "+two", "+n"})
}

// A linked worktree is compared with main, and with what both have in common: main goes on meanwhile.
func TestInspectWorktree(t *testing.T) {
	dir := realTemp(t)
	sh(t, dir, `repo main; git -C main worktree add -q -b topic ../linked; put main/file "main's own\n"; git -C main commit -qam other; cd linked; `+work)
	wantStatus(t, filepath.Join(dir, "linked"), "topic main 1  0", workFiles...)
	wantDiff(t, filepath.Join(dir, "linked"), workLines, "main's own")
}

func TestInspectBeginnings(t *testing.T) {
	dir := realTemp(t)
	_, inspected, err := Inspect(t.Context(), dir)
	check(t, err)
	if read, err := Diff(t.Context(), dir, nil); read || inspected || err != nil {
		t.Errorf("without a repository: %v, %v, %v", read, inspected, err)
	}
	sh(t, dir, `git init -q -b main; put file "one\n"`)
	wantStatus(t, dir, "main  0  0", "? file")
	wantDiff(t, dir, []string{"+one"})
	sh(t, dir, "git add .; git commit -qm one")
	wantStatus(t, dir, "main  0  0") // it is not compared with itself
	sh(t, dir, "git checkout -q --detach")
	wantStatus(t, dir, " main 0  0")
	// Names that git could take for something else, and a repository in the work tree that has no commit yet.
	sh(t, dir, `put :/odd "odd\n"; git init -q nested`)
	wantStatus(t, dir, " main 0  0", "? :/odd", "? nested/")
	wantDiff(t, dir, []string{"+odd"})
	sh(t, dir, fmt.Sprintf("for n in $(seq %d); do : > n$n; done", maxListed))
	if g, _, err := Inspect(t.Context(), dir); err != nil || g.Count != maxListed+2 || len(g.Changed) != maxListed {
		t.Errorf("%d files, %d listed, %v", g.Count, len(g.Changed), err)
	}
}

// What origin's branch of the same name has not got is not pushed; without such a branch nothing is said of it.
func TestInspectPushed(t *testing.T) {
	dir := realTemp(t)
	sh(t, dir, "repo origin; git clone -q origin copy")
	copied := filepath.Join(dir, "copy")
	for _, c := range []struct{ script, want string }{
		{"git switch -q -c work/one; commit", "work/one origin/main 1  0"},
		{"git push -q origin work/one", "work/one origin/main 1 origin/work/one 0"},
		{"commit", "work/one origin/main 2 origin/work/one 1"},
		{"git pack-refs --all", "work/one origin/main 2 origin/work/one 1"},
		{"git switch -q --detach", " origin/main 2  0"},
	} {
		sh(t, copied, c.script)
		wantStatus(t, copied, c.want)
	}
}

// A shallow clone has not all that its commits name.
func TestInspectShallow(t *testing.T) {
	dir := realTemp(t)
	copied := filepath.Join(dir, "copy")
	sh(t, dir, `repo origin; for n in 2 3; do echo $n > origin/file; git -C origin commit -qam $n; done; git clone -q --depth 1 "file://$PWD/origin" copy; commit copy`)
	wantStatus(t, copied, "main origin/main 1 origin/main 1")
	wantDiff(t, copied, nil)
	// Then origin goes on, and what both have in common is not here.
	sh(t, dir, "echo 4 > origin/file; git -C origin commit -qam 4; cd copy; git fetch -q --depth 1; put file 'own\n'")
	wantStatus(t, copied, "main origin/main 2 origin/main 2", ".M file")
	wantDiff(t, copied, []string{"+own"})
}
