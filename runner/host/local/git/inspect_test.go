package git

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func inspect(t *testing.T, dir string) Status {
	t.Helper()
	g, ok, err := Inspect(t.Context(), dir)
	check(t, err)
	if !ok {
		t.Fatalf("no repository at %s", dir)
	}
	return g
}

func changedFiles(g Status) (list []string) {
	for _, c := range g.Changed {
		list = append(list, c.Status+" "+c.Path)
	}
	return list
}

func diffOf(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	ok, err := Diff(t.Context(), dir, &out)
	check(t, err)
	if !ok {
		t.Fatalf("no repository at %s", dir)
	}
	return out.String()
}

// wantLines looks for whole lines.
func wantLines(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+text, "\n"+line+"\n") {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
}

// work changes a clone in every way: commits, the index, the work tree, a new file, one that git ignores.
func work(t *testing.T, dir string) {
	t.Helper()
	write(t, filepath.Join(dir, "committed"), "c\n")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "two")
	write(t, filepath.Join(dir, "staged"), "s\n")
	git(t, dir, "add", ".")
	write(t, filepath.Join(dir, "file"), "two\n")
	write(t, filepath.Join(dir, "a new one"), "n\n")
	write(t, filepath.Join(dir, "ignored.o"), "i\n")
}

func wantWork(t *testing.T, dir, branch, base string) {
	t.Helper()
	temp := realTemp(t)
	t.Setenv("TMPDIR", temp)
	defer func() {
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}()
	g := inspect(t, dir)
	if g.Branch != branch || g.Base != base || g.Ahead != 1 || g.Count != 3 || g.Commit != git(t, dir, "rev-parse", "HEAD") {
		t.Errorf("%+v, want branch %q, one commit ahead of %q, three files", g, branch, base)
	}
	if got := changedFiles(g); !slices.Equal(got, []string{".M file", "A. staged", "? a new one"}) {
		t.Errorf("changed: %q", got)
	}
	diff := diffOf(t, dir)
	wantLines(t, diff, "-one", "+two", "+c", "+s", "+n", "+++ b/a new one\t")
	if strings.Contains(diff, "ignored") {
		t.Errorf("the diff shows what git ignores:\n%s", diff)
	}
}

// A clone is compared with the branch of origin that it began with, whatever is called main here.
func TestInspectClone(t *testing.T) {
	dir := realTemp(t)
	origin, copied := filepath.Join(dir, "origin"), filepath.Join(dir, "copy: \"1\"") // a name that a list of paths has to quote
	clone(t, origin)
	git(t, origin, "branch", "-m", "trunk")
	git(t, dir, "clone", "-q", origin, copied)
	git(t, copied, "switch", "-q", "-c", "main")
	if g := inspect(t, copied); g.Branch != "main" || g.Base != "origin/trunk" || g.Ahead != 0 || g.Count != 0 {
		t.Errorf("%+v", g)
	}
	if diff := diffOf(t, copied); diff != "" {
		t.Errorf("nothing is changed:\n%s", diff)
	}
	work(t, copied)
	before := tree(t, copied)
	wantWork(t, copied, "main", "origin/trunk")
	if after := tree(t, copied); after != before {
		t.Errorf("looking changed the repository:\n%s\n%s", before, after)
	}
}

// A linked worktree is compared with main, and with what both have in common: main goes on meanwhile.
func TestInspectWorktree(t *testing.T) {
	dir := realTemp(t)
	main, linked := filepath.Join(dir, "main"), filepath.Join(dir, "linked")
	clone(t, main)
	git(t, main, "worktree", "add", "-q", "-b", "topic", linked)
	write(t, filepath.Join(main, "file"), "main's own\n")
	git(t, main, "commit", "-q", "-a", "-m", "other")
	work(t, linked)
	wantWork(t, linked, "topic", "main")
	if diff := diffOf(t, linked); strings.Contains(diff, "main's own") {
		t.Errorf("the diff shows what main did:\n%s", diff)
	}
}

func TestInspectBeginnings(t *testing.T) {
	dir := filepath.Join(realTemp(t), "repo")
	check(t, os.Mkdir(dir, 0o700))
	if _, ok, err := Inspect(t.Context(), dir); ok || err != nil {
		t.Errorf("without a repository: %v, %v", ok, err)
	}
	if ok, err := Diff(t.Context(), dir, nil); ok || err != nil {
		t.Errorf("without a repository: %v, %v", ok, err)
	}
	git(t, dir, "init", "-q", "-b", "main")
	write(t, filepath.Join(dir, "file"), "one\n")
	if g := inspect(t, dir); g.Branch != "main" || g.Commit != "" || g.Base != "" || g.Count != 1 {
		t.Errorf("before the first commit: %+v", g)
	}
	wantLines(t, diffOf(t, dir), "+one")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "one")
	if g := inspect(t, dir); g.Base != "" || g.Ahead != 0 {
		t.Errorf("main is compared with itself: %+v", g)
	}
	git(t, dir, "checkout", "-q", "--detach")
	if g := inspect(t, dir); g.Branch != "" || g.Base != "main" || g.Ahead != 0 {
		t.Errorf("at a commit: %+v", g)
	}
	// Names that git could take for something else, and a repository in the work tree that has no commit yet.
	check(t, os.Mkdir(filepath.Join(dir, ":"), 0o700))
	write(t, filepath.Join(dir, ":", "odd"), "odd\n")
	git(t, dir, "init", "-q", "nested")
	if got := changedFiles(inspect(t, dir)); !slices.Equal(got, []string{"? :/odd", "? nested/"}) {
		t.Errorf("changed: %q", got)
	}
	wantLines(t, diffOf(t, dir), "+odd")
	check(t, os.RemoveAll(filepath.Join(dir, ":")))
	check(t, os.RemoveAll(filepath.Join(dir, "nested")))
	for n := range maxListed + 5 {
		write(t, filepath.Join(dir, fmt.Sprint("n", n)), "")
	}
	if g := inspect(t, dir); g.Count != maxListed+5 || len(g.Changed) != maxListed {
		t.Errorf("%d files, %d listed", g.Count, len(g.Changed))
	}
}

// What origin's branch of the same name has not got is not pushed; without such a branch nothing is said of it.
func TestInspectPushed(t *testing.T) {
	dir := realTemp(t)
	origin, copied := filepath.Join(dir, "origin"), filepath.Join(dir, "copy")
	clone(t, origin)
	git(t, dir, "clone", "-q", origin, copied)
	git(t, copied, "switch", "-q", "-c", "work/one")
	git(t, copied, "commit", "-q", "--allow-empty", "-m", "one")
	want := func(remote string, unpushed int) {
		t.Helper()
		if g := inspect(t, copied); g.Remote != remote || g.Unpushed != unpushed || g.Ahead == 0 {
			t.Errorf("%+v, want %d commits beside %q", g, unpushed, remote)
		}
	}
	want("", 0)
	git(t, copied, "push", "-q", "origin", "work/one")
	want("origin/work/one", 0)
	git(t, copied, "commit", "-q", "--allow-empty", "-m", "two")
	want("origin/work/one", 1)
	git(t, copied, "pack-refs", "--all")
	want("origin/work/one", 1)
	git(t, copied, "switch", "-q", "--detach")
	want("", 0)
}

// A shallow clone has not all that its commits name.
func TestInspectShallow(t *testing.T) {
	dir := realTemp(t)
	origin, copied := filepath.Join(dir, "origin"), filepath.Join(dir, "copy")
	clone(t, origin)
	for _, text := range []string{"two", "three"} {
		write(t, filepath.Join(origin, "file"), text)
		git(t, origin, "commit", "-q", "-a", "-m", text)
	}
	git(t, dir, "clone", "-q", "--depth", "1", "file://"+origin, copied)
	git(t, copied, "commit", "-q", "--allow-empty", "-m", "own")
	if g := inspect(t, copied); g.Base != "origin/main" || g.Ahead != 1 {
		t.Errorf("%+v", g)
	}
	if diff := diffOf(t, copied); diff != "" {
		t.Errorf("%s", diff)
	}
	// Then origin goes on, and what both have in common is not here.
	write(t, filepath.Join(origin, "file"), "four")
	git(t, origin, "commit", "-q", "-a", "-m", "four")
	git(t, copied, "fetch", "-q", "--depth", "1")
	if g := inspect(t, copied); g.Base != "origin/main" || g.Ahead != 2 {
		t.Errorf("%+v", g)
	}
	write(t, filepath.Join(copied, "file"), "own\n")
	wantLines(t, diffOf(t, copied), "+own")
}

// tree lists all that is in a directory, with sizes and times.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	check(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			fmt.Fprintln(&b, path, info.Size(), info.ModTime().UnixNano())
		}
		return err
	}))
	return b.String()
}
