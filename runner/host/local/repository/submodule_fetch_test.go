package repository

import (
	"path/filepath"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
)

// A workspace that exists already gets newer commits of submodules: the agent can check them out
// without a network.
func TestFetchSubmodules(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.sh(`git init -q --bare -b main lib.git; git clone -q lib.git lib 2>/dev/null
		(cd lib; git checkout -q -b main; echo lib 1 > lib; git add .; git commit -qm lib; git push -q origin main)
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
	// A person pushes to the branch.
	p.sh(`n=2; cd person; git fetch -q; git checkout -q --detach origin/work/one; ` + newer +
		"git push -q origin HEAD:work/one")
	test.Equal(t, "pushed", fetch().Taken, false)
	p.sh("export GIT_ALLOW_PROTOCOL=none; cd one; git merge -q origin/work/one; git submodule update -q")
	test.Equal(t, "merged", p.sh("cat one/vendor/lib/lib"), "lib 2")

	// The base moves. The agent merges it, and has no network.
	p.sh("n=3; cd person; git checkout -q main; git -C vendor/lib checkout -q HEAD^\n" + newer +
		"git push -q origin main")
	fetch()
	p.sh(`export GIT_ALLOW_PROTOCOL=none; cd one; git checkout -q -b other HEAD^
		git submodule update -q vendor/lib; git merge -q origin/main; git submodule update -q`)
	test.Equal(t, "merged", p.sh("cat one/vendor/lib/lib"), "lib 3")
}
