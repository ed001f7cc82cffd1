// Package host is the port to the machine on which a run works: its workspace, its hooks and its processes.
//
// The worker decides what happens and when; a Host does it. Requests and answers are plain values that encode as JSON, so
// that another implementation can send the same calls to another machine. The one thing that is not a value is a started
// Process, which has streams. Package runner/host/local implements the port for this machine.
//
//	Prepare ─► RunHook(after_create) ─► Confirm ─► RunHook(before_run) ─► GuardGit ─► Start ... Observe ...
//	        ─► Kill ─► RestoreGit ─► RunHook(after_run) ─► Finish
//
// Errors are *reconcile.Error with a stable code, or wrap context.Canceled or context.DeadlineExceeded.
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
)

// Host is a machine that runs can work on. Calls of one run come one after the other, except Observe, List and Facts.
type Host interface {
	// Prepare takes the workspace of an issue for a run: it takes the lease, makes the directory if it is missing, ends what
	// earlier runs left there, and restores git settings. With a workspace and an error the lease is held: Finish is due.
	Prepare(ctx context.Context, r PrepareRequest) (PrepareAnswer, error)
	// Confirm records that a prepared workspace may be worked in, or discards a new one whose after_create failed.
	Confirm(ctx context.Context, r ConfirmRequest) error
	// RunHook runs a script of the workflow in the run's workspace and waits for it.
	RunHook(ctx context.Context, r HookRequest) (HookAnswer, error)
	// GuardGit notes the git settings and hooks of the workspace before an agent can change them, RestoreGit puts them
	// back. RunHook refuses to run a hook in which git would run a program that an agent has left elsewhere.
	GuardGit(ctx context.Context, r GuardGitRequest) error
	RestoreGit(ctx context.Context, r Run) (GitRestored, error)
	// Start starts a command with pipes for its three streams.
	Start(ctx context.Context, r StartRequest) (Process, error)
	// Observe records the processes below the worker, so that they are found if it dies.
	Observe(ctx context.Context, r ObserveRequest) (ObserveAnswer, error)
	// List finds the processes of a run, Kill ends them.
	List(ctx context.Context, r ListRequest) (ListAnswer, error)
	Kill(ctx context.Context, r KillRequest) (KillAnswer, error)
	// Facts reads what is asked about a workspace. Nothing is changed, and nothing that a repository names is run.
	Facts(ctx context.Context, r FactsRequest) (FactsAnswer, error)
	// Finish gives up the run's lease and files. Processes that inherited the lease keep it.
	Finish(ctx context.Context, r Run) error
	// PrepareRemoval takes a workspace as Prepare does; Remove removes it, unless it holds work that exists nowhere else, and
	// gives up the lease. before_remove runs between the two.
	PrepareRemoval(ctx context.Context, r RemovalRequest) (RemovalAnswer, error)
	Remove(ctx context.Context, r Run) (RemoveAnswer, error)
	// Purge deletes removed workspaces that were kept for their time.
	Purge(ctx context.Context, r RootRequest) (PurgeAnswer, error)
	// Root reads the state of a workspace root. Records that can't be read are named in the error, the others returned.
	Root(ctx context.Context, r RootRequest) (RootAnswer, error)
}

// Run names a run. Dir is its directory, in which a host keeps the files by which the run's processes are known.
type Run struct{ ID, Dir string }

// The files of a run's directory by which its processes are known.
const (
	AliveFile = "alive" // locked by the worker for as long as it lives
	ProcsFile = "procs" // every process that the run started
	TreeFile  = "tree"  // empty: a process that has it open belongs to the run
)

// Issue says for which issue of which project a workspace is taken.
type Issue struct {
	ID, Identifier string
	// Project is the tracker's endpoint and project, StateDir the project's state directory.
	Project, StateDir string
}

// Workspace is the directory of an issue, held by a run.
type Workspace struct {
	// Path is the workspace; TmpDir and CacheDir lie beside it and outlive a run.
	Path, TmpDir, CacheDir string
	Root                   string
	// ID is random (32 hex digits) and new for every directory: a thread is resumed only where it is the same.
	ID string
	// Created: the directory was made by this run, so that after_create must run.
	Created bool
}

// PrepareRequest asks for a workspace below Root.
type PrepareRequest struct {
	Run   Run
	Issue Issue
	Root  string
	// KeepRemoved is how long removed workspaces of the project are kept.
	KeepRemoved time.Duration
	// KeepGit leaves git settings of agents as they are (agent.keep_git_config).
	KeepGit bool
}

// PrepareAnswer is the workspace that was taken.
type PrepareAnswer struct {
	Workspace Workspace
	Git       GitRestored
}

// ConfirmRequest ends the preparation.
type ConfirmRequest struct {
	Run     Run
	Discard bool
}

// HookRequest is a script to run (specification 9.4).
type HookRequest struct {
	Run          Run
	Name, Script string
	Timeout      time.Duration
	Env          []string
	// Unset names variables that the login profile may set and the script must not have.
	Unset []string
}

// HookAnswer says how a hook went; it is complete with an error too.
type HookAnswer struct {
	// Log is its output, bounded, and how it ended.
	Log string
	// Environ is the environment that its shell had: the login profile may have added secrets to it.
	Environ []string
	// GitHooksOff says why the repository's git hooks did not run in it; empty if they did.
	GitHooksOff []string
}

// GuardGitRequest describes what an agent can write besides its workspace.
type GuardGitRequest struct {
	Run Run
	// Anywhere: the agent can write wherever the account can. Writable are the directories opened to it.
	Anywhere bool
	Writable []string
	// Env is the environment of hooks, and so of git in them.
	Env []string
}

// GitRestored says what was put back.
type GitRestored struct {
	// Names are settings and files: core.hooksPath, hooks/post-commit.
	Names []string
	// Incomplete says what could not be finished, for the log; it is tried again. Empty: nothing.
	Incomplete string
}

// StartRequest is a command to start in the workspace of a run, or, without a run, anywhere.
type StartRequest struct {
	Run  Run
	Argv []string
	Dir  string
	Env  []string
	// Tree marks a command without a run: an empty file that it and its descendants have open, and by which Kill finds them.
	Tree string
}

// Process is a started command, the leader of a process group of its own. Close must be called.
type Process interface {
	Process() reconcile.Process
	Stdin() io.WriteCloser
	Stdout() io.Reader
	Stderr() io.Reader
	// Wait returns nil when the process has ended, even if others still hold its streams, or the error of ctx.
	Wait(ctx context.Context) error
	// SignalGroup sends a signal to the process group, also after the process itself has ended.
	SignalGroup(sig unix.Signal) error
	// Close kills the group if the process still runs, closes the streams and returns how the process ended.
	Close() (Exit, error)
}

// Terminal is a host on which a command can use the operator's terminal.
type Terminal interface {
	Host
	// RunInTerminal runs a command in the workspace that a run holds, and returns its exit code. The command inherits the
	// terminal and the files by which its processes count as the run's. observe runs beside it until it has ended. If ctx ends,
	// the command gets SIGTERM. A command that could not be started is ErrNotStarted.
	RunInTerminal(ctx context.Context, r Run, argv, env []string, io Stdio, observe func(context.Context)) (code int, err error)
}

// Stdio are the streams of an operator's terminal.
type Stdio struct {
	In       *os.File
	Out, Err io.Writer
}

// ErrNotStarted is wrapped by the error of a command that could not be started.
var ErrNotStarted = errors.New("the command could not be started")

// Exit is how a process ended.
type Exit struct {
	Code int // negative for a signal
	Text string
}

// ObserveRequest asks to record the processes below the worker.
type ObserveRequest struct {
	Run Run
	// StateDir and AccountDir hold the locks of symphony. With them, processes of the run that hold a lock are ended.
	StateDir, AccountDir string
}

// ObserveAnswer names the processes that were ended because they held a lock of symphony.
type ObserveAnswer struct{ LockHolders []reconcile.Process }

// Owned says which processes are meant.
type Owned struct {
	Run Run
	// ThreadID is the agent's thread, empty if there is none; Root the workspace root.
	ThreadID, Root string
	// Worker is the run's worker; zero if it is unknown.
	Worker reconcile.Handle
	// Below: this process is the worker, and what descends from it is included.
	Below bool
	// Also are further processes of the same boot as the worker.
	Also []reconcile.Process
}

// ListRequest asks for the processes of a run, or, with Below set, for those below a process.
type ListRequest struct {
	Owned Owned
	Below reconcile.Process
	// Environ asks for the environment of Below and the processes below it, the later ones winning.
	Environ bool
}

// ListAnswer are the processes found.
type ListAnswer struct {
	Processes []reconcile.Process
	Environ   []string
}

// KillRequest asks to end the processes of a run.
type KillRequest struct {
	Owned Owned
	// ThreadOnly ends only what carries the thread's mark, except what is below Spare.
	ThreadOnly bool
	Spare      reconcile.Process
	// Tree ends only what was started with this StartRequest.Tree, at once with SIGKILL.
	Tree string
}

// KillAnswer are the processes that could not be ended.
type KillAnswer struct{ Left []reconcile.Process }

// FactsRequest asks about a workspace.
type FactsRequest struct {
	Path string
	// Run: verify that Path still is the directory that the run has taken.
	Run *Run
	// Fingerprint asks for a text that changes when the work progresses, GitDirs for what git commit has to write.
	Fingerprint, GitDirs bool
	// Opened are directories that the agent can write besides the workspace.
	Opened []string
}

// FactsAnswer holds what was asked for.
type FactsAnswer struct {
	Fingerprint string
	// GitWritable are the directories that git commit writes, RepoRoot the root of the main repository.
	GitWritable []string
	RepoRoot    string
}

// RemovalRequest asks for the workspace of an issue to be removed.
type RemovalRequest struct {
	PrepareRequest
	Now time.Time
	// Discard removes the workspace even if work in it exists nowhere else.
	Discard bool
}

// RemovalAnswer says what is to be done next.
type RemovalAnswer struct {
	PrepareAnswer
	// Found: there is a workspace to remove, and the lease is held. HookDue: before_remove is to run in it; not in one
	// that was never complete.
	Found, HookDue bool
	// Unsaved is the work for which the workspace stays; then Found is false.
	Unsaved string
}

// RemoveAnswer is what became of the workspace.
type RemoveAnswer struct {
	// Unsaved is the work for which the workspace stays.
	Unsaved string
	// Trash is where it is kept, empty if it is deleted. Warning says what could not be deleted.
	Trash, Warning string
}

// PurgeAnswer counts what was deleted, and names what could not be, and what stays because it holds unsaved work.
type PurgeAnswer struct {
	Removed     int
	Undeletable []string
	Unsaved     map[string]string // path to work
}

// RootRequest asks about a workspace root, which need not exist, or to empty its trash as far as it is due.
type RootRequest struct {
	Root, Project string
	// KeepRemoved is how long removed workspaces of the project are kept. With less than MinFree bytes of free space all go,
	// however young they are.
	KeepRemoved time.Duration
	MinFree     int64
	Now         time.Time
	// Records asks for the workspaces, Trash whether something in the trash is due. Purge ignores them.
	Records, Trash bool
}

// RootAnswer is the state of a root.
type RootAnswer struct {
	Workspaces []WorkspaceRecord
	TrashDue   bool
	FreeBytes  int64 // negative: unknown
}

// WorkspaceRecord is a workspace that some run has used.
type WorkspaceRecord struct {
	reconcile.Workspace
	StateDir string
}

// Leftover is the error for processes that could not be ended, nil for none.
func Leftover(whose string, left []reconcile.Process) error {
	if len(left) == 0 {
		return nil
	}
	return &reconcile.Error{
		Code:    "leftover_process",
		Message: fmt.Sprintf("process %d (%s) of %s could not be ended", left[0].PID, left[0].Name, whose),
		Hint:    "end it by hand",
	}
}
