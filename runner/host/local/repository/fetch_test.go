package repository

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
)

func (p *place) fetch(name string) (host.FetchAnswer, error) {
	p.t.Helper()
	return p.mirror().Fetch(p.t.Context(), filepath.Join(p.dir, name), "work/"+name, "", false)
}

// local describes everything in a work tree that a fetch must not change.
func (p *place) local(name string) string {
	p.t.Helper()
	return p.sh(
		"cd " + name + "; cat .git/HEAD .git/config; git for-each-ref refs/heads refs/tags; git " +
			"hash-object .git/index; " +
			"stat -c %y .git/index; git --no-optional-locks status --porcelain; find . -path ./.git " +
			"-prune -o -type f -print0 | xargs -0 sha256sum",
	)
}

// A workspace without .git is refused before an agent works in it for nothing.
func TestFetchIntoBrokenWorkspace(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.mustClone("one")
	p.sh("rm -rf one/.git")
	mirror := p.mirrorOf(host.Repository{URL: p.remote, Pushes: true})
	_, err := mirror.Fetch(t.Context(), filepath.Join(p.dir, "one"), "work/one", "", false)
	wantFault(t, err, host.CodeWorkspaceBroken, p.dir+"/one", "it has no git repository any more: restore its .git")
}

// A fetch sets the remote references of a workspace, and counts the commits that it lacks. Commits
// that were not delivered count.
func TestFetch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, work, change string // what the agent has committed, and a person pushed
		want               host.FetchAnswer
	}{
		{"nothing", "echo x > x", "", host.FetchAnswer{Base: "main"}},
		{
			"without a conflict", "echo x > x", "echo two > file; git commit -qam two; echo y > y; git " +
				"add .; git commit -qm y; git push -q origin main main:other",
			host.FetchAnswer{Base: "main", Behind: 2},
		},
		{
			"unrelated", "echo x > x", "git checkout -q --orphan o; git commit -qm o; git push -qf origin o:main",
			host.FetchAnswer{Base: "main", Behind: 1},
		},
		{
			"forced", "echo x > x", "echo other > old; git commit -qa --amend -m other; git push -qf origin main",
			host.FetchAnswer{Base: "main", Behind: 1},
		},
		{
			"renamed", "echo x > x", "git commit -q --allow-empty -m two; git push -q origin main:trunk; " +
				"git -C ../remote.git symbolic-ref HEAD refs/heads/trunk; " +
				"git push -q origin :main", host.FetchAnswer{Base: "trunk", Behind: 1},
		},
		{"a branch in the place of a directory", "echo x > x", "git push -q origin :a; git push -q " +
			"origin main:a/b", host.FetchAnswer{Base: "main"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.sh("cd person; echo old > old; git add .; git commit -qm old; git push -q origin main main:a")
			p.mustClone("one")
			p.sh(
				"cd one; git commit -q --allow-empty -m first; " + c.work +
					" > /dev/null; git add .; git commit -qm work; echo dirty >> file; echo new > untracked; " +
					"git rm -q --cached file; git update-ref refs/remotes/origin/a HEAD",
			)
			before := p.local("one")
			p.sh("cd person; " + c.change)
			got := test.Must(p.fetch("one"))
			c.want.Commit = p.sh("git -C remote.git rev-parse HEAD")
			test.Equal(t, "answer", got, c.want)
			test.Equal(t, "the workspace", p.local("one"), before)
			refs := "for-each-ref --format='%(objectname) %(refname:lstrip=-1)'"
			test.Equal(
				t,
				"base",
				p.sh("cd one; git rev-parse origin/HEAD; git rev-parse --abbrev-ref origin/HEAD"),
				c.want.Commit+"\norigin/"+c.want.Base,
			)
			if c.name == "without a conflict" {
				test.Equal(
					t,
					"branches",
					p.sh("cd one; git "+refs+" refs/remotes/origin/[^H]*"),
					p.sh("cd remote.git; git "+refs+" refs/heads"),
				)
			}
			test.Equal(
				t,
				"what is left",
				p.sh("ls mirrors | grep -v '[.]git' || true; ls one/.git | grep symphony || true"),
				"",
			)
			test.Equal(
				t,
				"objects of the agent",
				p.sh(
					"git -C mirrors/*.git cat-file -e "+p.sh(
						"git -C one rev-parse HEAD",
					)+" 2>/dev/null && echo kept || true",
				),
				"",
			)
			test.Equal(t, "once more", test.Must(p.fetch("one")), got)
			p.sh("git -C one fsck; git -C mirrors/*.git fsck")
		})
	}
}

// What killed programs have left does not matter.
func TestFetchAfterKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.mustClone("one")
	p.commit("one", "first")
	commit := p.commit("person", "two")
	p.sh(`git -C person push -q origin main
		touch one/.git/symphony-LEFT one/.git/refs/remotes/origin/main.lock; cd mirrors/*.git
		touch refs/heads/main.lock packed-refs.lock objects/pack/tmp_pack_1`)
	test.Equal(t, "answer", test.Must(p.fetch("one")), host.FetchAnswer{
		Base:   "main",
		Commit: commit,
		Behind: 1,
	})
	test.Equal(
		t,
		"base",
		p.sh("git -C one rev-parse origin/main; find mirrors/*.git -name '*.lock' -o -name 'tmp_*'"),
		commit,
	)
}

// Without the remote, or the base, a workspace stays as it is.
func TestFetchFails(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.mustClone("one")
	before := p.local("one") + p.sh("git -C one for-each-ref")
	_, err := p.mirrorOf(host.Repository{
		URL:  p.remote,
		Base: "gone",
	}).Fetch(t.Context(), filepath.Join(p.dir, "one"), "work/one", "", false)
	wantFault(t, err, host.CodeRepositoryUnavailable, `it has no branch "gone": correct repository.base`)
	p.sh("rm -r mirrors")
	test.Must(p.fetch("one")) // makes the mirror again
	p.sh("mv remote.git away")
	wantFault(
		t,
		test.Err(p.fetch("one")),
		host.CodeRepositoryUnavailable,
		"does not appear to be a git repository",
	)
	p.sh("mv away other.git")
	p.remote = filepath.Join(p.dir, "other.git")
	wantFault(
		t,
		test.Err(p.fetch("one")),
		host.CodeRepositoryUnavailable,
		"it does not use the objects of the mirror",
	)
	test.Equal(t, "the workspace", p.local("one")+p.sh("git -C one for-each-ref"), before)
}

// What an agent leaves in its repository neither runs nor changes what a fetch writes, and
// where.
func TestFetchIntoHostileWorkspace(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		name, script string
		fails        string // part of the error; empty if the reference of the base is set
	}{
		{"a reference that leads to a branch", "git symbolic-ref refs/remotes/origin/main refs/heads/work/one", ""},
		{"a reference that leads to HEAD", "git symbolic-ref refs/remotes/origin/main HEAD; git " +
			"symbolic-ref refs/remotes/origin/HEAD HEAD", ""},
		{"locks", "touch .git/refs/remotes/origin/main.lock .git/packed-refs.lock .git/index.lock " +
			".git/HEAD.lock", ""},
		{"references that are a link inside", "rm -r .git/refs/remotes/origin; ln -s ../heads " +
			".git/refs/remotes/origin", "is a link"},
		{"references that are a link outside", "rm -r .git/refs/remotes; ln -s ../../../outside " +
			".git/refs/remotes", "path escapes from parent"},
		{"settings and hooks", "git commit -qm work --allow-empty; " + programs, ""},
		{"a reference that is a link", "ln -s ../../heads/work/one .git/refs/remotes/origin/main", ""},
		{"a reference that is a pipe", "mkfifo .git/refs/remotes/origin/main", ""},
		{"a reference that is a directory", "mkdir -p .git/refs/remotes/origin/main/x", "file exists"},
		{"no borrowed objects", "git repack -qad; rm .git/objects/info/alternates", "does not use the objects"},
		{"objects of another repository", "echo $PWD/../evil.git/objects > " +
			".git/objects/info/alternates", "does not use the objects"},
		{"borrowed objects are a pipe", "rm .git/objects/info/alternates; mkfifo " +
			".git/objects/info/alternates", "does not use the objects"},
		{"a missing commit", "git commit -qm x --allow-empty; id=$(git rev-parse HEAD); rm -f " +
			".git/objects/$(echo $id | cut -c1-2)/*", "bad object"},
		{"no commit", "echo ref: refs/heads/none > .git/HEAD", ""},
		{
			"a .git that leads elsewhere", "mv .git ../moved; echo gitdir: ../moved > .git",
			"leads to another repository",
		},
		{"no repository", "rm -rf .git", "no git repository"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if i >= 6 {
				test.Expensive(t)
			}
			p := newPlace(t)
			p.mustClone("one")
			p.sh(
				`printf '#!/bin/sh\necho $0 $* >> ` + p.dir + `/pwned\nexit 1\n' > pwn; chmod +x pwn
				mkdir outside; git init -q --bare evil.git
				cd one; ` + c.script,
			)
			heads := "cd one; find .git/refs/heads -type f | xargs cat; cat .git/HEAD || true"
			before := p.sh(heads)
			commit := p.commit("person", "two")
			p.sh("git -C person push -q origin main")
			_, err := p.fetch("one")
			if c.fails != "" {
				wantFault(t, err, host.CodeRepositoryUnavailable, c.fails)
			} else {
				test.OK(t, err)
				test.Equal(t, "base", p.sh("cat one/.git/refs/remotes/origin/main; cat "+
					"one/.git/refs/remotes/origin/HEAD 2>/dev/null || echo ref: refs/remotes/origin/main"),
					commit+"\nref: refs/remotes/origin/main")
			}
			test.Equal(t, "branches", p.sh(heads), before)
			if data, err := os.ReadFile(filepath.Join(p.dir, "pwned")); err == nil {
				t.Errorf("run: %s", data)
			}
			test.Equal(
				t,
				"outside",
				p.sh("ls outside; git -C evil.git for-each-ref; ls mirrors | grep -v '[.]git' || true"),
				"",
			)
			if strings.HasPrefix(c.name, "a reference that leads") {
				test.Equal(t, "fsck", p.sh("git -C one fsck"), "")
			}
		})
	}
}

// What others push on top of the last delivery comes into the workspace, if nothing of the
// agent is in its way. In no case is anything of either side lost.
func TestFetchPushed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, before string // what the agent has left in the workspace after the delivery
		push         string // what a person does on the branch
		// why the workspace does not have it; "taken", or empty if nothing is told
		why     string
		commits string
	}{
		{"a suggestion", "echo note > untracked", "echo better > file; git commit -qam " +
			"suggestion", "taken", "suggestion by a"},
		{
			"files come and go", "true", "mkdir d; echo n > d/new; git rm -q old; chmod +x file; git add " +
				".; git commit -qm change",
			"taken", "change by a",
		},
		{
			"the base merged", "true", "git checkout -q main; echo base > base; git add .; git commit " +
				"-qm base; git push -q origin main; " +
				"git checkout -q -; git merge -q --no-edit main", "taken", "Merge branch 'main' into HEAD by a",
		},
		{
			"a commit of the agent", "echo mine > mine; git add .; git commit -qm mine",
			"echo better > file; git commit -qam suggestion",
			"the workspace has commits that were not pushed", "suggestion by a",
		},
		{
			"a change of the agent", "echo mine >> file", "echo better > file; git commit -qam suggestion",
			"files in the workspace have changes that are not committed", "suggestion by a",
		},
		{
			"a staged change", "echo mine >> old; git add old; git show HEAD:old > old",
			"echo better > file; git commit -qam suggestion",
			"files in the workspace have changes that are not committed", "suggestion by a",
		},
		{
			"an untracked file in the way", "echo mine > new", "echo theirs > new; git add .; git commit -qm new",
			"git can't update the files: git read-tree: error: Untracked working tree file 'new' would be overwritten " +
				"by merge.", "new by a",
		},
		{
			"another branch", "git checkout -q -b aside", "echo better > file; git commit -qam " +
				"suggestion", "the workspace is on another branch",
			"suggestion by a",
		},
		{
			"a sparse checkout", "git sparse-checkout set --no-cone file", "echo better > file; git commit -qam " +
				"suggestion", "the workspace is a sparse checkout", "suggestion by a",
		},
		{"merged by the agent", "git pull -q ../remote.git work/one", "echo better > file; git commit " +
			"-qam suggestion", "taken", "suggestion by a"},
		{
			"begun by a worker that died", "git fetch -q ../remote.git work/one; git read-tree -m -u " +
				"HEAD FETCH_HEAD; git reset -q",
			"mkdir d; echo n > d/new; git rm -q old; chmod +x file; echo more > work.txt; git add .; git " +
				"commit -qm change", "taken", "change by a",
		},
		{
			"begun, half of the files", "git fetch -q ../remote.git work/one; git checkout -q FETCH_HEAD " +
				"-- work.txt d; git reset -q",
			"mkdir d; echo n > d/new; git rm -q old; chmod +x file; echo more > work.txt; git add .; git " +
				"commit -qm change", "taken", "change by a",
		},
		{
			"begun, up to the index", "git fetch -q ../remote.git work/one; git read-tree -m -u HEAD FETCH_HEAD",
			"mkdir d; echo n > d/new; git rm -q old; chmod +x file; echo more > work.txt; git add .; git " +
				"commit -qm change", "taken", "change by a",
		},
		{
			"begun, and a change of the agent", "git fetch -q ../remote.git work/one; git checkout -q " +
				"FETCH_HEAD -- work.txt; git reset -q; echo mine >> file",
			"echo more > work.txt; git commit -qam change", "files in the workspace have changes that are " +
				"not committed", "change by a",
		},
		{
			"begun, and a change of the agent to such a file", "git fetch -q ../remote.git work/one; " +
				"echo mine > work.txt",
			"echo more > work.txt; git commit -qam change", "files in the workspace have changes that are " +
				"not committed", "change by a",
		},
		{"replaced", "true", "git commit -q --amend --allow-empty -m theirs", "", ""},
		{"nothing", "true", "true", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.sh("cd person; echo old > old; git add .; git commit -qm old; git push -q origin main")
			p.mustClone("one")
			delivered := p.commit("one", "first")
			p.mustDeliver("one", "")
			push := "cd person; git fetch -q; git checkout -q --detach origin/work/one; " + c.push +
				"; git push -qf origin HEAD:work/one; git rev-parse HEAD"
			pushed := ""
			if strings.HasPrefix(c.before, "git pull") || strings.HasPrefix(c.before, "git fetch") {
				pushed = p.sh(push)
				p.sh("cd one; " + c.before)
			} else {
				p.sh("cd one; " + c.before)
				pushed = p.sh(push)
			}
			before := p.local("one")
			fetch := func() *host.Pushed {
				return test.Must(
					p.mirror().Fetch(t.Context(), filepath.Join(p.dir, "one"), "work/one", delivered, false),
				).Pushed
			}
			got := fetch()
			if c.why == "" {
				test.Equal(t, "told", got == nil, true)
				test.Equal(t, "workspace", p.local("one"), before)
				return
			}
			why := got.Why
			if got.Taken {
				why = "taken"
			}
			test.Equal(
				t,
				"answer",
				[]string{
					why,
					got.Commit,
					got.Commits[len(got.Commits)-1].Subject + " by " + got.Commits[len(got.Commits)-1].Author,
				},
				[]string{c.why, pushed, c.commits},
			)
			if !got.Taken {
				test.Equal(t, "workspace", p.local("one"), before)
				return
			}
			test.Equal(t, "commit", p.sh("cd one; git rev-parse HEAD"), pushed)
			untracked := ""
			if c.before == "echo note > untracked" {
				untracked = "?? untracked"
			}
			test.Equal(
				t,
				"status",
				p.sh("cd one; git status --porcelain; git fsck --no-dangling 2>&1 | grep -v notice || true"),
				untracked,
			)
			test.Equal(
				t,
				"files",
				p.sh("cd one; git ls-files | xargs sha256sum"),
				p.sh("cd person; git ls-files | xargs sha256sum"),
			)
			test.Equal(t, "told again until it is delivered", fetch().Taken, true)
			next := p.commit("one", "second")
			test.Equal(t, "delivered", p.mustDeliver("one", delivered).Commit, next)
			test.Equal(t, "nothing of others", fetch() == nil, true)
		})
	}
}

// While an agent is at work, nobody writes into its workspace: it is told what others have
// pushed.
func TestLook(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.mustClone("one")
	delivered := p.commit("one", "first")
	p.mustDeliver("one", "")
	pushed := p.sh(`cd person; git fetch -q; git checkout -q --detach origin/work/one; echo better > file
		git commit -qam suggestion; git push -q origin HEAD:work/one; git rev-parse HEAD`)
	before := p.local("one")
	answer := test.Must(p.mirror().Fetch(t.Context(), filepath.Join(p.dir, "one"), "work/one", delivered, true))
	told := answer.Pushed
	test.Equal(t, "told", []any{told.Commit, told.Taken, told.TakenWithoutAgent}, []any{pushed, false, true})
	test.Equal(t, "workspace", p.local("one"), before)
	test.Equal(t, "remote reference", p.sh("git -C one rev-parse origin/work/one"), pushed)
	test.Equal(t, "unchanged", test.Must(p.mirror().Unchanged(t.Context(), "work/one", delivered)), false)
	test.Equal(t, "unchanged since", test.Must(p.mirror().Unchanged(t.Context(), "work/one", pushed)), true)
	p.sh("echo mine >> one/file")
	answer = test.Must(p.mirror().Fetch(t.Context(), filepath.Join(p.dir, "one"), "work/one", delivered, true))
	test.Equal(t, "why not", answer.Pushed.Why, "files in the workspace have changes that are not committed")
	test.Equal(t, "possible without the agent", answer.Pushed.TakenWithoutAgent, false)
	p.sh("git -C one checkout -q file; git -C one merge -q --ff-only " + pushed)
}

// An agent makes one commit of those that were delivered, and words it anew. The files are the
// same, but the commit is its own: a fetch leaves it.
func TestFetchLeavesRewrittenCommits(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.mustClone("one")
	p.commit("one", "first")
	p.commit("one", "second")
	delivered := p.mustDeliver("one", "").Commit
	own := p.sh("cd one; git reset -q --soft main; git commit -q -m 'both in one'; git rev-parse HEAD")
	test.Must(p.mirror().Fetch(t.Context(), filepath.Join(p.dir, "one"), "work/one", delivered, false))
	test.Equal(t, "HEAD", p.sh("git -C one rev-parse HEAD"), own)
}
