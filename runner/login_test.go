package runner

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
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

// Git that clones and pushes has the environment that hooks have, with the PATH of the profile, without what an agent could have
// filled. No shell is started for it.
func TestGitHasTheProfile(t *testing.T) {
	r := newRig(t, "sh git commit -q --allow-empty -m work")
	home := r.profile(`echo in >> ~/logins; export PATH=~/bin:$PATH GIT_SSH_COMMAND=~/ssh
		export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b` + "\n")
	sh := exec.CommandContext(t.Context(), "sh", "-ec", `git init -q --bare -b main remote.git; mkdir bin
		printf '#!/bin/sh\nexport GIT_SEEN=yes; exec '"$(command -v git)"' "$@"\n' > bin/git
		printf '#!/bin/sh\necho "$GIT_SEEN ${TMPDIR-none} ${LINEAR_API_KEY-none}" >> ~/seen; shift $(($#-1)); exec sh -c "$1"\n' > ssh
		chmod +x bin/git ssh
		tree=$(git -C remote.git mktree < /dev/null)
		git -C remote.git update-ref refs/heads/main $(git -C remote.git -c user.name=a -c user.email=a@b commit-tree -m first $tree)`)
	sh.Dir = home
	out, err := sh.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r.Config.Repository = Repository{
		Repository: host.Repository{URL: "host:" + filepath.Join(home, "remote.git")}, Branch: branchName("work"), Deliver: true,
	}
	r.Config.Hooks.BeforeRun = "true"
	run, err := r.work()
	test.OK(t, err)
	if run.Delivery.Commits != 1 {
		t.Errorf("%s %s: %+v", run.Outcome, run.ErrorText, run.Delivery)
	}
	if got := read(t, filepath.Join(home, "logins")); got != "in\n" {
		t.Errorf("the profile ran %d times", strings.Count(got, "\n"))
	}
	for line := range strings.Lines(read(t, filepath.Join(home, "seen"))) {
		if line != "yes none none\n" {
			t.Errorf("git had %q", line)
		}
	}
}

// branchName is a Prompt with the name of a branch.
type branchName string

func (b branchName) Render(reconcile.Issue, int) (string, error) { return string(b), nil }

// A profile that has begun to hang is started once, and hooks and git go on with what it had set before.
func TestLoginShellHangsLater(t *testing.T) {
	r := newRig(t, "")
	home := r.profile("export FROM=profile\n")
	step := workspaceStep{job: r.newJob(r.run, func(error) {})}
	test.OK(t, step.open())
	defer step.close()
	test.OK(t, step.take(t.Context()))
	_, err := step.login(t.Context())
	test.OK(t, err)
	r.profile("echo in >> ~/logins; sleep 1000\n")
	step.Config.LoginTimeout, step.loginAt = time.Second, time.Now().Add(-time.Hour)
	for range 2 {
		env, err := step.gitEnv(t.Context())
		test.OK(t, err)
		if !slices.Contains(env, "FROM=profile") {
			t.Errorf("git has %q", env)
		}
	}
	if got := read(t, filepath.Join(home, "logins")); got != "in\n" {
		t.Errorf("the profile was started %d times", strings.Count(got, "\n"))
	}
	test.OK(t, step.killAll(t.Context()))
	test.OK(t, step.Host.Finish(t.Context(), step.hostRun()))
}

// codex.command may be a function of the login profile. The profile does not run in the workspace for it, and its relative
// directories are not in the PATH of codex.
func TestCommandIsAFunction(t *testing.T) {
	r := newRig(t, "say hm")
	home := r.profile("pwd >> ~/logins; PATH=bin:$PATH; my-codex() { echo $PATH > ~/path; \"$@\"; }\n")
	r.Config.Command = "my-codex " + r.Config.Command
	r.ends(reconcile.Succeeded, "")
	if got := read(t, filepath.Join(home, "logins")); got != "/\n/\n" {
		t.Errorf("the profile ran in %q", got)
	}
	if got := read(t, filepath.Join(home, "path")); !strings.HasPrefix(got, "/") {
		t.Errorf("codex has the PATH %q", got)
	}
}

// A program that an agent has left in a directory of the workspace is started neither by hooks nor by codex, even if the login
// profile adds that directory to PATH.
func TestRelativePath(t *testing.T) {
	const plant = `sh mkdir -p bin && printf '#!/bin/sh\ntouch ../pwned\n' > bin/ls && chmod 755 bin/ls`
	r := newRig(t, plant, in("Todo"), in("Human Review"), in("Todo"), in("Human Review"))
	home := r.profile("export PATH=bin:$PATH LD_LIBRARY_PATH=/lib::lib:\n")
	r.Config.Hooks.AfterRun = "ls; echo $LD_LIBRARY_PATH > ~/libraries"
	r.Config.Command = "ls; " + r.Config.Command
	for _, name := range []string{"run-1", "run-2"} {
		r.next(name)
		run, err := r.work()
		test.OK(t, err)
		test.Equal(t, "outcome of "+name, run.Outcome, reconcile.Succeeded)
	}
	if _, err := os.Stat(filepath.Join(r.root, "pwned")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the agent's program was started: %v", err)
	}
	if got := read(t, filepath.Join(home, "libraries")); got != "/lib\n" {
		t.Errorf("hooks look for libraries in %q", got)
	}
}

// slowLock is a program that takes a lock, hangs, and removes the lock slowly when it gets SIGTERM, as pyenv rehash does.
const slowLock = `sh -c 'trap "sleep 0.3; rm ~/lock; exit" TERM; touch ~/lock; sleep 1000 & wait'` + "\n"

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
		r.Config.Hooks.BeforeRun, r.Config.LoginTimeout = hook, time.Second
		run := r.ends(reconcile.Failed, "login_shell_failed")
		for _, want := range []string{"it hangs: the login profile did not end within 1s", "it has started sh ("} {
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
