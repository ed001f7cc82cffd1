package repository

import (
	"context"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// hook makes a script a hook of the remote. An empty one removes it.
func (p *place) hook(name, script string) {
	p.t.Helper()
	path := filepath.Join(p.dir, "remote.git/hooks", name)
	test.OK(p.t, os.RemoveAll(path))
	if script != "" {
		test.OK(p.t, os.MkdirAll(filepath.Dir(path), 0o700))
		test.OK(p.t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700)) //nolint:gosec // a hook
	}
}

// A delivery that fails is repeated with the same result, whatever the remote did with the
// first one.
func TestRemoteFails(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	const full = "echo 'fatal: write error: No space left on device' >&2; exit 1"
	for _, c := range []struct {
		name, hook, script string
		code               string // of the first delivery, empty if it succeeds
		parts              []string
	}{
		{"refuses", "pre-receive", "echo no pushes on Friday >&2; exit 1", host.CodeDeliveryRefused, []string{
			"the remote refuses the commits: no pushes on Friday",
		}},
		{"may not", "pre-receive", "echo You are not allowed to push >&2; exit 1", host.CodeDeliveryFailed, []string{
			"git push: remote: You are not allowed to push; ", " (pre-receive hook declined)",
		}},
		{"is full", "pre-receive", full, host.CodeDeliveryFailed, []string{
			"remote: fatal: write error: No space left on device",
		}},
		{"ends early", "pre-receive", "kill -9 $PPID", host.CodeDeliveryFailed, []string{"unexpected disconnect"}},
		{
			"accepts, and loses its answer", "reference-transaction", `test "$1" != committed || kill -9 $PPID`, "",
			nil,
		},
		{"says that it accepted, and did not", "post-receive", "git update-ref -d " +
			"refs/heads/work/one", host.CodeDeliveryFailed, []string{
			"the remote accepted the push, but has no branch work/one",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			main := p.mustClone("one").Commit
			commit := p.commit("one", "first")
			p.hook(c.hook, c.script)
			_, err := p.deliver("one", "")
			if c.code == "" {
				test.OK(t, err)
			} else {
				wantFault(t, err, c.code, c.parts...)
				p.wantRemote(main + " main")
				if unsaved, _ := git.Unsaved(t.Context(), filepath.Join(p.dir, "one"), "", "", git.AccountFiles{}); unsaved == "" {
					t.Error("the commit counts as saved")
				}
			}
			p.hook(c.hook, "")
			test.Equal(t, "delivered", p.mustDeliver("one", ""), host.DeliverAnswer{
				Commit:  commit,
				Base:    "main",
				Commits: 1,
			})
			p.wantRemote(main+" main", commit+" work/one")
		})
	}
}

// A program of the remote, such as one that formats code, adds a commit to each push at once.
// The delivery succeeded, and the next fetch finds that commit.
func TestRemoteAddsCommit(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.mustClone("one")
	commit := p.commit("one", "first")
	p.hook("post-receive", `added=$(git commit-tree -p work/one -m format work/one^{tree})
		git update-ref refs/heads/work/one $added`)
	test.Equal(t, "delivered", p.mustDeliver("one", ""), host.DeliverAnswer{
		Commit:  commit,
		Base:    "main",
		Commits: 1,
	})
	answer := test.Must(p.mirror().Fetch(t.Context(), filepath.Join(p.dir, "one"), "work/one", commit, false))
	test.Equal(t, "pushed", answer.Pushed.Commit, p.sh("git -C remote.git rev-parse work/one"))
	test.Equal(t, "taken", answer.Pushed.Taken, true)
}

// Others change the branch between two deliveries.
func TestBranchChangedByOthers(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	for i, c := range []struct {
		name, change string
		conflict     bool
	}{
		{"another commit on top", "git commit -q --allow-empty -m theirs; git push -q origin HEAD:work/one", true},
		{"deleted", "git push -q origin :work/one", false},
		{"untouched", "true", false},
		{"replaced", "git push -qf origin $(git commit-tree -m theirs main^{tree}):refs/heads/work/one", true},
		{"moved to the base", "git push -qf origin main:work/one", true},
		{"moved back", "git push -qf origin HEAD^:work/one", true},
		{"merged and deleted", "git push -q origin HEAD:main :work/one", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if i >= 3 { // the plain ones come first
				test.Expensive(t)
			}
			p := newPlace(t)
			p.mustClone("one")
			p.commit("one", "first")
			delivered := p.commit("one", "second")
			p.mustDeliver("one", "")
			p.sh("cd person; git fetch -q; git checkout -q --detach origin/work/one; " + c.change)
			before := p.sh("git -C remote.git for-each-ref")
			commit := p.commit("one", "third")
			_, err := p.deliver("one", delivered)
			if !c.conflict {
				test.OK(t, err)
				test.Equal(t, "branch", p.sh("git -C remote.git rev-parse work/one"), commit)
				return
			}
			wantFault(t, err, host.CodeDeliveryConflict, "someone else has made or changed the branch")
			test.Equal(t, "remote", p.sh("git -C remote.git for-each-ref"), before)
		})
	}
}

// A branch that existed before the first delivery belongs to someone else, also if an agent
// has built on it, unless it was pushed from this mirror: then the record of an earlier
// delivery was lost.
func TestBranchExists(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	p := newPlace(t)
	p.mustClone("one")
	p.commit("one", "first")
	for _, theirs := range []string{"main", "$(git commit-tree -m theirs main^{tree})"} {
		p.sh("cd person; git push -qf origin " + theirs + ":refs/heads/work/one")
		wantFault(t, test.Err(p.deliver("one", "")), host.CodeDeliveryConflict)
	}
	p.sh(
		"cd person; git push -qf origin $(git commit-tree -m theirs -p main main^{tree}):refs/heads/work/one",
	)
	p.sh("cd one; git fetch -q ../remote.git work/one; git reset -q --hard FETCH_HEAD")
	p.commit("one", "on top")
	wantFault(t, test.Err(p.deliver("one", "")), host.CodeDeliveryConflict)
	p.sh("git -C remote.git update-ref -d refs/heads/work/one; git -C one reset -q --hard HEAD^^")
	p.commit("one", "first")
	p.mustDeliver("one", "")
	next := p.commit("one", "second")
	test.Equal(t, "after a lost record", p.mustDeliver("one", ""), host.DeliverAnswer{
		Commit:  next,
		Base:    "main",
		Commits: 2,
	})
}

// Another address may lead to the same repository, or to one that lacks everything.
func TestAddressChanges(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	p := newPlace(t)
	main := p.mustClone("one").Commit
	p.sh("git clone -q --bare remote.git other.git")
	first := p.commit("one", "first")
	p.mustDeliver("one", "")
	p.remote = "file://" + p.remote
	second := p.commit("one", "second")
	p.mustDeliver("one", first)
	p.wantRemote(main+" main", second+" work/one")
	p.remote = filepath.Join(p.dir, "other.git")
	test.Equal(t, "delivery", p.mustDeliver("one", second), host.DeliverAnswer{
		Commit:  second,
		Base:    "main",
		Commits: 2,
	})
	test.Equal(t, "branch", p.sh("git -C other.git rev-parse work/one"), second)
}

// A remote that hangs is given up at the limit, and does not keep others waiting after that.
func TestRemoteHangs(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.mustClone("one")
	commit := p.commit("one", "first")
	p.hook("pre-receive", "echo $$ > ../hanging; exec sleep 1000")
	ctx, cancel := context.WithCancel(t.Context())
	var both sync.WaitGroup
	both.Go(func() {
		_, err := p.mirror().
			DeliverWorkspace(
				ctx, filepath.Join(p.dir, "one"), host.Origin{URL: p.remote},
				host.DeliverRequest{Branch: "work/one"},
			)
		wantFault(t, err, host.CodeDeliveryFailed, "")
	})
	p.await("hanging")
	cancel()
	both.Wait()
	// in a container without an init, nobody collects the hook after its end
	p.sh(`hook=$(cat hanging)
		while kill -0 $hook 2>/dev/null && ! grep -qs '^State:.Z' /proc/$hook/status; do sleep 0.01; done`)
	p.hook("pre-receive", "")
	test.Equal(t, "delivered", p.mustDeliver("one", "").Commit, commit)

	// The fetch of a clone hangs, while another clone waits for the mirror.
	p.sh(`printf '#!/bin/sh\necho $$ > hanging-ssh; exec sleep 1000\n' > ssh; chmod +x ssh`)
	hanging := p.mirror()
	hanging.env = append(hanging.env, "GIT_SSH_COMMAND="+filepath.Join(p.dir, "ssh"))
	hanging.remote.URL = "git@host:app.git" // the address of another remote, with the same mirror
	ctx, cancel = context.WithCancel(t.Context())
	both.Go(func() {
		wantFault(
			t,
			test.Err(hanging.Clone(ctx, t.TempDir(), "work/two", "")),
			host.CodeRepositoryUnavailable,
			"git@host:app.git",
		)
	})
	p.await("mirrors/hanging-ssh")
	ended, end := context.WithCancel(t.Context())
	end()
	_, err := p.mirror().Clone(ended, t.TempDir(), "work/two", "")
	test.Contains(
		t,
		"while the mirror is in use",
		fmt.Sprint(err),
		"another clone or delivery is using the mirror",
	)
	cancel()
	both.Wait()
	p.mustClone("two")
}

// await waits until a file exists and is not empty.
func (p *place) await(name string) {
	p.t.Helper()
	test.Until(p.t, name, func() bool {
		data, _ := os.ReadFile(filepath.Join(p.dir, name))
		return len(data) > 0
	})
}

// Over HTTP a proxy or a broken server may answer anything.
func TestRemoteOverHTTP(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	p := newPlace(t)
	backend := filepath.Join(p.sh("git --exec-path"), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skip("git has no HTTP server here")
	}
	p.sh("git -C remote.git config http.receivepack true")
	type handler = func(http.ResponseWriter, *http.Request) bool // false: git answers
	var wrong handler
	served := &cgi.Handler{
		Path: backend,
		Env:  []string{"GIT_PROJECT_ROOT=" + p.dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=x"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wrong == nil || !wrong(w, r) {
			served.ServeHTTP(w, r)
		}
	}))
	defer server.Close()
	p.remote = server.URL + "/remote.git"
	p.mustClone("one")
	p.commit("one", "first")
	status := func(code int) handler {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, "no", code)
			return true
		}
	}
	for what, c := range map[string]struct {
		answer handler
		reason string
	}{
		"busy":                    {status(http.StatusServiceUnavailable), "git push: remote: no; fatal: unable to access "},
		"denied":                  {status(http.StatusForbidden), "git push: remote: no; fatal: unable to access "},
		"a password is asked for": {status(http.StatusUnauthorized), "fatal: could not read Username"},
		"a page": {func(w http.ResponseWriter, _ *http.Request) bool {
			fmt.Fprint(w, "<html>log in</html>")
			return true
		}, "error: no DAV locking support"},
		"an empty answer to the push": {func(w http.ResponseWriter, r *http.Request) bool {
			return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-receive-pack")
		}, "unexpected disconnect"},
	} {
		wrong = c.answer
		_, err := p.deliver("one", "")
		wantFault(t, err, host.CodeDeliveryFailed)
		test.Contains(t, what, err.Error(), c.reason)
	}
	wrong = nil
	test.Equal(t, "commits", p.mustDeliver("one", "").Commits, 1)
}

// Several runs clone and deliver at once.
func TestAtOnce(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	p := newPlace(t)
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			name := fmt.Sprint("w", i)
			if _, err := p.clone(name, ""); err != nil {
				t.Error(err)
				return
			}
			p.commit(name, name)
			if _, err := p.deliver(name, ""); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	test.Equal(t, "branches", p.sh("git -C remote.git for-each-ref | wc -l"), "7")
	test.Equal(
		t,
		"mirror",
		p.sh(
			"git -C mirrors/*.git fsck --connectivity-only 2>&1; git -C mirrors/*.git for-each-ref "+
				"refs/heads | wc -l",
		),
		"7",
	)
}

// That git was killed says nothing about whether the remote is the repository from which the
// workspace was cloned.
func TestKilledWhileOriginIsCompared(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.mustClone("one")
	p.commit("one", "two")
	first := p.sh("git -C person rev-parse HEAD")
	git := test.Must(exec.LookPath("git"))
	p.sh(`mkdir bin; printf '#!/bin/sh\ncase " $* " in *" --contains="*) kill -9 $$ ;; esac\nexec ` + git +
		` "$@"\n' > bin/git; chmod +x bin/git`)
	p.env[0] = "PATH=" + filepath.Join(p.dir, "bin") + ":" + os.Getenv("PATH")
	elsewhere := host.Origin{URL: "https://old.example.org/project.git", Commit: first}
	_, err := p.mirror().DeliverWorkspace(
		t.Context(),
		filepath.Join(p.dir, "one"),
		elsewhere,
		host.DeliverRequest{Branch: "work/one"},
	)
	wantFault(t, err, host.CodeDeliveryFailed, "signal: killed")
}

// git that writes into the mirror holds its lock, and so goes on alone if this process dies.
func TestGitHoldsTheLock(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the system does not list the files of a process")
	}
	p := newPlace(t)
	p.mustClone("one")
	p.commit("one", "two")
	git := test.Must(exec.LookPath("git"))
	p.sh(`mkdir bin; printf '#!/bin/sh\ncase "$*" in *pack-objects*/objects/pack/pack*) readlink /proc/$$/fd/* >> ` +
		p.dir + `/files;; esac\nexec ` + git + ` "$@"\n' > bin/git; chmod +x bin/git`)
	p.env[0] = "PATH=" + filepath.Join(p.dir, "bin") + ":" + os.Getenv("PATH")
	p.mustDeliver("one", "")
	test.Contains(t, "open files of git", p.sh("cat files"), ".git.lock")
}
