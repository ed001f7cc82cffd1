package repository

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// What is pushed is complete: a clone with its submodules has all files, or nothing is pushed.
func TestIncompleteCommits(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.sh(
		`git init -q --bare -b main lib.git; git clone -q lib.git lib 2>/dev/null; cd lib; git checkout -q -b main
		echo lib > lib; git add .; git commit -qm lib; git push -q origin main
		git commit -q --allow-empty -m unpushed`,
	)
	refused := func(name, script string, parts ...string) {
		t.Helper()
		p.mustClone(name)
		p.sh("cd " + name + "; " + script + "; git commit -qam 'add lib'")
		before := p.sh("git -C remote.git for-each-ref")
		wantFault(t, test.Err(p.deliver(name, "")), host.CodeIncomplete, parts...)
		test.Equal(t, "remote", p.sh("git -C remote.git for-each-ref"), before)
	}
	refused("one", "git init -q tool; cd tool; echo > f; git add .; git commit -qm f; cd ..; git add -A",
		"tool is a git repository of its own, without a file in the commit")
	refused("spaced", "git init -q 'my tool'; cd 'my tool'; git commit -q --allow-empty -m f; cd ..; git add -A",
		"my tool is a git repository of its own")
	known, _ := errors.AsType[*reconcile.Error](test.Err(p.deliver("spaced", "")))
	test.Contains(t, "the hint", known.Hint, "remove 'my tool/.git', run git rm --cached 'my tool' and")
	p.sh("cd one; rm -rf tool/.git; git rm -q --cached tool; git add tool; git commit -qm files")
	p.mustDeliver("one", "")
	p.sh("git clone -q --recurse-submodules -b work/one remote.git fresh; test -e fresh/tool/f")

	add := "git -c protocol.file.allow=always submodule add -q ../lib.git vendor/lib; "
	refused("two", add+"cd vendor/lib; git pull -q ../../../lib main; cd ../..; git add -A",
		"the submodule vendor/lib is at commit", "which is on no branch of "+p.dir+"/lib.git")
	p.sh("git -C lib push -q origin main")
	p.mustDeliver("two", "")
	p.sh(
		"git -c protocol.file.allow=always clone -q --recurse-submodules -b work/two remote.git other; " +
			"test -e other/vendor/lib/lib",
	)
	refused(
		"three",
		add+"git config -f .gitmodules submodule.vendor/lib.url https://127.0.0.1:1/lib; git add -A",
		"vendor/lib comes from https://127.0.0.1:1/lib: it is on another host than the repository",
	)
	refused("four", add+"git config -f .gitmodules submodule.vendor/lib.url 'ext::sh -c false'; git add -A",
		"vendor/lib comes from ext::sh -c false: it is neither https nor ssh")
	refused("five", add+"git config -f .gitmodules submodule.vendor/lib.path other; git add -A",
		"vendor/lib is a git repository of its own")

	// A later commit that leaves the submodule as it is on the base is not examined.
	p.sh("git -C remote.git update-ref refs/heads/main refs/heads/work/two; rm -rf lib.git")
	p.mustClone("six")
	p.commit("six", "work")
	p.mustDeliver("six", "")
}

// A clone has the submodules of its commit, and theirs, if the workflow wants that.
func TestCloneWithSubmodules(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.sh(`for m in inner lib; do git init -q --bare -b main $m.git; git clone -q $m.git $m 2>/dev/null
			(cd $m; git checkout -q -b main; echo $m > $m; git add .; git commit -qm $m; git push -q origin main); done
		alias sub='git -c protocol.file.allow=always submodule add -q'
		cd lib; sub ../inner.git deep; git commit -qm deep; git push -q origin main
		cd ../person; sub ../lib.git vendor/lib; git commit -qm lib; git push -q origin main`)
	clone := func(name string) error {
		p.sh("mkdir " + name)
		m := p.mirrorOf(host.Repository{URL: p.remote, Submodules: true, Pushes: true})
		return test.Err(m.Clone(t.Context(), filepath.Join(p.dir, name), "work/"+name, ""))
	}
	test.OK(t, clone("one"))
	test.Equal(
		t,
		"files",
		p.sh("cd one; cat vendor/lib/lib vendor/lib/deep/inner; git status --porcelain"),
		"lib\ninner",
	)
	test.Equal(t, "status", p.sh("cd one; git submodule status --recursive | cut -c1 | sort -u"), "")
	test.Equal(t, "origin", p.sh("git -C one/vendor/lib config remote.origin.url"), p.dir+"/lib.git")
	unsaved, _ := git.Unsaved(t.Context(), filepath.Join(p.dir, "one"), "", "", git.AccountFiles{})
	test.Equal(t, "unsaved", unsaved, "")
	p.commit("one", "work")
	m := p.mirrorOf(host.Repository{URL: p.remote, Submodules: true, Pushes: true})
	checkout := Checkout{
		Dir:    filepath.Join(p.dir, "checkout"),
		Commit: p.sh("git -C one rev-parse HEAD"),
		Branch: "work/one",
	}
	origin := host.Origin{
		URL:    p.remote,
		Base:   p.sh("git -C one rev-parse HEAD^"),
		Commit: p.sh("git -C one rev-parse HEAD^"),
	}
	test.OK(t, m.CheckOut(t.Context(), filepath.Join(p.dir, "one"), origin, checkout))
	test.Equal(
		t,
		"a checkout",
		p.sh("cd checkout; cat vendor/lib/lib vendor/lib/deep/inner; git status --porcelain"),
		"lib\ninner",
	)
	p.mustDeliver("one", "")

	// The next step is about the submodule that is in the way.
	p.sh(`git clone -q --bare lib.git whole.git; rm -rf lib.git
		git clone -q --bare --depth 1 file://$PWD/whole.git lib.git`)
	shallow, _ := errors.AsType[*reconcile.Error](clone("shallow"))
	test.Equal(t, "hint", shallow.Hint, "git -C "+p.dir+"/lib.git fetch --unshallow")
	test.Contains(t, "message", shallow.Message, ": the submodule vendor/lib: "+p.dir+"/lib.git is a shallow clone")
	p.sh("rm -rf lib.git; mv whole.git lib.git")

	// A git that was killed has not said that there are no submodules.
	path := p.env[0]
	p.env[0] = "PATH=" + filepath.Join(p.dir, "bin") + ":" + os.Getenv("PATH")
	for _, command := range []string{"rev-parse --verify", "config --blob"} {
		p.sh(`mkdir -p bin; printf '#!/bin/sh\ncase " $* " in *" ` + command + ` "*) kill -9 $$ ;; ` +
			`esac\nexec ` + test.Must(exec.LookPath("git")) + ` "$@"\n' > bin/git; chmod +x bin/git`)
		wantFault(t, clone(strings.Fields(command)[0]), host.CodeGitKilled, "signal: killed")
	}
	p.env[0] = path

	// What an agent may have written in .gitmodules reaches nothing else.
	for name, change := range map[string]string{
		"elsewhere": "git config -f .gitmodules submodule.vendor/lib.url " + t.TempDir(),
		"outside":   "git config -f .gitmodules --rename-section submodule.vendor/lib submodule.../../../out",
		"command":   "git config -f .gitmodules submodule.vendor/lib.url 'ext::touch ran'",
	} {
		p.sh("cd person; " + change + "; git commit -qam " + name + "; git push -q origin main")
		wantFault(t, clone(name), host.CodeRepositoryUnavailable, "the submodule vendor/lib: ")
		p.sh("cd person; git reset -q --hard HEAD^; git push -qf origin main")
	}
}

func TestAddressOfSubmodule(t *testing.T) {
	t.Parallel()
	const refused = ""
	for _, c := range []struct{ repository, written, want string }{
		{"https://host/team/app.git", "../lib.git", "https://host/team/lib.git"},
		{"https://host/team/app", "../../other/lib", "https://host/other/lib"},
		{"https://host/team/app", "../../../../lib", refused},
		{"git@host:team/app.git", "../lib", "git@host:team/lib"},
		{"git@host:app", "../lib", "git@host:lib"},
		{"git@host:team/app", "https://HOST/team/lib", "https://HOST/team/lib"},
		{"https://host/team/app", "ssh://git@host/lib", "ssh://git@host/lib"},
		{"https://host/team/app", "http://host/lib", refused},
		{"http://host/team/app", "http://host/lib", "http://host/lib"},
		{"https://host/team/app", "https://host:444/lib", refused},
		{"https://host/team/app", "https://host@evil/lib", refused},
		{"https://host/team/app", "a@host:b@[evil]:x/y", refused},
		{"https://host/team/app", "a@host:b@evil:x/y", refused},
		{"git@[fd00::1]:team/app", "git@[fd00::bad]:x", refused},
		{"https://host/team/app", "https://other/lib", refused},
		{"https://host/team/app", "/home/ann/secret", refused},
		{"https://host/team/app", "file:///home/ann/secret", refused},
		{"https://host/team/app", "ext::sh -c date", refused},
		{"https://host/team/app", "fd::17", refused},
		{"https://host/team/app", "https://host/lib\nx", refused},
		{"https://host/team/app", "", refused},
		{"/srv/git/app.git", "../lib.git", "/srv/git/lib.git"},
		{"file:///srv/git/app.git", "../lib.git", "/srv/git/lib.git"},
		{"/srv/git/app.git", "/srv/git/lib.git", "/srv/git/lib.git"},
		{"/srv/git/app.git", "../../secret", refused},
		{"/srv/git/app.git", "/home/ann/secret", refused},
		{"/srv/git/app.git", "https://host/lib", refused},
	} {
		m := &Mirror{commands{
			remote: host.Repository{URL: c.repository},
			path:   filepath.Join("m", "m"),
		}}
		got, err := m.addressOf(c.written)
		if got != c.want || (err == nil) != (c.want != refused) {
			t.Errorf("%q in %s gives %q, %v, want %q", c.written, c.repository, got, err, c.want)
		}
	}
}
