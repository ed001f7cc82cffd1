// Package host is the port to the machine on which runs work: their workspaces, hooks and
// processes.
//
// The worker decides what happens and when; a machine does it. There are two interfaces by
// lifetime: a Machine keeps nothing between two calls, a Run holds the workspace and the
// processes of one run. A machine knows a run by its id; processes, locks and files that
// identify them are the machine's own. Requests and answers are plain values that encode as
// JSON, so that another implementation can send the same calls to another machine. What is not
// a value has streams: a started Process, and a terminal. Package runner/host/local implements
// the port for this machine.
//
//	Prepare ─► Clone ─► RunHook(after_create) ─► Confirm ─► Fetch ─► RunHook(before_run) ─► GuardGit ─► Start ... Observe ...
//	        ─► Kill ─► RestoreGit ─► RunHook(after_run) ─► Deliver ─► Finish
//
// An error is a *reconcile.Error with a stable code, or wraps context.Canceled or
// context.DeadlineExceeded.
package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"

	"golang.org/x/sys/unix"
)

// Machine is a computer on which runs work.
type Machine interface {
	Roots
	Paths
	Changes
	// Run returns a run, by its id, for the worker that carries it out. Nothing happens before
	// the first call of a method of it.
	Run(id string) Run
	// ReadAccount returns the account of the operating system that runs have there.
	ReadAccount(ctx context.Context) (Account, error)
}

// Paths answers questions about paths of a machine. It changes nothing, and runs no program
// that a repository names.
type Paths interface {
	// Existing returns those of the paths that exist. It follows no links.
	Existing(ctx context.Context, list []string) ([]string, error)
	// Resolve returns the paths without links, in the same order. A path that does not exist
	// is resolved as far as it does: /tmp/link/new is /var/new if /tmp/link leads to /var.
	Resolve(ctx context.Context, list []string) ([]string, error)
	// GitDirs finds the git directories of the repository that a directory is in.
	GitDirs(ctx context.Context, r GitDirsRequest) (GitDirs, error)
	// Launcher finds the program, such as npx, that decides by files what a command starts.
	Launcher(ctx context.Context, r LaunchRequest) (Launcher, error)
}

// Changes tells what the work in a workspace has changed. It runs no program that a repository
// names.
type Changes interface {
	// Fingerprint returns a text that changes when the work in a directory progresses.
	Fingerprint(ctx context.Context, dir string) (string, error)
	// ChangedFiles returns those of the files that the work has changed since its base.
	ChangedFiles(ctx context.Context, r ChangedRequest) ([]string, error)
	// IgnoredFiles lists files in the work tree that git ignores, such as .env.
	IgnoredFiles(ctx context.Context, r IgnoredRequest) (Ignored, error)
	// KeepEnd keeps what a workspace contains, so that Diff can compare it as long as the
	// workspace exists. The answer is nil without a repository.
	KeepEnd(ctx context.Context, dir string) (*WorkEnd, error)
}

// Local is the machine of this process, of which more can be asked than of others.
type Local interface {
	Machine
	// Left lists the processes that a run has left whose worker has exited, and End ends them.
	Left(ctx context.Context, r LeftRequest) (LeftAnswer, error)
	End(ctx context.Context, r LeftRequest) (LeftAnswer, error)
	// TryRoot returns an error if a root does not exist and can't be created. It tries.
	TryRoot(ctx context.Context, r RootRequest) error
	// Examine looks for work in a workspace that exists nowhere else.
	Examine(ctx context.Context, r ExamineRequest) (ExamineAnswer, error)
	// RemoveWorkspace removes a workspace as a run does, but without before_remove.
	RemoveWorkspace(ctx context.Context, r RemovalRequest) (RemoveAnswer, error)
	// DeliverWorkspace is Run.Deliver for a workspace whose run, if there is one, is
	// another's: no turn may run there.
	DeliverWorkspace(ctx context.Context, r WorkspaceDelivery) (WorkspaceDelivered, error)
	// ObeyedByGit finds what git obeys when it is used with an address, as the operator.
	ObeyedByGit(ctx context.Context, r ObeyedRequest) (Obeyed, error)
	// ListTrash lists what a project has in the trash of a root, sorted by name, and examines
	// it as Examine does.
	ListTrash(ctx context.Context, r RootRequest) ([]Removed, error)
	// Restore moves a workspace from the trash back to its path. If it is interrupted it can
	// be repeated.
	Restore(ctx context.Context, r TrashRequest) (RestoreAnswer, error)
	// DeleteTrash deletes an entry of the trash.
	DeleteTrash(ctx context.Context, r TrashRequest) error
	// Leave gives up the projects that a state directory has claimed in a root.
	Leave(ctx context.Context, r LeaveRequest) error
	// GitAround returns the nearest directory, from dir upwards, that looks like a git
	// directory, such as /srv/x.git for /srv/x.git/hooks; empty for none.
	GitAround(dir string) string
	// IsBranchName reports whether a branch can have a name: fix/login can, -f can't.
	// HasBranch reports whether a repository has a branch.
	IsBranchName(ctx context.Context, name string) bool
	HasBranch(ctx context.Context, repository, branch string) bool
}

// ObeyedRequest asks what git obeys with an address. Without one these are the settings of the
// account.
type ObeyedRequest struct {
	Address string   // of repository.url
	Env     []string // of the operator
	Home    string   // the home directory in Env
}

// Obeyed are files and directories that git obeys: if an agent can write them, it decides what
// git runs. Some need not exist.
type Obeyed struct {
	// Paths are the files with settings and, for a repository on this machine, its git
	// directories and its hooks.
	Paths []string
	// Settings are the values of all settings. Some are shell commands that may name more
	// files.
	Settings []string
}

// Run is what a machine holds for one run. The calls are sequential, except for Observe,
// Login, MakeHome and Start.
type Run interface {
	// Prepare acquires the workspace of an issue: it takes the lease, creates the directory if
	// it is missing, ends the processes of earlier runs, and restores git settings. If it
	// returns both a workspace and an error, the lease is held, and the caller must call
	// Finish.
	Prepare(ctx context.Context, r PrepareRequest) (PrepareAnswer, error)
	// Open begins a run that works in a directory of the operator instead of a workspace. The
	// caller must call Finish.
	Open(ctx context.Context) error
	// Confirm records that a prepared workspace is ready for work, or discards a new one whose
	// after_create failed.
	Confirm(ctx context.Context, r ConfirmRequest) error
	// Verify checks that the workspace is still the directory that the run has acquired.
	Verify(ctx context.Context) error
	// Login runs the account's login profile once and returns what it changes, for the hooks
	// and the agent. The run need not be prepared. The errors are login_shell_failed and
	// resource_limit.
	Login(ctx context.Context, r LoginRequest) (LoginAnswer, error)
	// MakeHome makes the codex home of agents. It shares the login of the operator's.
	MakeHome(ctx context.Context, r HomeRequest) error
	// Clone fills a new workspace with a clone of the repository. Fetch updates the remote
	// references of a workspace that was cloned before, and moves its branch to what others
	// have pushed there, if nothing of the agent is in the way; no process may be at work in
	// it, unless CloneRequest.Look is set. Deliver pushes its commits. No program or setting
	// of the workspace takes part in them.
	Clone(ctx context.Context, r CloneRequest) (CloneAnswer, error)
	Fetch(ctx context.Context, r CloneRequest) (FetchAnswer, error)
	Deliver(ctx context.Context, r DeliverRequest) (DeliverAnswer, error)
	// Keep copies the commits of a workspace on another machine to this one, where they
	// outlive it, and returns HEAD. The next clone for the issue begins there. Forget keeps
	// them no longer. Both do nothing for a workspace on this machine. Errors of Keep:
	// FaultHere, as of Mirror.Keep.
	Keep(ctx context.Context, r KeepRequest) (commit string, err error)
	Forget(ctx context.Context, r KeepRequest) error
	// CheckOut makes a clean copy of what the workspace has committed, in which verify.command
	// runs. No agent can write it. It exists until Finish; its cache stays as long as the
	// workspace.
	CheckOut(ctx context.Context, r CheckOutRequest) (CheckOutAnswer, error)
	// RunHook runs a script of the workflow in the workspace and waits until it ends.
	RunHook(ctx context.Context, r HookRequest) (HookAnswer, error)
	// GuardGit records the git settings and hooks of the workspace before an agent can change
	// them; RestoreGit restores them. RunHook refuses to run a hook if git could run a program
	// there that an agent has left elsewhere, or if not everything could be read.
	GuardGit(ctx context.Context, r GuardGitRequest) error
	RestoreGit(ctx context.Context) (GitRestored, error)
	// Start starts a command with pipes for its three streams.
	Start(ctx context.Context, r StartRequest) (Process, error)
	// RunInTerminal runs a command of a run that holds a workspace, in "/", and returns its
	// exit code. The command inherits the terminal. observe runs concurrently until the
	// command has ended. If ctx ends, the command gets SIGTERM. If the command can't be
	// started, the error wraps ErrNotStarted.
	RunInTerminal(
		ctx context.Context,
		argv, env []string,
		io Stdio,
		observe func(context.Context),
	) (code int, err error)
	// Observe records the processes of the run, so that they are found if its worker dies, and
	// ends those that hold a lock of symphony.
	Observe(ctx context.Context, q ObserveRequest) (ObserveAnswer, error)
	// Kill ends the processes of the run. If none is left, it also removes the locks that
	// their git commands have left in the workspace.
	Kill(ctx context.Context, r KillRequest) (LeftAnswer, error)
	// Finish releases the lease and the files of the run. Processes that inherited the lease
	// keep it.
	Finish(ctx context.Context) error
	// PrepareRemoval acquires a workspace as Prepare does. Remove removes it, unless it
	// contains work that exists nowhere else, and releases the lease. before_remove runs
	// between the two calls.
	PrepareRemoval(ctx context.Context, r RemovalRequest) (RemovalAnswer, error)
	Remove(ctx context.Context) (RemoveAnswer, error)
}

// Commands starts commands of the operator on this machine that belong to no run. A mark, the
// path of an empty file that a command and its descendants have open, identifies them.
type Commands interface {
	StartMarked(ctx context.Context, mark string, r StartRequest) (Process, error)
	// KillMarked ends what was started with a mark, with SIGKILL at once.
	KillMarked(ctx context.Context, mark string) (LeftAnswer, error)
}

// Codes of the errors of a host that has stopped serving a run. Their messages say why.
const (
	CodeEnded = "host_ended" // it has ended the run
	// its server has ended, but not the run: what the run has started may be alive
	CodeDied = "host_died"
)

// RunDir is the directory of a run below the state directory, on the machine of its worker.
func RunDir(stateDir, runID string) string { return filepath.Join(stateDir, "runs", runID) }

// HereID marks the processes that a run on another machine has on that of its worker: git, and
// a login shell for it. They may be the same machine.
func HereID(runID string) string { return runID + "-here" }

// Files in that directory.
const (
	AliveFile = "alive" // its worker keeps it locked until it ends
	// marks commands that its worker starts for the operator (Commands), so that they end with
	// the run
	TreeFile = "tree"
)

// Issue identifies the issue and the project that a workspace belongs to.
type Issue struct {
	ID, Identifier string
	// Project is the tracker's endpoint and project, StateDir the project's state directory.
	Project, StateDir string
}

// Workspace is the directory of an issue while a run holds its lease.
type Workspace struct {
	// Path is the workspace. The other directories are outside it, outlive a run, and are
	// deleted with the workspace.
	Path string
	// TmpDir and CacheDir are for the agent's commands. Only these may write to them, and no
	// program outside the sandbox may use them, because what it finds there may have been
	// planted.
	TmpDir, CacheDir string
	// Hooks and Codex are for hooks and for codex itself.
	Hooks, Codex Dirs
	Root         string
	// ID is random (32 hex digits) and new for every directory. A thread is resumed only in a
	// workspace with the same ID.
	ID string
	// Created: this run created the directory, so after_create must run.
	Created bool
}

// Dirs are the directories for temporary files and caches of some programs.
type Dirs struct{ Tmp, Cache string }

// PrepareRequest asks for a workspace below Root.
type PrepareRequest struct {
	Issue Issue
	Root  string
	// KeepRemoved is how long removed workspaces of the project are kept.
	KeepRemoved time.Duration
	// KeepGit keeps the git settings that agents make (agent.keep_git_config).
	KeepGit bool
}

// PrepareAnswer is the acquired workspace.
type PrepareAnswer struct {
	Workspace Workspace
	Git       GitRestored
}

// ConfirmRequest ends the preparation.
type ConfirmRequest struct {
	Discard bool
	// KeepCache keeps what after_create has left in the cache of the agent's commands for
	// checkouts, before an agent can change it.
	KeepCache bool
}

// LoginRequest asks what the login profile of the account changes.
type LoginRequest struct {
	Env     []string
	Timeout time.Duration
}

// LoginAnswer is what the login profile changes.
type LoginAnswer struct {
	// Set are the variables that it sets, as NAME=value, Unset the names of those that it
	// removes.
	Set, Unset []string
	// Umask is the umask that it leaves, in octal digits.
	Umask string
	// Functions are the names of the shell functions that it defines.
	Functions []string
}

// HookRequest is a script to run (specification 9.4). Env has what the login profile sets.
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

// GuardGitRequest describes what an agent can write apart from its workspace.
type GuardGitRequest struct {
	// Anywhere: the agent can write wherever the account can. Writable are the directories
	// opened to it.
	Anywhere bool
	Writable []string
	// Env is the environment of hooks, which git inherits there.
	Env []string
}

// GitRestored lists what was restored.
type GitRestored struct {
	// Names are settings and files: core.hooksPath, hooks/post-commit.
	Names []string
	// Locks are files such as .git/index.lock, which commands of git have left that were
	// killed. They were removed.
	Locks []string
	// Incomplete lists, for the log, what could not be finished and will be tried again; empty
	// if all is done.
	Incomplete string
	// Untrusted is the reason why no hook may run in the workspace: an agent has left
	// something that git could run, or not everything could be read. Empty if hooks may run.
	Untrusted string
}

// StartRequest is a command to start in Dir.
type StartRequest struct {
	Argv []string
	Dir  string
	Env  []string
}

// Process is a started command, the leader of its process group. Close must be called.
type Process interface {
	Process() reconcile.Process
	Stdin() io.WriteCloser
	Stdout() io.Reader
	Stderr() io.Reader
	// Wait returns nil when the process has ended, even if other processes have its streams
	// open, or the error of ctx.
	Wait(ctx context.Context) error
	// Descendants lists the living descendants of the process.
	Descendants(ctx context.Context) ([]reconcile.Process, error)
	// Environ is the merged environment of the process and its descendants; the youngest
	// process wins. With an error it is incomplete.
	Environ(ctx context.Context) ([]string, error)
	// KillThread ends the processes that a thread of the agent has started, except for this
	// process and its descendants.
	KillThread(ctx context.Context, threadID string) (LeftAnswer, error)
	// SignalGroup sends a signal to the process group, also after the process itself has
	// ended.
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
}

// ObserveRequest says how closely to look. Silent: the agent has said nothing since the last
// call, so that only the holders of new locks are looked for.
type ObserveRequest struct{ Silent bool }

// ObserveAnswer names the processes that were ended because they held a lock of symphony.
type ObserveAnswer struct{ LockHolders []reconcile.Process }

// LeftRequest describes a run whose worker has exited.
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

// GitDirsRequest asks about the repository that Path is in.
type GitDirsRequest struct {
	Path string
	// Opened are directories that the agent can write besides the workspace.
	Opened []string
}

// GitDirs are the directories of a repository.
type GitDirs struct {
	// Writable are the directories that git commit writes, such as /home/me/app/.git.
	Writable []string
	// Root is the root of the main repository, also for a worktree of it.
	Root string
}

// ChangedRequest asks which of Files, such as Makefile, the work in Path has changed.
type ChangedRequest struct {
	Path  string
	Files []string
}

// IgnoredRequest asks for at most Most files in Path that git ignores.
type IgnoredRequest struct {
	Path string
	Most int
}

// Ignored are files that git ignores.
type Ignored struct {
	Files []string // the first of them
	// Count is the number of all. A directory that is ignored as a whole counts as one.
	Count int
}

// Account is an account of the operating system.
type Account struct {
	Home string
	// StateDir has the directories of runs on the machine.
	StateDir string
	// Env is the environment of its programs, before the login profile.
	Env []string
}

// HomeRequest names the kind of agents, their home, and the operator's.
type HomeRequest struct{ Kind, Agents, Operators string }

// LaunchRequest is a shell command that is started in Dir, with the PATH and the home directory
// of its shell. Without a workspace Dir is empty.
type LaunchRequest struct {
	Dir                 string
	Command, Path, Home string
	Writable            []string // directories that an agent can write
}

// Launcher is a program that decides by files which other program it starts, such as npx.
type Launcher struct {
	// Program is empty if the command starts none.
	Program string
	// Files in the workspace, or in a directory that an agent can write, decide what is
	// started.
	Files []string
	// Direct is the path of a codex that is started without a launcher, empty if none is
	// found.
	Direct string
}

// RemovalRequest asks for the workspace of an issue to be removed.
type RemovalRequest struct {
	PrepareRequest
	Now time.Time
	// Discard removes the workspace even if work in it exists nowhere else.
	Discard bool
}

// RemovalAnswer is the caller's next step.
type RemovalAnswer struct {
	PrepareAnswer
	// Found: there is a workspace to remove, and the lease is held. HookDue: before_remove
	// must run in it, because its creation was completed.
	Found, HookDue bool
	// Unsaved is the work because of which the workspace is kept; then Found is false.
	Unsaved string
}

// RemoveAnswer describes what happened to the workspace.
type RemoveAnswer struct {
	// Unsaved is the work because of which the workspace is kept.
	Unsaved string
	// Trash is its path in the trash, empty if there was nothing to move there.
	Trash string
}

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

// CodeDiskFull is the code of an error caused by a full disk.
const CodeDiskFull = "disk_full"

// CodeUntrusted: no hook may run in a workspace, see GitRestored.Untrusted.
const CodeUntrusted = "workspace_untrusted"

// WithCode adds the code to an error caused by the machine: a full disk or a limit of the
// system. It returns other errors unchanged. What stores, prints or sends an error calls it,
// since any operation of a machine may meet these.
func WithCode(err error) error {
	switch {
	case err == nil, errors.As(err, new(*reconcile.Error)):
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return &reconcile.Error{
			Code:    CodeDiskFull,
			Message: err.Error(),
			Hint:    "free some space; no work is lost",
			Err:     err,
		}
	case paths.LimitReached(err):
		const hint = "raise the limits of open files (ulimit -n) and processes (ulimit -u); no work is lost"
		return &reconcile.Error{
			Code:    reconcile.CodeResourceLimit,
			Message: err.Error(),
			Hint:    hint,
			Err:     err,
		}
	}
	return err
}

// The environment variables that mark the processes of a run.
const (
	RunMark    = "SYMPHONY_RUN_ID" // forced into agents, hooks and agents' commands
	ThreadMark = "CODEX_THREAD_ID" // set by codex for each command of a thread
)

// GitRepositoryVars are the variables that select git's repository, or parts of it: those of
// git rev-parse --local-env-vars, of any version, except for settings, and those that git sets
// for hooks of a push.
var GitRepositoryVars = []string{
	"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_DIR", "GIT_GRAFT_FILE",
	"GIT_IMPLICIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_INTERNAL_SUPER_PREFIX", "GIT_NAMESPACE",
	"GIT_NO_REPLACE_OBJECTS", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_QUARANTINE_PATH",
	"GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE", "GIT_WORK_TREE",
}

// Scrub returns env ("NAME=value" entries) without the variables of a run and without those
// named in drop. Other runs must not see them: a worker that inherited ThreadMark, for
// example, would count as a process of that thread's run.
func Scrub(env []string, drop ...string) []string {
	drop = append(
		[]string{RunMark, ThreadMark, "SYMPHONY_ATTEMPT", "SYMPHONY_WORKSPACE", "SYMPHONY_OUTCOME"},
		drop...)
	// never nil: os/exec replaces nil by this process's environment
	kept := append([]string{}, env...)
	return slices.DeleteFunc(kept, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return strings.HasPrefix(name, "SYMPHONY_ISSUE_") || slices.Contains(drop, name)
	})
}
