package repository

import (
	"path/filepath"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
)

// A workspace that exists already gets newer commits of submodules: what others have pushed is
// checked out, and what the base has can be checked out without a network.
func TestFetchSubmodules(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.sh(`for m in lib new; do git init -q --bare -b main $m.git; git clone -q $m.git $m 2>/dev/null
			(cd $m; git checkout -q -b main; echo $m 1 > $m; git add .; git commit -qm $m; git push -q origin main)
		done
		cd person; git -c protocol.file.allow=always submodule add -q ../lib.git vendor/lib
		git commit -qm lib; git push -q origin main`)
	newer := `(cd ../lib; echo lib $n > lib; git commit -qam $n; git push -q origin main)
		(cd vendor/lib; git fetch -q ../../../lib main; git checkout -q FETCH_HEAD)
		git commit -qam "lib $n"; `
	m := p.mirrorOf(host.Repository{URL: p.remote, Submodules: true, Pushes: true})
	one := filepath.Join(p.dir, "one")
	p.sh("mkdir one")
	test.OK(t, test.Err(m.Clone(t.Context(), one, "work/one", "")))
	delivered := p.commit("one", "work")
	p.mustDeliver("one", "")
	fetch := func() *host.Pushed {
		return test.Must(m.Fetch(t.Context(), one, "work/one", delivered, false)).Pushed
	}
	state := func() string {
		return p.sh("cd one; git status --porcelain; git submodule status --recursive | cut -c1 | sort -u\n" +
			"cat vendor/*/*")
	}

	// A person pushes to the branch.
	p.sh(`n=2; cd person; git fetch -q; git checkout -q --detach origin/work/one; ` + newer +
		`git -c protocol.file.allow=always submodule add -q ../new.git vendor/new
		git commit -qm new; git push -q origin HEAD:work/one`)
	p.sh("echo note > one/vendor/lib/note")
	pushed := fetch()
	test.Equal(t, "pushed", []any{pushed.Taken, pushed.Why},
		[]any{false, "the submodule vendor/lib: it has 1 change not committed"})
	test.Equal(t, "note", p.sh("cat one/vendor/lib/note; rm one/vendor/lib/note"), "note")
	p.sh("cd one/vendor/lib; git checkout -q -b own; git commit -q --allow-empty -m own")
	test.Equal(t, "why", fetch().Why, "the submodule vendor/lib: it is at another commit")
	p.sh("git -C one/vendor/lib checkout -q HEAD^")
	test.Equal(t, "why", fetch().Why, "the submodule vendor/lib: it has 1 commit not on any remote")
	p.sh(`git -C one/vendor/lib branch -q -D own; git -C one/vendor/lib reflog expire --expire=all --all
		cd one/.git/modules; mv vendor/lib lib; ln -s ../lib vendor/lib`)
	test.Equal(t, "why", fetch().Why, "the submodule vendor/lib: its path leads through a link")
	p.sh("cd one/.git/modules; rm vendor/lib; mv lib vendor")
	test.Equal(t, "taken", fetch().Taken, true)
	test.Equal(t, "state", state(), "lib 2\nnew 1")

	// The base moves. The agent merges it, and has no network.
	p.sh("n=3; cd person; git checkout -q main; git -C vendor/lib checkout -q HEAD^\n" + newer +
		"git push -q origin main")
	fetch()
	p.sh(`export GIT_ALLOW_PROTOCOL=none; cd one; git checkout -q -b other HEAD^^
		git submodule update -q vendor/lib; git merge -q origin/main; git submodule update -q`)
	test.Equal(t, "merged", p.sh("cat one/vendor/lib/lib"), "lib 3")
}

// A fast-forward that ends between the files and the branch goes on with the next fetch, with
// its submodules.
func TestFetchGoesOnWithSubmodules(t *testing.T) {
	t.Parallel()
	const written = "git fetch -q ../remote.git work/one; git read-tree -m -u HEAD FETCH_HEAD; git reset -q"
	for _, c := range []struct{ name, begun string }{
		{"a filter in a submodule failed", ""},
		{"files written", written},
		{"a submodule removed", written + "; rm -r vendor/lib .git/modules/vendor/lib"},
		{"a submodule renewed", written + "; cd vendor/lib; git fetch -q ../../../lib.git main; git " +
			"checkout -q FETCH_HEAD"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.sh(`for m in lib new; do git init -q --bare -b main $m.git; git clone -q $m.git $m 2>/dev/null
					(cd $m; git checkout -q -b main; echo $m 1 > $m; git add .; git commit -qm $m
					git push -q origin main)
				done
				cd person; git -c protocol.file.allow=always submodule add -q ../lib.git vendor/lib
				git commit -qm lib; git push -q origin main`)
			m := p.mirrorOf(host.Repository{URL: p.remote, Submodules: true, Pushes: true})
			one := filepath.Join(p.dir, "one")
			p.sh("mkdir one")
			test.OK(t, test.Err(m.Clone(t.Context(), one, "work/one", "")))
			delivered := p.commit("one", "work")
			p.mustDeliver("one", "")
			pushed := p.sh(`cd lib; echo lib 2 > lib; echo "lib filter=fails" > .gitattributes
				git add .; git commit -qm 2; git push -q origin main; cd ../person
				git fetch -q; git checkout -q --detach origin/work/one
				(cd vendor/lib; git fetch -q ../../../lib main; git checkout -q FETCH_HEAD)
				git -c protocol.file.allow=always submodule add -q ../new.git vendor/new
				git commit -qam both; git push -q origin HEAD:work/one; git rev-parse HEAD`)
			if c.begun == "" {
				p.sh("git config --global filter.fails.smudge false; git config --global filter.fails.required true")
				wantFault(t, test.Err(m.Fetch(t.Context(), one, "work/one", delivered, false)),
					host.CodeRepositoryUnavailable, "the submodule vendor/lib: ")
				p.sh("git config --global --remove-section filter.fails")
			} else {
				p.sh("cd one; " + c.begun)
			}
			got := test.Must(m.Fetch(t.Context(), one, "work/one", delivered, false)).Pushed
			test.Equal(t, "answer", []any{got.Taken, got.Why}, []any{true, ""})
			state := p.sh("cd one; git rev-parse HEAD; git status --porcelain\n" +
				"git submodule status --recursive | cut -c1 | sort -u; cat vendor/*/*")
			test.Equal(t, "state", state, pushed+"\n \nlib 2\nnew 1")
		})
	}
}
