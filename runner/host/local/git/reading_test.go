package git

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What symphony itself reads of a workspace runs nothing that stands there: neither looking for progress, nor writing down
// what git would run, nor undoing it. Plain git runs each of these, which is looked at after that.
func TestReadingRunsNothing(t *testing.T) {
	t.Parallel()
	const changed = `echo two > file; touch -d 2001-01-01 file`
	for name, c := range map[string]struct {
		agent, plain string
		linked       bool
	}{
		"fsmonitor":           {agent: `git config core.fsmonitor 'touch "$MARK"; false'`, plain: "git status"},
		"fsmonitor, linked":   {agent: `git config core.fsmonitor 'touch "$MARK"; false'`, plain: "git status", linked: true},
		"work tree's own":     {agent: `git config extensions.worktreeConfig true; git config --worktree core.fsmonitor 'touch "$MARK"; false'`, plain: "git status"},
		"work tree's, linked": {agent: `git config extensions.worktreeConfig true; git config --worktree core.fsmonitor 'touch "$MARK"; false'`, plain: "git status", linked: true},
		"clean filter":        {agent: `git config filter.evil.clean 'touch "$MARK"; cat'; echo '* filter=evil' > .gitattributes; ` + changed, plain: "git status"},
		"process filter":      {agent: `git config filter.evil.process 'touch "$MARK"; false'; echo '* filter=evil' > .git/info/attributes; ` + changed, plain: "git status"},
		"hooks path":          {agent: `mkdir evil; HOOK=evil/post-index-change; ` + hookEvil + `git config core.hooksPath evil; touch -d 2001-01-01 file`, plain: "git status"},
		"hook":                {agent: `mkdir -p .git/hooks; HOOK=.git/hooks/post-index-change; ` + hookEvil + `touch -d 2001-01-01 file`, plain: "git status"},
		"include":             {agent: `printf '[core]\n\tfsmonitor = "touch \\"$MARK\\"; false"\n' > inc; git config include.path ../inc`, plain: "git status"},
		"external diff":       {agent: `git config diff.external 'touch "$MARK"; true'; ` + changed, plain: "git diff"},
		"text conversion":     {agent: `git config diff.evil.textconv 'touch "$MARK"; cat'; echo '* diff=evil' > .gitattributes; ` + changed, plain: "git diff"},
		"alternates":          {agent: `git init -q --bare "$SPARE/a"; echo "$SPARE/a/objects" > .git/objects/info/alternates; git config core.alternateRefsCommand 'touch "$MARK"; true'`, plain: "git rev-list --alternate-refs"},
		"submodule":           {agent: `git init -q sub; git -C sub commit -q --allow-empty -m x; git add sub 2>&1; git -C sub config core.fsmonitor 'touch "$MARK"; false'`, plain: "git status"},
		"partial clone": {agent: `git config extensions.partialClone origin; git config remote.origin.promisor true; git config protocol.ext.allow always
			git config remote.origin.url 'ext::sh -c touch% $MARK'; tree=$(git rev-parse HEAD:); rm -f .git/objects/$(echo $tree | cut -c1-2)/$(echo $tree | cut -c3-)`, plain: "git status"},
		"alias":  {agent: `git config alias.st '!touch "$MARK"'`, plain: "git st"},
		"turned": {agent: `mv .git "$SPARE/moved"; echo "gitdir: $SPARE/moved" > .git; git config core.fsmonitor 'touch "$MARK"; false'`, plain: "git status"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := guard(t, c.linked)
			t.Log(g.sh(c.agent))
			g.ran()
			_, err := Fingerprint(t.Context(), g.Tree)
			check(t, err)
			if g.ran() {
				t.Error("looking for progress ran it")
			}
			_, _, inspected := Inspect(t.Context(), g.Tree)
			_, read := Diff(t.Context(), g.Tree, io.Discard)
			if g.ran() {
				t.Error("showing it to a person ran it")
			}
			if missing := name == "partial clone"; (inspected != nil || read != nil) && !missing {
				t.Errorf("%v, %v", inspected, read)
			}
			g.trust()
			if g.ran() {
				t.Error("writing down what is trusted ran it")
			}
			g.undo()
			if g.ran() {
				t.Error("undoing ran it")
			}
			check(t, g.Forget()) // which would have hooks in the work tree left out
			if said := g.sh(c.plain); !g.ran() {
				t.Errorf("the trap does not work: %s", said)
			}
		})
	}
}

// Nor does it write: git brings its index up to date where it shows a difference, and an agent's own git would find the
// index locked meanwhile. A file's new time is what git would write down.
func TestReadingWritesNothing(t *testing.T) {
	t.Parallel()
	g := guard(t, false)
	index := filepath.Join(g.Tree, ".git", "index")
	t.Log(g.sh("touch -d 2001-01-01 file"))
	before := time.Now().Add(-time.Hour)
	check(t, os.Chtimes(index, before, before))
	was, err := os.Stat(index)
	check(t, err)
	_, err = Fingerprint(t.Context(), g.Tree)
	check(t, err)
	_, _, err = Inspect(t.Context(), g.Tree)
	check(t, err)
	_, err = Diff(t.Context(), g.Tree, io.Discard)
	check(t, err)
	is, err := os.Stat(index)
	check(t, err)
	if !os.SameFile(was, is) || !is.ModTime().Equal(was.ModTime()) {
		t.Error("the index was written")
	}
}
