package runner

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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

// Hooks and agent have what the login profile exports and its umask, and the profile runs once
// for all of them, in a directory that no agent can write.
func TestOneLoginShell(t *testing.T) {
	r := newRig(t, "say hm")
	home := r.profile("pwd >> ~/logins; umask 027; unset DROPPED; export FROM_PROFILE=yes\n")
	r.Here.Env = append(r.Here.Env, "DROPPED=here")
	const look = `echo "$FROM_PROFILE $(umask) ${DROPPED-gone} $(pwd)" >> seen.txt; `
	r.Here.Config.Hooks.AfterCreate = look
	r.Here.Config.Hooks.BeforeRun = look
	r.Here.Config.Hooks.AfterRun = look
	r.Here.Config.Command = look + r.Here.Config.Command + " # @openai/codex"
	r.ends(reconcile.EndedRun, "")
	test.Equal(t, "where the profile ran", test.Read(t, filepath.Join(home, "logins")), "/\n")
	test.Equal(
		t,
		"what hooks and agent saw",
		test.Read(t, r.space("seen.txt")),
		strings.Repeat("yes 0027 gone "+r.space()+"\n", 4),
	)
}

// Git that clones and pushes has the environment that hooks have, with the PATH of the
// profile, without what an agent could have filled. No shell is started for it.
func TestGitHasTheProfile(t *testing.T) {
	r := newRig(t, "sh git commit -q --allow-empty -m work")
	home := r.profile(`echo in >> ~/logins; export PATH=~/bin:$PATH GIT_SSH_COMMAND='~/ssh'
		export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b` + "\n")
	sh := exec.CommandContext(t.Context(), "sh", "-ec", `git init -q --bare -b main remote.git; mkdir bin
		printf '#!/bin/sh\nexport GIT_SEEN=yes; exec '"$(command -v git)"' "$@"\n' > bin/git
		printf '#!/bin/sh\necho "$GIT_SEEN ${TMPDIR-none} ${LINEAR_API_KEY-none}" >> ~/seen; shift $(($#-1)); exec sh -c "$1"\n' > ssh
		chmod +x bin/git ssh
		tree=$(git -C remote.git mktree < /dev/null)
		git -C remote.git update-ref refs/heads/main $(git -C remote.git -c user.name=a -c user.email=a@b commit-tree -m first $tree)`)
	sh.Dir = home
	sh.Stderr = t.Output()
	test.OK(t, sh.Run())
	r.Here.Config.Repository = Repository{
		Repository: host.Repository{URL: "host:" + filepath.Join(home, "remote.git")},
		Branch:     branchName("work"),
		Deliver:    true,
	}
	r.Here.Config.Hooks.BeforeRun = "true"
	run := test.Must(r.work())
	test.Equal(t, "commits, after "+run.ErrorText, run.Delivery.Commits, 1)
	test.Equal(t, "runs of the profile", test.Read(t, filepath.Join(home, "logins")), "in\n")
	for line := range strings.Lines(test.Read(t, filepath.Join(home, "seen"))) {
		test.Equal(t, "git had", line, "yes none none\n")
	}
}

// branchName is a Prompt with the name of a branch.
type branchName string

func (b branchName) Render(reconcile.Issue, int) (string, error) { return string(b), nil }

// hangsLater is a run whose login profile ends only the first time.
type hangsLater struct {
	host.Run
	logins int
}

func (h *hangsLater) Login(context.Context, host.LoginRequest) (host.LoginAnswer, error) {
	h.logins++
	if h.logins > 1 {
		return host.LoginAnswer{}, errors.New("it hangs")
	}
	return host.LoginAnswer{Set: []string{"FROM=profile"}}, nil
}

// A profile that has begun to hang is started once, and hooks and git go on with what it had
// set before.
func TestLoginShellHangsLater(t *testing.T) {
	r := newRig(t, "")
	h := &hangsLater{}
	r.Here.Machine = withRuns{r.Here.Machine, func(run host.Run) host.Run { h.Run = run; return h }}
	j := r.newJob(r.run, func(error) {})
	j.site.space = &host.Workspace{}
	test.Must(j.shell.login(t.Context()))
	j.shell.loginAt = time.Now().Add(-time.Hour)
	for range 2 {
		env := test.Must(j.shell.gitEnv(t.Context()))
		test.Equal(
			t,
			"the profile reaches git, and logins",
			[]any{slices.Contains(env, "FROM=profile"), h.logins},
			[]any{true, 2},
		)
	}
}

// A program that an agent has left in a directory of the workspace is started neither by hooks
// nor by codex, even if the login profile adds that directory to PATH.
func TestRelativePath(t *testing.T) {
	const plant = `sh mkdir -p bin && printf '#!/bin/sh\ntouch ../pwned\n' > bin/ls && chmod 755 bin/ls`
	r := newRig(t, plant, in("Todo"), in("Human Review"), in("Todo"), in("Human Review"))
	home := r.profile("export PATH=bin:$PATH LD_LIBRARY_PATH=/lib::lib:\n")
	r.Here.Config.Hooks.AfterRun = "ls; echo $LD_LIBRARY_PATH > ~/libraries"
	r.Here.Config.Command = "ls; " + r.Here.Config.Command
	for _, name := range []string{"run-1", "run-2"} {
		r.next(name)
		test.Equal(t, "outcome of "+name, test.Must(r.work()).Outcome, reconcile.EndedRun)
	}
	test.Equal(t, "the agent's program was started", test.Exists(t, filepath.Join(r.root, "pwned")), false)
	test.Equal(t, "where hooks look for libraries", test.Read(t, filepath.Join(home, "libraries")), "/lib\n")
}

// slowLock is a program that takes a lock, hangs, and removes the lock slowly when it gets
// SIGTERM, as pyenv rehash does.
const slowLock = `sh -c 'trap "sleep 0.1; rm ~/lock; exit" TERM; touch ~/lock; sleep 1000 & wait'` + "\n"

// noLock checks that slowLock has removed its lock.
func noLock(t *testing.T, home string) {
	t.Helper()
	test.Equal(t, "the lock is left", test.Exists(t, filepath.Join(home, "lock")), false)
}

// A login shell that hangs is a fault of the machine. The error reports that, and its programs
// can remove their locks.
func TestLoginShellHangs(t *testing.T) {
	started := false
	for limit := 300 * time.Millisecond; !started; limit *= 2 { // a busy machine starts sh later
		r := newRig(t, "say hm")
		home := r.profile(slowLock)
		r.Here.Config.LoginTimeout = limit
		run := r.ends(reconcile.Failed, "login_shell_failed")
		if !strings.Contains(run.ErrorText, "the login profile did not end within ") ||
			!reconcile.MachineFault(run.ErrorCode) ||
			limit > test.Patience() {
			t.Fatalf("the error is %s %q", run.ErrorCode, run.ErrorText)
		}
		noLock(t, home)
		started = strings.Contains(run.ErrorText, "it has started sh (")
	}
}

// A login profile that ends the shell is reported.
func TestLoginShellEnds(t *testing.T) {
	for _, profile := range []string{"exit 3\n", "exec true\n"} {
		r := newRig(t, "say hm")
		r.profile(profile)
		test.Contains(t, "the error", r.ends(reconcile.Failed, "login_shell_failed").ErrorText, "it ended ")
	}
}

// An agent that does not answer, and hooks that take too long, get two seconds to remove their
// locks.
func TestProgramsThatHangRemoveTheirLocks(t *testing.T) {
	r := newRig(t, "say hm")
	home := r.profile("")
	r.Here.Config.Command = slowLock
	r.Here.Config.InitializeTimeout = 300 * time.Millisecond
	r.ends(reconcile.Failed, "response_timeout")
	noLock(t, home)

	r = newRig(t, "say hm")
	home = r.profile("")
	r.Here.Config.Hooks.BeforeRun = slowLock
	r.Here.Config.Hooks.Timeout = 300 * time.Millisecond
	r.ends(reconcile.Failed, "hook_timeout")
	noLock(t, home)
}

// git asks nobody for a password: not in a dialog, for which the operator's session has a
// display, and not on a terminal. A program that answers without a person is still asked.
func TestGitAsksNobody(t *testing.T) {
	dir := t.TempDir()
	dialog := filepath.Join(dir, "dialog")
	test.OK(
		t,
		os.WriteFile(
			dialog,
			[]byte("#!/bin/sh\n[ -z \"$DISPLAY$WAYLAND_DISPLAY\" ] && exit 1\nexec sleep 1000\n"),
			0o700,
		),
	)
	script := filepath.Join(dir, "script")
	test.OK(t, os.WriteFile(script, []byte("#!/bin/sh\necho secret\n"), 0o700))
	session := []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + dir,
		"DISPLAY=:0",
		"WAYLAND_DISPLAY=wayland-0",
		"GPG_TTY=/dev/pts/0",
	}
	configured := []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.askPass", "GIT_CONFIG_VALUE_0=" + script}
	for name, c := range map[string]struct {
		vars []string
		own  string
		want string
	}{
		"a dialog":                     {[]string{"SSH_ASKPASS=" + dialog}, "", ""},
		"another dialog":               {[]string{"GIT_ASKPASS=" + script}, "", ""},
		"one of git's settings":        {configured, "", ""},
		"a terminal":                   {nil, "", ""},
		"that of the environment file": {configured, script, "password=secret"},
	} {
		cmd := exec.CommandContext(t.Context(), "git", "credential", "fill")
		cmd.Env = Config{Repository: Repository{AskPass: c.own}}.GitEnv(append(session, c.vars...), host.LoginAnswer{})
		cmd.Stdin = strings.NewReader("protocol=https\nhost=git.invalid\nusername=ann\n")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		out, _ := cmd.Output() // fails where it gets no password
		test.Contains(t, name, string(out)+"\n", c.want+"\n")
		test.Equal(t, name+": an answer", len(out) > 0, c.want != "")
	}
}
