// Package host is the port to the machine on which runs work: their workspaces, hooks and
// processes.
//
// The worker decides what happens and when; a machine does it. There are two interfaces by
// lifetime: a Machine keeps nothing between two calls, a Run holds the workspace and the
// processes of a single run. A machine knows a run by its id; processes, locks and files that
// identify them are the machine's own. Requests and answers are plain values that encode as
// JSON, so that another implementation can send the same calls to another machine. Streams
// carry everything else: a started Process, and a terminal. Package runner/host/local
// implements the port for this machine.
//
//	Prepare ─► Clone ─► RunHook(after_create) ─► Confirm
//	        ─► Fetch ─► RunHook(before_run) ─► GuardGit ─► Start ... Observe ...
//	        ─► Kill ─► RestoreGit ─► RunHook(after_run) ─► Deliver ─► Finish
//
// An error is a *reconcile.Error with a stable code, or wraps context.Canceled or
// context.DeadlineExceeded.
package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
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

// Local is the machine of this process, of which more can be asked than of others.
type Local interface {
	Machine
	Leftovers
	Spaces
	Trash
	Repositories
}

// Leftovers are the processes of runs whose workers exited.
type Leftovers interface {
	// Left lists the processes that a run left behind, and End ends them.
	Left(ctx context.Context, r LeftRequest) (LeftAnswer, error)
	End(ctx context.Context, r LeftRequest) (LeftAnswer, error)
}

// Spaces are the operations of an operator on workspaces and their roots.
type Spaces interface {
	// Claimed lists the projects that a state directory claimed in a root. found is false if
	// the root never contained a workspace.
	Claimed(ctx context.Context, root, stateDir string) (projects []string, found bool, err error)
	// Leave gives up the projects that a state directory claimed in a root.
	Leave(ctx context.Context, r LeaveRequest) error
	// Examine looks for work in a workspace that exists nowhere else.
	Examine(ctx context.Context, r ExamineRequest) (ExamineAnswer, error)
	// RemoveWorkspace removes a workspace as a run does, but without before_remove.
	RemoveWorkspace(ctx context.Context, r RemovalRequest) (RemoveAnswer, error)
	// DeliverWorkspace is Run.Deliver for a workspace whose run, if any, belongs to somebody
	// else: no turn may run there.
	DeliverWorkspace(ctx context.Context, r WorkspaceDelivery) (WorkspaceDelivered, error)
}

// Trash contains the workspaces that were removed from a root.
type Trash interface {
	// TrashDue reports whether Purge would delete an entry of a project.
	TrashDue(ctx context.Context, t ProjectTrash) (bool, error)
	// ListTrash lists a project's entries, sorted by name, and examines them as Examine does.
	ListTrash(ctx context.Context, t ProjectTrash) ([]Removed, error)
	// Restore moves a workspace back to its path. If it is interrupted it can be repeated.
	Restore(ctx context.Context, r TrashRequest) (RestoreAnswer, error)
	// DeleteTrash deletes an entry.
	DeleteTrash(ctx context.Context, r TrashRequest) error
}

// Repositories answers questions about git and repositories outside of workspaces.
type Repositories interface {
	// ObeyedByGit finds the files that git obeys when it is used with an address, as the
	// operator: those with settings and, for a repository on this machine, its git directories
	// and hooks. Some need not exist.
	ObeyedByGit(ctx context.Context, r ObeyedRequest) ([]string, error)
	// GitAround returns the nearest directory, from dir upwards, that looks like a git
	// directory, such as /srv/x.git for /srv/x.git/hooks; empty for none.
	GitAround(dir string) string
	// IsBranchName reports whether a name is valid for a branch: fix/login is, -f is not.
	// HasBranch reports whether a repository contains a branch.
	IsBranchName(ctx context.Context, name string) (bool, error)
	HasBranch(ctx context.Context, repository, branch string) bool
	// Identity returns the author of commits in a repository of the operator, by the
	// configuration of the repository and of the account, such as Ann and ann@work.example;
	// empty if git knows none.
	Identity(ctx context.Context, repository string, env []string) (name, email string)
}

// Run is the part of a machine that belongs to a run. The calls are sequential, except for
// Observe, Login, MakeHome and Start.
type Run interface {
	Lease
	Clones
	GitGuard
	Programs
}

// Commands starts commands of the operator on this machine that belong to no run. A mark, the
// path of an empty file that a command and its descendants have open, identifies them.
type Commands interface {
	StartMarked(ctx context.Context, mark string, r StartRequest) (Process, error)
	// KillMarked ends the processes that were started with a mark, with SIGKILL at once.
	KillMarked(ctx context.Context, mark string) (LeftAnswer, error)
}

// Codes of the errors of a host that stopped serving a run. Their messages say why.
const (
	// CodeEnded: the host ended the run.
	CodeEnded = "host_ended"
	// CodeDied: the server there ended, but not the run. Processes that the run started may be
	// alive.
	CodeDied = "host_died"
)

// RunDir is the directory of a run below the state directory, on the machine of its worker:
// STATE/runs/20260102-030405-ab12.
func RunDir(stateDir, runID string) string { return filepath.Join(stateDir, "runs", runID) }

// Files in the directory of a run.
const (
	// AliveFile is locked by the run's worker until that ends.
	AliveFile = "alive"
	// TreeFile marks commands that the worker starts for the operator (Commands), so that they
	// end with the run.
	TreeFile = "tree"
)

// HereID marks the processes of a run on another machine that run on the machine of its
// worker: git, and a login shell for it. The two may be the same machine.
func HereID(runID string) string { return runID + "-here" }

// Account is an account of the operating system.
type Account struct {
	Home string
	// StateDir contains the directories of runs on the machine.
	StateDir string
	// Env is the environment of its programs, before the login profile.
	Env []string
}

// CodeDiskFull is the code of an error caused by a full disk.
const CodeDiskFull = "disk_full"

// TemporaryDirectory returns the error for a directory for temporary files that is missing or
// can't be written, if err was caused by that; otherwise nil.
func TemporaryDirectory(err error) *reconcile.Error {
	dir := os.TempDir()
	_, missing := os.Stat(dir)
	denied, isPath := errors.AsType[*fs.PathError](err)
	isBelow := isPath && errors.Is(err, fs.ErrPermission) && filepath.Dir(denied.Path) == filepath.Clean(dir)
	isClosed := isBelow && unix.Access(dir, unix.W_OK) != nil
	isMissing := errors.Is(err, fs.ErrNotExist) && errors.Is(missing, fs.ErrNotExist)
	if !isMissing && !isClosed {
		return nil
	}
	return reconcile.NewError(
		"temporary_directory",
		"the directory for temporary files, "+dir+", is missing or can't be written",
		"create it or make it writable, or correct the variable TMPDIR",
	).WithCause(err)
}

// WithCode adds the code to an error caused by the machine: a full disk or a limit of the
// system. It returns other errors unchanged. Code that stores, prints or sends an error calls
// it, since any operation of a machine may meet these.
func WithCode(err error) error {
	if err == nil || errors.As(err, new(*reconcile.Error)) {
		return err
	}
	if paths.IsFull(err) {
		const hint = "free some space"
		return &reconcile.Error{Code: CodeDiskFull, Message: err.Error(), Hint: hint, Err: err}
	}
	if paths.LimitReached(err) {
		const hint = "raise the limits of open files (ulimit -n) and processes (ulimit -u)"
		return &reconcile.Error{
			Code:    reconcile.CodeResourceLimit,
			Message: err.Error(),
			Hint:    hint,
			Err:     err,
		}
	}
	temporary := TemporaryDirectory(err)
	if temporary != nil {
		return temporary
	}
	return err
}
