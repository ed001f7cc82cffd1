package git

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/patch"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

func orZero[T any](v *T) (value T) {
	if v != nil {
		value = *v
	}
	return value
}

// wantStatus checks branch, base, commits ahead, remote, commits unpushed, and the changed
// files.
func wantStatus(t *testing.T, dir, want string, changed ...string) {
	t.Helper()
	g, _, ok, err := Inspect(t.Context(), dir, Clone{}, 0)
	test.OK(t, err)
	got := fmt.Sprintf("%s %s %d %s %d",
		orZero(g.Branch), orZero(g.Base), orZero(g.Ahead), orZero(g.Remote), orZero(g.Unpushed))
	if !ok || got != want {
		t.Errorf("%q, want %q", got, want)
	}
	list := test.Map(g.Changed, func(c host.GitChange) string { return c.Status + " " + c.Path })
	test.Equal(t, "changed files and their number", []any{list, g.Count}, []any{changed, len(changed)})
}

// wantDiff looks for whole lines, and for parts that must not be there.
func wantDiff(t *testing.T, dir string, lines []string, not ...string) {
	t.Helper()
	var out strings.Builder
	ok := test.Must(Diff(t.Context(), dir, Clone{}, &out))
	if !ok || len(lines) == 0 && out.Len() > 0 {
		t.Errorf("%v: %s", ok, out.String())
	}
	for _, line := range lines {
		test.Contains(t, "the output", "\n"+out.String(), "\n"+line+"\n")
	}
	test.Lacks(t, "the output", out.String(), not...)
}

// work changes a clone in every way: commits, the index, the work tree, a new file, one that
// git ignores.
const work = `put committed "c\n"; git add .; git commit -qm two; put staged "s\n"; git add .; ` +
	`put file "two\n"; put "a new one" "n\n"; put ignored.o "i\n"`

var (
	workFiles = []string{".M file", "A. staged", "? a new one"}
	workLines = []string{"-one", "+two", "+c", "+s", "+n", "+++ b/a new one\t"}
)

// A clone is compared with the branch of origin that it began with, whatever is called main
// here.
func TestInspectClone(t *testing.T) {
	dir := realTemp(t)
	temp := realTemp(t)
	t.Setenv("TMPDIR", temp)
	copied := filepath.Join(dir, "copy: \"1\"") // a name that a list of paths has to quote
	sh(t, dir, `repo origin; git -C origin branch -m trunk; git clone -q origin 'copy: "1"'`)
	sh(t, copied, "git switch -q -c main")
	wantStatus(t, copied, "main origin/trunk 0  0")
	wantDiff(t, copied, nil)
	sh(t, copied, work)
	wantStatus(t, copied, "main origin/trunk 1  0", workFiles...)
	wantDiff(t, copied, workLines, "ignored")
	left, err := os.ReadDir(temp)
	test.Equal(t, "left behind", []any{err, len(left)}, []any{nil, 0})
}

// A file that was changed in the moment in which the index was written has the time and size
// that the index has: git compares its content, also while it reads a copy of the index for
// new files.
func TestDiffOfAFileAsOldAsTheIndex(t *testing.T) {
	dir := realTemp(t)
	sh(t, dir, "repo .")
	past := time.Now().Add(-time.Hour).Truncate(time.Second)
	file := filepath.Join(dir, "file")
	index := filepath.Join(dir, ".git", "index")
	test.OK(t, os.Chtimes(file, past, past))
	sh(t, dir, `git update-index -q --refresh; put file "two\n"; put new "n\n"`)
	test.OK(t, os.Chtimes(file, past, past))
	test.OK(t, os.Chtimes(index, past, past))
	wantDiff(t, dir, []string{"-one", "+two", "+n"})
}

// A linked worktree is compared with main, and with their common commit: main gets further
// commits.
func TestInspectWorktree(t *testing.T) {
	dir := realTemp(t)
	sh(
		t,
		dir,
		`repo main; git -C main worktree add -q -b topic ../linked; put main/file "main's own\n"; `+
			`git -C main commit -qam other; cd linked; `+work,
	)
	wantStatus(t, filepath.Join(dir, "linked"), "topic main 1  0", workFiles...)
	wantDiff(t, filepath.Join(dir, "linked"), workLines, "main's own")
}

// An agent hides what a delivery would push. Of a clone that symphony has made, it is shown.
func TestNothingCommittedIsHidden(t *testing.T) {
	t.Parallel()
	const evil = `put file "evil\n"; git commit -qam evil; `
	for name, c := range map[string]struct {
		script string
		lines  []string // besides what evil has changed
	}{
		"not at all":        {evil, nil},
		"the remote has it": {evil + "git update-ref refs/remotes/origin/main HEAD", nil},
		"so has another branch of it": {evil + "git update-ref refs/remotes/origin/x HEAD; git " +
			"symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/x", nil},
		"the history begins with it": {evil + "git rev-parse HEAD > .git/shallow", nil},
		"the file is put back": {
			evil + "git checkout -q HEAD^ -- file", []string{patch.NotCommitted, "-evil", "+one"},
		},
		"it is in a graph": {evil + "git commit-graph write --reachable; git update-ref " +
			"refs/remotes/origin/main HEAD", nil},
		"without a common history": {"git checkout -q --orphan other; " + evil, nil},
		"the file is called binary": {`put .gitattributes "* -diff\n"; ` +
			`put .git/info/exclude ".gitattributes\n"; ` + evil, nil},
		"a change below is skipped": {evil + `git update-index --skip-worktree file; ` +
			`put file "more\n"`, []string{"+more"}},
		"a change below is skipped, beside a new file": {evil + `git update-index --assume-unchanged file; ` +
			`put file "more\n"; put new "n\n"`, []string{"+more", "+n"}},
		"a commit of another repository": {
			`git init -q sub; commit sub; git add sub; ` + evil, []string{"+++ b/sub"},
		},
		"the submodule is ignored": {`git init -q sub; commit sub; git add sub; ` +
			`put .gitmodules '[submodule "s"]\npath = sub\nurl = x\nignore = all\n'; ` + evil, []string{"+++ b/sub"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := realTemp(t)
			sh(t, dir, "repo origin; git clone -q origin copy")
			copied := filepath.Join(dir, "copy")
			began := Clone{Origin: host.Origin{
				URL:    "origin",
				Commit: git(t, copied, "rev-parse", "HEAD"),
			}}
			sh(t, copied, c.script)
			var out strings.Builder
			test.OK(t, test.Err(Diff(t.Context(), copied, began, &out)))
			for _, line := range append([]string{"-one", "+evil"}, c.lines...) {
				test.Contains(t, "the output", "\n"+out.String(), "\n"+line+"\n")
			}
			g, list, _, err := Inspect(t.Context(), copied, began, 9)
			subjects := test.Map(list, func(c host.GitCommit) string { return c.Subject })
			test.Equal(
				t,
				"error, number of commits, and subjects",
				[]any{err, orZero(g.Ahead), subjects},
				[]any{nil, 1, []string{"evil"}},
			)
			end := test.Must(KeepEnd(t.Context(), copied, began, filepath.Join(dir, "ends")))
			test.Equal(t, "base", end.Base, began.Origin.Commit)
		})
	}
}

func TestInspectBeginnings(t *testing.T) {
	dir := realTemp(t)
	_, _, inspected, err := Inspect(t.Context(), dir, Clone{}, 0)
	test.OK(t, err)
	read, err := Diff(t.Context(), dir, Clone{}, nil)
	test.Equal(t, "without a repository", []any{read, inspected, err}, []any{false, false, nil})
	sh(t, dir, `git init -q -b main; put file "one\n"`)
	wantStatus(t, dir, "main  0  0", "? file")
	wantDiff(t, dir, []string{"+one"})
	sh(t, dir, "git add .; git commit -qm one")
	wantStatus(t, dir, "main  0  0") // it is not compared with itself
	sh(t, dir, "git checkout -q --detach")
	wantStatus(t, dir, " main 0  0")
	// Names that git could take for something else, and a repository in the work tree that has
	// no commit yet.
	sh(t, dir, `put :/odd "odd\n"; git init -q nested`)
	wantStatus(t, dir, " main 0  0", "? :/odd", "? nested/")
	wantDiff(t, dir, []string{"+odd"})
	sh(t, dir, fmt.Sprintf("for n in $(seq %d); do : > n$n; done", maxListed))
	g, _, _, err := Inspect(t.Context(), dir, Clone{}, 0)
	test.Equal(
		t,
		"error, files and listed files",
		[]any{err, g.Count, len(g.Changed)},
		[]any{nil, maxListed + 2, maxListed},
	)
}

// Without a commit, only the configuration tells that objects are named by SHA-256.
func TestSHA256WithoutACommit(t *testing.T) {
	dir := realTemp(t)
	sh(t, dir, `git init -q -b main --object-format=sha256; put file "one\n"; git add file`)
	wantStatus(t, dir, "main  0  0", "A. file")
	wantDiff(t, dir, []string{"+one"})
	test.Equal(t, "unsaved", unsaved(t, dir), "1 change not committed")
	test.Equal(t, "where the work began", first(Began(t.Context(), dir)), emptyTree256)
	sh(t, dir, `git commit -qm one; git checkout -q --orphan other; put new "two\n"`)
	wantStatus(t, dir, "other  0  0", "A. file", "? new")
	wantDiff(t, dir, []string{"+one", "+two"})
}

// What origin's branch of the same name has not got is not pushed; without such a branch
// nothing is said of it.
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
	sh(
		t,
		dir,
		`repo origin; for n in 2 3; do echo $n > origin/file; git -C origin commit -qam $n; done; `+
			`git clone -q --depth 1 "file://$PWD/origin" copy; commit copy`,
	)
	wantStatus(t, copied, "main origin/main 1 origin/main 1")
	wantDiff(t, copied, nil)
	// Then origin gets further commits, and the common commit is not here.
	sh(
		t,
		dir,
		"echo 4 > origin/file; git -C origin commit -qam 4; cd copy; git fetch -q --depth 1; put file 'own\n'",
	)
	wantStatus(t, copied, "main origin/main 2 origin/main 2", ".M file")
	wantDiff(t, copied, []string{"+own"})
}

// Symphony runs no program that is in a workspace when it reads the progress, takes a snapshot
// of what git would run, or undoes it. Plain git would run each of these programs, which is
// checked at the end.
func TestReadingRunsNothing(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	const changed = `echo two > file; touch -d 2001-01-01 file`
	for name, c := range map[string]struct {
		agent, plain string
		linked       bool
	}{
		"fsmonitor": {
			agent: `git config core.fsmonitor 'touch "$MARK"; false'`,
			plain: "git status",
		},
		"fsmonitor, linked": {
			agent:  `git config core.fsmonitor 'touch "$MARK"; false'`,
			plain:  "git status",
			linked: true,
		},
		"work tree's own": {
			agent: `git config extensions.worktreeConfig true; ` +
				`git config --worktree core.fsmonitor 'touch "$MARK"; false'`,
			plain: "git status",
		},
		"work tree's, linked": {
			agent: `git config extensions.worktreeConfig true; ` +
				`git config --worktree core.fsmonitor 'touch "$MARK"; false'`,
			plain:  "git status",
			linked: true,
		},
		"clean filter": {
			agent: `git config filter.evil.clean 'touch "$MARK"; cat'; ` +
				`echo '* filter=evil' > .gitattributes; ` + changed,
			plain: "git status",
		},
		"process filter": {
			agent: `git config filter.evil.process 'touch "$MARK"; false'; ` +
				`echo '* filter=evil' > .git/info/attributes; ` + changed,
			plain: "git status",
		},
		"hooks path": {
			agent: `mkdir evil; HOOK=evil/post-index-change; ` + hookEvil +
				`git config core.hooksPath evil; touch -d 2001-01-01 file`,
			plain: "git status",
		},
		"hook": {
			agent: `mkdir -p .git/hooks; HOOK=.git/hooks/post-index-change; ` + hookEvil + `touch -d 2001-01-01 file`,
			plain: "git status",
		},
		"include": {
			agent: `printf '[core]\n\tfsmonitor = "touch \\"$MARK\\"; false"\n' > inc; ` +
				`git config include.path ../inc`,
			plain: "git status",
		},
		"external diff": {
			agent: `git config diff.external 'touch "$MARK"; true'; ` + changed,
			plain: "git diff",
		},
		"text conversion": {
			agent: `git config diff.evil.textconv 'touch "$MARK"; cat'; ` +
				`echo '* diff=evil' > .gitattributes; ` + changed,
			plain: "git diff",
		},
		"alternates": {
			agent: `git init -q --bare "$SPARE/a"; ` +
				`echo "$SPARE/a/objects" > .git/objects/info/alternates; ` +
				`git config core.alternateRefsCommand 'touch "$MARK"; true'`,
			plain: "git rev-list --alternate-refs",
		},
		"submodule": {
			agent: `git init -q sub; git -C sub commit -q --allow-empty -m x; git add sub 2>&1; ` +
				`git -C sub config core.fsmonitor 'touch "$MARK"; false'`,
			plain: "git status",
		},
		"partial clone": {
			agent: `git config extensions.partialClone origin; git config remote.origin.promisor true
				git config protocol.ext.allow always
			git config remote.origin.url 'ext::sh -c touch% $MARK'; tree=$(git rev-parse HEAD:)
			rm -f .git/objects/$(echo $tree | cut -c1-2)/$(echo $tree | cut -c3-)`,
			plain: "git status",
		},
		"alias": {agent: `git config alias.st '!touch "$MARK"'`, plain: "git st"},
		"turned": {
			agent: `mv .git "$SPARE/moved"; echo "gitdir: $SPARE/moved" > .git; ` +
				`git config core.fsmonitor 'touch "$MARK"; false'`,
			plain: "git status",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := guard(t, c.linked)
			t.Log(g.sh(c.agent))
			g.ran()
			test.OK(t, test.Err(Fingerprint(t.Context(), g.Tree)))
			test.Equal(t, "looking for progress ran it", g.ran(), false)
			_, _, _, inspected := Inspect(t.Context(), g.Tree, Clone{}, 0)
			_, read := Diff(t.Context(), g.Tree, Clone{}, io.Discard)
			test.Equal(t, "showing it to a person ran it", g.ran(), false)
			if missing := name == "partial clone"; (inspected != nil || read != nil) && !missing {
				t.Errorf("%v, %v", inspected, read)
			}
			g.trust()
			test.Equal(t, "writing down what is trusted ran it", g.ran(), false)
			g.undo()
			test.Equal(t, "undoing ran it", g.ran(), false)
			g.snapshot = nil
			test.OK(t, os.Remove(g.File)) // which would have hooks in the work tree left out
			if said := g.sh(c.plain); !g.ran() {
				t.Errorf("the trap does not work: %s", said)
			}
		})
	}
}

// Nor does it write: git refreshes the index when it shows a difference, and an agent's git
// would find the index locked. Here the new time of a file would make git write.
func TestReadingWritesNothing(t *testing.T) {
	t.Parallel()
	g := guard(t, false)
	index := filepath.Join(g.Tree, ".git", "index")
	t.Log(g.sh("touch -d 2001-01-01 file"))
	before := time.Now().Add(-time.Hour)
	test.OK(t, os.Chtimes(index, before, before))
	was := test.Must(os.Stat(index))
	test.OK(t, test.Err(Fingerprint(t.Context(), g.Tree)))
	_, _, _, err := Inspect(t.Context(), g.Tree, Clone{}, 0)
	test.OK(t, err)
	test.OK(t, test.Err(Diff(t.Context(), g.Tree, Clone{}, io.Discard)))
	is := test.Must(os.Stat(index))
	test.Equal(
		t,
		"the index is the same file, and its time",
		[]any{os.SameFile(was, is), is.ModTime()},
		[]any{true, was.ModTime()},
	)
}

// step is a script, and whether its effect is progress.
type step struct {
	progress bool
	script   string
}

// wantSteps runs steps in a directory. how is git or a walk, whichever finds the changes.
func wantSteps(t *testing.T, dir, how string, steps ...step) {
	t.Helper()
	fingerprint := func() string {
		print := test.Must(Fingerprint(t.Context(), dir))
		if !strings.HasPrefix(print, how+":") {
			t.Fatalf("%s, want %s", print, how)
		}
		return print
	}
	before := fingerprint()
	for _, s := range steps {
		test.Equal(t, "before "+s.script, fingerprint(), before)
		sh(t, dir, s.script)
		after := fingerprint()
		test.Equal(t, s.script+": progress", after != before, s.progress)
		before = after
	}
}

func TestFingerprint(t *testing.T) {
	test.Expensive(t)
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
			"git init -q", "git init -q --object-format=sha256; commit", "repo r; mv r/.git .; git " +
				"update-index --split-index",
			"repo r; git clone -q --depth=1 file://$PWD/r .r; mv .r/.git .",
		},
		"walk": {
			"repo r; mv r/.git .; put .git/index 'DIRC\\000\\000\\000\\011'",
			"repo r; mv r/.git .; put .git/HEAD ?", "true",
		},
	} {
		for _, script := range scripts {
			dir := realTemp(t)
			sh(t, dir, script)
			wantSteps(
				t,
				dir,
				how,
				step{false, "true"},
				step{true, "put file x"},
				step{true, "put file y"},
				step{true, "mv file moved"},
				step{true, "put d/e/f x"},
				step{true, "ln -s . self"},
				step{true, "rm -r d"},
			)
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
	for _, d := range []string{dir, repo} {
		test.ErrorIs(t, "error", test.Err(Fingerprint(ended(t), d)), context.Canceled)
	}
	wantCode(t, test.Err(Fingerprint(t.Context(), filepath.Join(dir, "none"))), files.CodeFailed)
}

// The agent's git compares a file of Git LFS with its pointer in the index. So does Inspect,
// without git-lfs.
func TestInspectLargeFiles(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		dir := realTemp(t)
		sh(
			t,
			dir,
			"git init -q -b main --object-format="+format+`; put first "1\n"; put large.bin "work\n"; put other "1\n"
			pointer() {
				printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n' \
					$(sha256sum < $1 | cut -c1-64) $(wc -c < $1)
			}
			git add first other
			git update-index --add --cacheinfo 100644,$(pointer large.bin | git hash-object -w --stdin),large.bin
			git commit -qm one; put first "2\n"; put other "2\n"; put work ""`,
		)
		wantStatus(t, dir, "main  0  0", ".M first", ".M other", "? work")
		sh(t, dir, "git checkout -q first other; rm work")
		sh(t, dir, `put large.bin "work\n"; chmod +x large.bin`)
		wantStatus(t, dir, "main  0  0", ".M large.bin")
		sh(t, dir, `chmod -x large.bin; put large.bin "prey\n"`)
		wantStatus(t, dir, "main  0  0", ".M large.bin")
		sh(
			t,
			dir,
			`put large.bin "more\n"; git update-index --cacheinfo 100644,`+
				`$(printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 5\n' $(sha256sum < large.bin | cut -c1-64) | git hash-object -w --stdin),large.bin`,
		)
		wantStatus(t, dir, "main  0  0", "M. large.bin")
	}
}

// However many files of Git LFS a program touched, none of them counts as changed.
func TestInspectManyLargeFiles(t *testing.T) {
	dir := realTemp(t)
	sh(t, dir, `git init -q -b main
		printf work > content
		printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 4\n' \
			$(sha256sum < content | cut -c1-64) > pointer
		id=$(git hash-object -w pointer)
		for n in $(seq 300); do
			cp content large$n
			printf "100644 $id\tlarge$n\n"
		done | git update-index --index-info
		rm content pointer
		git commit -qm one`)
	wantStatus(t, dir, "main  0  0")
	sh(t, dir, "printf more > large7; printf more > large299")
	wantStatus(t, dir, "main  0  0", ".M large299", ".M large7")
}

// TestForeignRepository: an agent that leads to a repository of the operator while symphony reads
// its own is told nothing about it.
func TestForeignRepository(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"index":             "rm .git/index; ln -s ../../foreign/.git/index .git/index",
		"git directory":     "mv .git old; ln -s ../foreign/.git .git",
		"gitdir":            "mv .git old; echo gitdir: $PWD/../foreign/.git > .git",
		"any directory":     "mv .git old; ln -s ../foreign .git",
		"no directory":      "mv .git old; ln -s ../foreign-or-not .git",
		"common directory":  "echo $PWD/../foreign/.git > .git/commondir",
		"HEAD":              "rm .git/HEAD; ln -s ../../foreign/.git/secret .git/HEAD",
		"a reference":       "ln -s ../../../foreign/.git/secret .git/refs/secret; echo ref: refs/secret > .git/HEAD",
		"references":        "rm -r .git/refs; ln -s ../../foreign/.git .git/refs; echo ref: refs/secret > .git/HEAD",
		"packed references": "rm -r .git/refs; ln -s ../../foreign/.git/secret .git/packed-refs",
		"content of HEAD":   "echo secret > .git/HEAD",
		"ignored files":     "echo > secret-file; rm -f .git/info/exclude; ln -s ../../../foreign/.git/secret .git/info/exclude",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := realTemp(t)
			sh(t, dir, "repo own; repo foreign; cd foreign; put secret-name s; git add .; git commit -qm secret; "+
				"put .git/secret 'secret-file\\n'")
			own := filepath.Join(dir, "own")
			record := Clone{Began: first(Began(t.Context(), own)), Elsewhere: Elsewhere(own)}
			sh(t, own, script)
			g, _, _, err := Inspect(t.Context(), own, record, 0)
			if strings.HasSuffix(name, "directory") || name == "gitdir" {
				test.ErrorIs(t, "the error", err, errElsewhere)
			}
			said := fmt.Sprint(g.Changed, orZero(g.Branch), orZero(g.Commit), err)
			test.Lacks(t, "what is said", strings.ReplaceAll(said, own, ""), "secret-name", "foreign",
				git(t, filepath.Join(dir, "foreign"), "rev-parse", "HEAD"))
			if name == "ignored files" {
				test.Contains(t, "the changes", said, "secret-file")
			} else {
				test.Lacks(t, "what is said", said, "secret-file", "to secret")
			}
		})
	}
}

// TestLinkedWorktreeIsItsOwn: the record of a workspace knows a git directory elsewhere.
func TestLinkedWorktreeIsItsOwn(t *testing.T) {
	dir := realTemp(t)
	sh(t, dir, "repo main; git -C main worktree add -q -b topic ../linked; repo other")
	linked := filepath.Join(dir, "linked")
	record := Clone{Began: first(Began(t.Context(), linked)), Elsewhere: Elsewhere(linked)}
	test.Equal(t, "its git directory", record.Elsewhere, filepath.Join(dir, "main/.git/worktrees/linked"))
	_, _, ok, err := Inspect(t.Context(), linked, record, 0)
	test.Equal(t, "read", []any{ok, err}, []any{true, nil})
	sh(t, dir, "git -C other worktree add -q ../more; cp more/.git linked/.git")
	_, _, _, err = Inspect(t.Context(), linked, record, 0)
	test.Contains(t, "the error", fmt.Sprint(err), "leads to another repository")
}

// Work beside HEAD is named by its place, unless a remote has it, HEAD contains it, or it was there
// before the first agent.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sh := func(script string) { sh(t, dir, script) }
	sh(`git init -q -b main w; cd w; git commit -q --allow-empty -m one; git branch hook $(git commit-tree -m hook HEAD^{tree})`)
	w := filepath.Join(dir, "w")
	began, beside := Began(t.Context(), w)
	names := func() []string {
		found, _, _, err := Inspect(t.Context(), w, Clone{Began: began, Beside: beside}, 0)
		test.OK(t, err)
		return found.Elsewhere
	}
	test.Equal(t, "before the agent", names(), nil)
	sh(`cd w; git branch same; git branch aside $(git commit-tree -m aside -p HEAD HEAD^{tree}); git branch zed aside
		git worktree add -q ../wt aside; git worktree add -q --detach ../free; git -C ../free commit -q --allow-empty -m free
		echo 1 > a; git add a; git stash -q; git tag t $(git commit-tree -m tag HEAD^{tree})
		git branch more $(git commit-tree -m more -p hook HEAD^{tree}); git pack-refs --all`)
	test.Equal(t, "of the agent", names(), []string{"aside", "more", "stash@{0}", "worktree free"})
	sh(`cd w; git merge -q aside; git update-ref refs/remotes/origin/x more; git stash drop -q`)
	test.Equal(t, "without a remote", names(), []string{"more", "worktree free"})
	sh(`cd w; git remote add origin https://git.example/x.git`)
	test.Equal(t, "of a remote", names(), []string{"worktree free"})
}
