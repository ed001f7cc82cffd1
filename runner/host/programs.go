package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/sandbox"
	"github.com/symphony-cron/symphony/runner/proc"
)

// Programs runs the programs of a run: login profile, hooks and agent.
type Programs interface {
	// Login runs the account's login profile once and returns its changes to the environment,
	// for the hooks and the agent. The run need not be prepared. The errors are
	// login_shell_failed and resource_limit.
	Login(ctx context.Context, r LoginRequest) (LoginAnswer, error)
	// MakeHome makes the home of agents of a kind. It shares the login of the operator's home.
	MakeHome(ctx context.Context, r HomeRequest) error
	// RunHook runs a script of the workflow in the workspace and waits until it ends.
	RunHook(ctx context.Context, r HookRequest) (HookAnswer, error)
	// Start starts a command with pipes for its three streams.
	Start(ctx context.Context, r StartRequest) (Process, error)
	// RunInTerminal runs a command of a run that holds a workspace, and returns its exit code.
	// The command inherits the terminal. observe runs concurrently until the command ends. If
	// ctx ends, the command gets SIGTERM. If the command can't be started, the error wraps
	// ErrNotStarted.
	RunInTerminal(
		ctx context.Context,
		q StartRequest,
		io Stdio,
		observe func(context.Context),
	) (code int, err error)
	// Observe records the processes of the run, so that they are found if its worker dies, and
	// ends processes that hold a lock of symphony.
	Observe(ctx context.Context) (ObserveAnswer, error)
	// Kill ends the processes of the run. If none is left, it also removes the locks that
	// their git commands have left in the workspace, such as .git/index.lock.
	Kill(ctx context.Context, r KillRequest) (LeftAnswer, error)
}

// LoginRequest asks for the changes that the login profile of the account makes to the
// environment.
type LoginRequest struct {
	Env     []string
	Timeout time.Duration
}

// LoginAnswer lists the changes that the login profile makes to the environment.
type LoginAnswer struct {
	// Set are the variables that it sets, as NAME=value, Unset the names of the variables that
	// it removes.
	Set, Unset []string
	// Umask is the umask that it leaves, in octal digits.
	Umask string
}

// HookRequest is a script to run (specification 9.4). Env contains the variables that the
// login profile sets.
type HookRequest struct {
	Name, Script string
	Where        string // the script's place in the workflow, for messages
	Timeout      time.Duration
	Env          []string
}

// HookAnswer is the result of a hook. It is complete even if RunHook returns an error.
type HookAnswer struct {
	// Log is the end of its output, and how it ended.
	Log string
	// GitHooksOff is the reason why git ran without the repository's hooks in it; empty if it
	// ran with them.
	GitHooksOff []string
}

// HomeRequest names the kind of agents, their home, and the operator's.
type HomeRequest struct {
	Kind, Agents, Operators string

	Boxed bool // agents see no other directory of the account
}

// StartRequest is a command to start in Dir.
type StartRequest struct {
	Argv []string
	Dir  string
	Env  []string
	Box  *Box // the sandbox of symphony in which it runs; nil for none
}

// Box is the sandbox of a command. The machine adds what the workspace and the PATH of the
// command need, and what no agent may see. The errors of a start are sandbox_unavailable if
// the machine can make no sandbox.
type Box struct {
	sandbox.Box
	// Programs are the programs that the command starts, by their names in the PATH, such as
	// claude-agent-acp, or by their paths.
	Programs []string
	// AccountHome is the home of the account outside, which stays hidden.
	AccountHome string
	// Limits are kept by a scope of systemd. Where there is none, only the processes are limited.
	Limits proc.Limits
}

// Process is a started command, the leader of its process group. Close must be called.
type Process interface {
	Process() reconcile.Process
	Stdin() io.WriteCloser
	Stdout() io.Reader
	Stderr() io.Reader
	// Wait returns nil when the process ended, even if other processes have its streams open,
	// or the error of ctx.
	Wait(ctx context.Context) error
	// Descendants lists the living descendants of the process.
	Descendants(ctx context.Context) ([]reconcile.Process, error)
	// Environ is the merged environment of the process and its descendants; the youngest
	// process wins. With an error it is incomplete.
	Environ(ctx context.Context) ([]string, error)
	// KillThread ends the processes that a thread of the agent started, except for this
	// process and its descendants.
	KillThread(ctx context.Context, threadID string) (LeftAnswer, error)
	// SignalGroup sends a signal to the process group, also after the process itself ended. In
	// a sandbox of symphony only SIGKILL reaches more than the command.
	SignalGroup(sig unix.Signal) error
	// Close kills the group if the process still runs, closes the streams and returns how the
	// process ended.
	Close() (Exit, error)
}

// Stdio are the streams of an operator's terminal.
type Stdio struct {
	In       *os.File
	Out, Err io.Writer
}

// ErrNotStarted is wrapped by the error for a command that could not be started.
var ErrNotStarted = errors.New("the command could not be started")

// Exit is how a process ended.
type Exit struct {
	Code int // negative for a signal
	Text string
	// NoSandbox: its sandbox could not be made, so that the command did not run. The reason is
	// the end of its stderr.
	NoSandbox bool
}

// ObserveAnswer names the processes that were ended because they held a lock of symphony.
type ObserveAnswer struct{ LockHolders []reconcile.Process }

// LeftRequest describes a run whose worker exited.
type LeftRequest struct {
	RunID string
	// ThreadID is the agent's thread, empty if there is none; Root the workspace root.
	ThreadID, Root string
	// Frozen: the worker is alive, but no longer works. End kills it first and without a
	// warning, because it might wake up.
	Frozen bool
}

// LeftAnswer are the processes that were found, or could not be ended.
type LeftAnswer struct {
	Processes []reconcile.Process
	// Locks are the locks of git that the ended processes had left in the workspace of a run,
	// and that were removed.
	Locks []string
}

// KillRequest names the agent's thread, if there is one, and the workspace root.
type KillRequest struct{ ThreadID, Root string }

// Leftover returns an error for processes that could not be ended, nil if there are none.
func Leftover(whose string, left []reconcile.Process) error {
	if len(left) == 0 {
		return nil
	}
	return reconcile.NewError(
		"leftover_process",
		fmt.Sprintf("process %d (%s) of %s could not be ended", left[0].PID, left[0].Name, whose),
		fmt.Sprintf("end it yourself: kill -9 %d", left[0].PID),
	)
}
