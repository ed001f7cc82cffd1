// Package gitcmd is the one place that starts git. It decides what git inherits, whose settings
// it obeys, how much it may take and print, how it ends, and what its errors say.
package gitcmd

import (
	"cmp"
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/proc"
)

// Trust says whose settings git obeys, and which programs it may start so. Settings of a
// repository that an agent can write are not among them: such a repository is read with a git
// directory of symphony's own.
type Trust int

const (
	// Nobody is git without the settings of the system, the account and the environment. It
	// reaches no remote, and starts no program that they name.
	Nobody Trust = iota
	// Operator is git with the settings, the keys and the credentials of the account. It may
	// start ssh, credential helpers and filters, but neither hooks nor monitors.
	Operator
	// AsConfigured is git as the account itself starts it. It is for questions about settings
	// alone, such as git config: to these, the settings of symphony would be a wrong answer.
	AsConfigured
)

// settings apply to every command but those AsConfigured. No setting may start a program that
// is meant for a work tree, remove objects or push more than is asked for. Git trusts a
// commit-graph, and an agent can write a false graph beside its objects. Fetched objects stay in
// a pack, which git writes to disk before it updates references, because not every version does
// so for loose objects. To refresh the index, git diff takes its lock, whatever
// GIT_OPTIONAL_LOCKS is.
var settings = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.untrackedCache=false",
	"diff.autoRefreshIndex=false", "gc.auto=0", "maintenance.auto=false",
	"fetch.unpackLimit=1", "fetch.recurseSubmodules=false", "push.recurseSubmodules=no",
	"submodule.recurse=false", "push.followTags=false", "core.commitGraph=false",
	"core.multiPackIndex=false", "pack.useBitmaps=false", "advice.detachedHead=false",
}

// endGrace is the time between SIGTERM and SIGKILL for a git whose context has ended. With
// SIGTERM, git removes its locks. A command that a signal has to end takes no more than a second.
const endGrace = 800 * time.Millisecond

// Command returns git in a directory, for Run. env is the environment of the account; variables
// that select a repository are left out of it, and belong into Env of the command.
func Command(ctx context.Context, dir string, trust Trust, env []string, args ...string) *exec.Cmd {
	var words []string
	if trust != AsConfigured {
		for _, s := range settings {
			words = append(words, "-c", s)
		}
	}
	words = append(words, noPager)
	words = append(words, args...)
	program := cmp.Or(proc.LookPath("git", env), "git")
	cmd := exec.CommandContext(ctx, program, words...)
	cmd.Dir = dir
	cmd.Env = environ(trust, env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if trust == Operator {
		// without a terminal that ssh could ask on (symphony takeover); the others ask nothing,
		// and stay in the session, by which the processes of a dead worker are found
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	endWith(ctx, cmd)
	return cmd
}

// endWith ends a command and its group with a context. Err of the command tells Run about a context that
// was canceled: the exit code alone would be that of a git that somebody has killed.
func endWith(ctx context.Context, cmd *exec.Cmd) {
	cmd.Cancel = func() error {
		if errors.Is(ctx.Err(), context.Canceled) {
			cmd.Err = ctx.Err()
		}
		return unix.Kill(-cmd.Process.Pid, unix.SIGTERM)
	}
	cmd.WaitDelay = endGrace
}

// Shell returns a command of the operator that reads a repository in which agents have a part. Each git that
// it starts obeys no settings of the account or the system. Its output goes to stderr, so that an error of
// Run has the end of it.
func Shell(ctx context.Context, dir string, env []string, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", "exec >&2\n"+script)
	cmd.Dir = dir
	cmd.Env = append(environ(Nobody, env), "HOME="+host.Variable(env, "HOME"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endWith(ctx, cmd)
	return cmd
}

// noPager is the last of the words before the arguments of a command.
const noPager = "--no-pager"

// environ is what git gets of an environment.
func environ(trust Trust, env []string) []string {
	kept := []string{"SSH_ASKPASS_REQUIRE=never"} // unless the operator set it
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		if !isLeftOut(trust, name) {
			kept = append(kept, entry)
		}
	}
	if trust == Nobody {
		kept = append(kept, "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_ALLOW_PROTOCOL=none")
	}
	return append(kept, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0",
		"GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1")
}

func isLeftOut(trust Trust, name string) bool {
	if trust == Nobody {
		return strings.HasPrefix(name, "GIT_") || name == "HOME" || name == "XDG_CONFIG_HOME"
	}
	return slices.Contains(host.GitRepositoryVars, name)
}

// askBound is how long git may think about an answer of Ask: on a disk that hangs, it would
// otherwise never end.
const askBound = 30 * time.Second

// Ask returns what git prints in a directory of the operator, without blanks around it.
func Ask(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	out, err := Output(Command(ctx, dir, Operator, host.Scrub(env), args...), NoLimit)
	return strings.TrimSpace(out), err
}
