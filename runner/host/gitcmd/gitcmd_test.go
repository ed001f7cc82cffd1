package gitcmd

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
)

// fakeGit returns an environment whose git is a shell script.
func fakeGit(t *testing.T, script string) []string {
	t.Helper()
	dir := t.TempDir()
	// While the file is open for writing, no other test starts a process: that would inherit it, and
	// Linux runs no program that a process has open for writing.
	syscall.ForkLock.RLock()
	err := os.WriteFile(filepath.Join(dir, "git"), []byte("#!/bin/sh\n"+script+"\n"), 0o700)
	syscall.ForkLock.RUnlock()
	test.OK(t, err)
	return []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
}

// ask runs git in a new directory.
func ask(t *testing.T, trust Trust, env []string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), test.Patience())
	defer cancel()
	return Output(Command(ctx, t.TempDir(), trust, env, args...), NoLimit)
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	env := append(fakeGit(t, "env"), "HOME=/home/kim", "XDG_CONFIG_HOME=/home/kim/.config", "LC_ALL=de_DE.UTF-8",
		"GIT_DIR=/elsewhere", "GIT_INDEX_FILE=/elsewhere/index", "GIT_TERMINAL_PROMPT=1",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.editor", "GIT_CONFIG_VALUE_0=vi", host.RunMark+"=r1")
	own := []string{"GIT_CONFIG_COUNT=1", "HOME=/home/kim", "XDG_CONFIG_HOME="}
	none := []string{"HOME=/nonexistent", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ALLOW_PROTOCOL=none"}
	for _, c := range []struct {
		trust        Trust
		there, lacks []string
	}{
		{Nobody, none, own},
		{Operator, own, none},
		{AsConfigured, own, none},
	} {
		out := test.Must(ask(t, c.trust, env, "status"))
		test.Contains(t, "the environment", out, c.there...)
		test.Contains(t, "the environment", out, "LC_ALL=C\n", "GIT_TERMINAL_PROMPT=0", host.RunMark+"=r1")
		test.Lacks(t, "the environment", out, c.lacks...)
		test.Lacks(t, "the environment", out, "/elsewhere", "GIT_TERMINAL_PROMPT=1", "de_DE")
	}
}

// A repository whose settings name programs runs them only for questions about settings, which
// need none.
func TestSettingsStartNothing(t *testing.T) {
	t.Parallel()
	for trust, want := range map[Trust]bool{Nobody: false, Operator: false, AsConfigured: true} {
		dir := t.TempDir()
		ran := filepath.Join(dir, "ran")
		in := func(args ...string) string {
			env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
			return test.Must(Output(Command(t.Context(), dir, trust, env, args...), NoLimit))
		}
		in("init", "-q")
		test.OK(t, os.WriteFile(filepath.Join(dir, "monitor"), []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o700))
		in("config", "core.fsmonitor", filepath.Join(dir, "monitor"))
		in("status")
		test.Equal(t, "the monitor ran", test.Exists(t, ran), want)
		hooks := strings.TrimSpace(in("rev-parse", "--git-path", "hooks"))
		test.Equal(t, "the hooks are those of the repository", hooks == ".git/hooks", want)
	}
}

// An error says what git was to do and what it said, and still has the exit code.
func TestError(t *testing.T) {
	t.Parallel()
	env := fakeGit(t, "printf 'one\\ntwo\\n\\nthree\\nfatal: four\\n' >&2; exit 128")
	_, err := ask(t, Operator, env, "-c", "a.b=c", "fetch", "origin")
	test.Equal(t, "error", test.Err(0, err).Error(), "git fetch: two; three; fatal: four")
	test.Equal(t, "output", host.GitOutput(err), "one; two; three; fatal: four")
	test.Equal(t, "answered", Exited(err), true)
	test.Equal(t, "exit code", ExitedWith(err, 128), true)

	_, err = ask(t, Nobody, fakeGit(t, "kill -9 $$"), "status")
	test.Equal(t, "error", test.Err(0, err).Error(), "git status: signal: killed")
	test.Equal(t, "answered", Exited(err), false)

	_, err = Output(exec.CommandContext(t.Context(), filepath.Join(t.TempDir(), "git"), noPager, "status"), NoLimit)
	test.ErrorIs(t, "a git that is missing", err, os.ErrNotExist)
}

// A git that prints without end is ended.
func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	out, err := ask(t, Nobody, fakeGit(t, "exec cat /dev/zero"), "log")
	_, reached := errors.AsType[LimitError](err)
	test.Equal(t, "the limit is reached", reached, true)
	test.Equal(t, "it is within the limit", len(out) <= maxAnswer, true)
}

// With a git that has to end, or failed, the programs that it started end, too.
func TestGroupEnds(t *testing.T) {
	t.Parallel()
	for _, trust := range []Trust{Nobody, Operator} {
		for _, end := range []string{"wait", "trap '' TERM; wait", "exit 1"} {
			dir := t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			env := fakeGit(t, "sleep 1000 >/dev/null 2>&1 & echo $! > new; mv new pid; "+end)
			done := make(chan error)
			go func() { done <- Run(Command(ctx, dir, trust, env, "fetch"), NoLimit) }()
			pid := 0
			test.Until(t, "git starts a program", func() bool {
				text, err := os.ReadFile(filepath.Join(dir, "pid"))
				if err == nil {
					pid = test.Must(strconv.Atoi(strings.TrimSpace(string(text))))
				}
				return err == nil
			})
			cancel()
			test.Err(0, <-done)
			test.Until(t, "the program has ended", func() bool {
				return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || isZombie(pid)
			})
		}
	}
}

// isZombie reports whether a process has ended and nobody has asked for its exit code.
func isZombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}

// Nothing else of the program starts git. The fakes of tests do.
func TestOnlyHere(t *testing.T) {
	t.Parallel()
	own := []string{"runner/host/gitcmd/", "tracker/github/githubtest/"}
	found := test.FilesWith(t, filepath.Join("..", "..", ".."), `commandcontext(ctx, "git"`, own, nil)
	test.Equal(t, "files that start git", found, nil)
}

// Ask does not wait for a repository on a disk that hangs.
func TestAskEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := Ask(ctx, t.TempDir(), fakeGit(t, "sleep 1000"), "for-each-ref")
	test.Equal(t, "it has answered", Exited(test.Err(0, err)), false)
}

// The error of a command of the operator names its program once.
func TestErrorOfShell(t *testing.T) {
	t.Parallel()
	err := Run(Shell(t.Context(), t.TempDir(), []string{"PATH=" + os.Getenv("PATH")}, "kill -KILL $$"), NoLimit)
	test.Equal(t, "error", err.Error(), "sh: signal: killed")
}
