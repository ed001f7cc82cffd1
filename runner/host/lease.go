package host

import (
	"context"
	"time"
)

// Lease holds the workspace of a run's issue, so that no other run and no operator works in it.
type Lease interface {
	// Prepare acquires the workspace of an issue: it takes the lease, creates the directory if
	// it is missing, ends the processes of earlier runs, and restores git settings. If it
	// returns both a workspace and an error, the lease is held, and the caller must call
	// Finish.
	Prepare(ctx context.Context, r PrepareRequest) (PrepareAnswer, error)
	// Open begins a run that works in a directory of the operator instead of a workspace. The
	// caller must call Finish.
	Open(ctx context.Context) error
	// Confirm records that a prepared workspace is ready for work.
	Confirm(ctx context.Context, r ConfirmRequest) error
	// Discard removes a new workspace that could not be filled, because its after_create failed
	// for example.
	Discard(ctx context.Context) error
	// Verify checks that the workspace is still the directory that the run acquired.
	Verify(ctx context.Context) error
	// PrepareRemoval acquires a workspace as Prepare does. Remove removes it, unless it
	// contains work that exists nowhere else, and releases the lease. before_remove runs
	// between the two calls.
	PrepareRemoval(ctx context.Context, r RemovalRequest) (RemovalAnswer, error)
	Remove(ctx context.Context) (RemoveAnswer, error)
	// Finish releases the lease and the files of the run. Processes that inherited the lease
	// keep it.
	Finish(ctx context.Context) error
}

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
	// program outside the sandbox may use them, because their files may have been planted.
	TmpDir, CacheDir string
	// Hooks and Agent are for hooks and for the agent's own program.
	Hooks, Agent Dirs
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
}

// PrepareAnswer is the acquired workspace.
type PrepareAnswer struct {
	Workspace Workspace
	Git       GitRestored
}

// ConfirmRequest ends the preparation.
type ConfirmRequest struct {
	// KeepCache keeps for checkouts the files that after_create left in the cache of the
	// agent's commands, before an agent can change them.
	KeepCache bool
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

// RemoveAnswer is the result of removing a workspace.
type RemoveAnswer struct {
	// Unsaved is the work because of which the workspace is kept.
	Unsaved string
	// Trash is its path in the trash, empty if there was nothing to move there.
	Trash string
}
