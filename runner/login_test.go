package runner

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// profile writes the login profile of the rig's account and returns its home directory.
func (r *rig) profile(script string) (home string) {
	r.t.Helper()
	home = filepath.Join(filepath.Dir(r.root), "home")
	test.OK(r.t, os.WriteFile(filepath.Join(home, ".profile"), []byte(script), 0o600))
	return home
}

// Hooks and agent have what the login profile exports and its umask, and the profile runs once for all of them, in a directory
// that no agent can write.
func TestOneLoginShell(t *testing.T) {
	r := newRig(t, "say hm")
	home := r.profile("pwd >> ~/logins; umask 027; unset DROPPED; export FROM_PROFILE=yes\n")
	r.Env = append(r.Env, "DROPPED=here")
	const look = `echo "$FROM_PROFILE $(umask) ${DROPPED-gone} $(pwd)" >> seen.txt; `
	r.Config.Hooks.AfterCreate, r.Config.Hooks.BeforeRun, r.Config.Hooks.AfterRun = look, look, look
	r.Config.Command = look + r.Config.Command
	r.ends(reconcile.Succeeded, "")
	if got := read(t, filepath.Join(home, "logins")); got != "/\n" {
		t.Errorf("the profile ran in %q", got)
	}
	if got, want := read(t, r.space("seen.txt")), strings.Repeat("yes 0027 gone "+r.space()+"\n", 4); got != want {
		t.Errorf("hooks and agent saw\n%swant\n%s", got, want)
	}
}

// codex.command may be a function of the login profile.
func TestCommandIsAFunction(t *testing.T) {
	r := newRig(t, "say hm")
	r.profile("my-codex() { \"$@\"; }\n")
	r.Config.Command = "my-codex " + r.Config.Command
	r.ends(reconcile.Succeeded, "")
}

// slowLock is a program that takes a lock, hangs, and removes the lock slowly when it gets SIGTERM, as pyenv rehash does.
const slowLock = `sh -c 'trap "sleep 1.3; rm ~/lock; exit" TERM; touch ~/lock; sleep 1000 & wait'` + "\n"

// noLock checks that slowLock has removed its lock.
func noLock(t *testing.T, home string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(home, "lock")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the lock is left: %v", err)
	}
}

// A login shell that hangs is a fault of the machine. The error says so, and its programs can remove their locks.
func TestLoginShellHangs(t *testing.T) {
	for _, hook := range []string{"", "true"} {
		r := newRig(t, "say hm")
		home := r.profile(slowLock)
		r.Config.Hooks.BeforeRun, r.Config.LoginTimeout = hook, 300*time.Millisecond
		run := r.ends(reconcile.Failed, "login_shell_failed")
		for _, want := range []string{"it hangs: the login profile did not end within 300ms", "it has started sh ("} {
			if !strings.Contains(run.ErrorText, want) {
				t.Errorf("the error is %q", run.ErrorText)
			}
		}
		if !reconcile.MachineFault(run.ErrorCode) {
			t.Error("it counts as a failure of the issue")
		}
		noLock(t, home)
	}
}

// A login profile that ends the shell is reported.
func TestLoginShellEnds(t *testing.T) {
	for _, profile := range []string{"exit 3\n", "exec true\n"} {
		r := newRig(t, "say hm")
		r.profile(profile)
		if run := r.ends(reconcile.Failed, "login_shell_failed"); !strings.Contains(run.ErrorText, "it ended ") {
			t.Errorf("the error is %q", run.ErrorText)
		}
	}
}

// An agent that does not answer, and hooks that take too long, get two seconds to remove their locks.
func TestProgramsThatHangRemoveTheirLocks(t *testing.T) {
	r := newRig(t, "say hm")
	home := r.profile("")
	r.Config.Command, r.Config.InitializeTimeout = slowLock, 300*time.Millisecond
	r.ends(reconcile.Failed, "response_timeout")
	noLock(t, home)

	r = newRig(t, "say hm")
	home = r.profile("")
	r.Config.Hooks.BeforeRun, r.Config.Hooks.Timeout = slowLock, 300*time.Millisecond
	r.ends(reconcile.Failed, "hook_timeout")
	noLock(t, home)

	h := attentionHook(t, slowLock)
	h.Env = append(h.Env, "HOME="+h.Home)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if result := h.Run(ctx, reconcile.Attention{Kind: reconcile.AttentionHold}); result.Err == nil {
		t.Error("hooks.on_attention succeeded")
	}
	noLock(t, h.Home)
}
