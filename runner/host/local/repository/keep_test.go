package repository

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
)

// A git that is killed on this machine does not mean that nothing is kept, and the error says
// that the fault is here. What the other machine reports is no fault of this one.
func TestKeepFails(t *testing.T) {
	p := newPlace(t)
	p.mustClone("one")
	first := p.commit("one", "first")
	keep := func(commit string, pack func(context.Context, []string, io.Writer) error) error {
		return p.mirror().Keep(t.Context(), "A-1", host.Work{Commit: commit, Pack: pack})
	}
	mirror := p.mirror().path
	p.sh("git --git-dir " + mirror + " fetch -q one HEAD")
	test.OK(t, keep(first, nil))
	second := p.commit("one", "second")

	there := func(context.Context, []string, io.Writer) error { return errors.New("No space left on device") }
	here := func(context.Context, []string, io.Writer) error {
		return &os.PathError{Op: "write", Path: "pack", Err: syscall.ENOSPC}
	}
	isHere := func(err error) bool { return errors.As(err, &host.FaultHere{}) }
	test.Equal(t, "the other machine is full", isHere(test.Err(0, keep(second, there))), false)
	test.Equal(t, "this machine is full", isHere(test.Err(0, keep(second, here))), true)
	wantFault(t, test.Err(0, keep(second, there)), host.CodeDeliveryFailed)
	wantFault(t, test.Err(0, keep(second, here)), host.CodeDiskFull)

	git := test.Must(exec.LookPath("git"))
	for _, command := range []string{"for-each-ref", "update-ref"} {
		p.sh("mkdir -p bin; printf '#!/bin/sh\ncase \" $* \" in *\" " + command +
			" \"*) kill -9 $$ ;; esac\nexec " + git + " \"$@\"\n' > bin/git; chmod +x bin/git")
		p.env[0] = "PATH=" + filepath.Join(p.dir, "bin") + ":" + os.Getenv("PATH")
		err := test.Err(0, keep(p.sh("git -C person rev-parse HEAD"), there))
		wantFault(t, err, host.CodeGitKilled, "signal: killed")
		test.Equal(t, command+" is killed here", isHere(err), true)
		if command == "for-each-ref" {
			found, err := p.mirror().Unsaved(t.Context(), "A-1", "")
			test.Contains(t, "what is kept", test.Err(found, err).Error(), "signal: killed")
		}
	}
	p.env[0] = "PATH=" + os.Getenv("PATH")
	test.Equal(t, "kept", test.Must(p.mirror().Unsaved(t.Context(), "A-1", "")).Commit, first)
}

// Commits that were delivered are not lost, although no branch of the remote has them any more:
// a forge may squash them, and they may have been pushed as signed copies.
func TestDeliveredCommitsAreSaved(t *testing.T) {
	for _, c := range []struct {
		name  string
		signs bool
	}{
		{"as they are", false},
		{"as signed copies", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.makeSigningKey()
			mirror := p.mirrorOf(host.Repository{URL: p.remote, Sign: c.signs})
			workspace := filepath.Join(p.dir, "one")
			p.mustClone("one")
			kept := p.commit("one", "first")
			p.sh("git --git-dir " + mirror.path + " fetch -q one HEAD")
			test.OK(t, mirror.Keep(t.Context(), "A-1", host.Work{Commit: kept}))
			request := host.DeliverRequest{Branch: "work/one"}
			origin := host.Origin{URL: p.remote}
			answer := test.Must(mirror.DeliverWorkspace(t.Context(), workspace, origin, request))
			test.Equal(t, "another commit was pushed", answer.Commit != kept, c.signs)

			p.sh(`cd person; git commit -q --allow-empty -m squashed; git push -q origin main :work/one`)
			test.Must(mirror.Fetch(t.Context(), workspace, "work/one", answer.Commit, false))
			found := test.Must(mirror.Unsaved(t.Context(), "A-1", ""))
			test.Equal(t, "unsaved without a delivery", len(found.Commits), 1)
			found = test.Must(mirror.Unsaved(t.Context(), "A-1", answer.Commit))
			test.Equal(t, "unsaved", found.Commits, nil)

			later := p.commit("one", "later")
			p.sh("git --git-dir " + mirror.path + " fetch -q one HEAD")
			test.OK(t, mirror.Keep(t.Context(), "A-1", host.Work{Commit: later}))
			found = test.Must(mirror.Unsaved(t.Context(), "A-1", answer.Commit))
			test.Equal(t, "unsaved after more work", len(found.Commits), 1)
		})
	}
}

// To forget the commits of an issue of which nothing is kept takes no lock, for which a fetch
// of another issue would be waited for.
func TestForgetNothing(t *testing.T) {
	p := newPlace(t)
	p.mustClone("one")
	test.OK(t, p.mirror().withLock(t.Context(), func(writer) error {
		ctx, cancel := context.WithTimeout(t.Context(), test.Patience())
		defer cancel()
		return p.mirror().Forget(ctx, "A-1")
	}))
}
