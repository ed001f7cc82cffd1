package workspace

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// RemoveOptions say how a workspace is removed.
type RemoveOptions struct {
	// Now dates the entry in the trash. With Keep 0 it is deleted at once.
	Now  time.Time
	Keep time.Duration
	// Before ends what Previous left and runs before_remove. It is not called for a workspace that was never complete.
	Before func(*Workspace) error
	// Discard removes the workspace whatever Unsaved finds in it.
	Discard bool
}

// Removal is what became of a workspace.
type Removal struct {
	// Removed is false where there was none, or Unsaved says why it stays.
	Removed bool
	// Unsaved is the work that exists nowhere else.
	Unsaved string
	// HookErr is the error of Before; it does not keep the workspace (specification 9.4).
	HookErr error
	// Trash is the path in the trash; empty where the workspace is deleted.
	Trash string
	// Undeletable says what of it could not be deleted; it is kept in the trash, marked, and not tried again
	// by passes.
	Undeletable error
}

// Remove takes the workspace of an issue away (specification 8.5, 8.6; design section 7): it takes the lease as Acquire
// does, calls Before, and moves the directory into the trash. BeginRemoval and EndRemoval are its two halves, for callers
// that do not have Before as a function.
//
// A workspace with unsaved work (see Unsaved) stays where it is. That is judged after Before, because before_remove may
// push what is there; once a workspace has been kept, it is judged first, so that the hook is not repeated in vain.
//
// If ctx ends during Before, nothing is moved and the next call continues. The lock file stays: a lock on a deleted file
// would exclude no other process.
func (r *Root) Remove(ctx context.Context, o Owner, opt RemoveOptions) (Removal, error) {
	w, unsaved, err := r.BeginRemoval(ctx, o, opt)
	if err != nil || w == nil {
		return Removal{Unsaved: unsaved}, err
	}
	var hookErr error
	if w.Complete() && opt.Before != nil {
		hookErr = opt.Before(w)
	}
	removal, err := w.EndRemoval(ctx, opt)
	removal.HookErr = hookErr
	return removal, err
}

// BeginRemoval takes a workspace in order to remove it; the caller owes EndRemoval. w is nil where there is none, or where
// it stays because of unsaved work.
func (r *Root) BeginRemoval(ctx context.Context, o Owner, opt RemoveOptions) (w *Workspace, unsaved string, err error) {
	w, found, err := r.hold(ctx, o)
	if err != nil {
		return nil, "", err
	}
	if !found && w.info == nil {
		return nil, "", w.Release()
	}
	w.complete = w.info != nil && (!found || w.rec.State != Creating)
	if w.rec.Unsaved != "" && w.rec.State == Prepared && !opt.Discard {
		if unsaved = git.Unsaved(ctx, w.Path); unsaved != "" {
			return nil, unsaved, errors.Join(w.leaveAlone(unsaved, opt.Now), w.Release())
		}
	}
	err = w.recordRemoval(o, found)
	if err == nil && w.complete {
		err = w.makeWork()
	}
	if err != nil {
		return nil, "", errors.Join(err, w.Release())
	}
	return w, "", nil
}

// Complete reports whether the workspace was made completely, so that before_remove may see it.
func (w *Workspace) Complete() bool { return w.complete }

// EndRemoval moves the workspace into the trash and gives up the lease.
func (w *Workspace) EndRemoval(ctx context.Context, opt RemoveOptions) (Removal, error) {
	crash.At("workspace.remove.hooked")
	removal, err := w.remove(ctx, opt)
	// The rest needs no lease: the path is free for the next run already.
	if err := errors.Join(err, w.Release()); err != nil {
		return removal, err
	}
	if opt.Keep > 0 || removal.Trash == "" {
		return removal, nil
	}
	err = w.root.deleteTrash(ctx, removal.Trash)
	switch {
	case ctx.Err() != nil:
		return removal, fmt.Errorf("delete %s: %w", removal.Trash, ctx.Err())
	case err != nil:
		removal.Trash, removal.Undeletable = removal.Trash+stuckSuffix, err
	default:
		removal.Trash = ""
	}
	return removal, nil
}

func (w *Workspace) remove(ctx context.Context, opt RemoveOptions) (removal Removal, err error) {
	if err := ctx.Err(); err != nil {
		return removal, fmt.Errorf("remove %s: %w", w.Path, err)
	}
	// The hook may have removed the directory itself, or put something else there.
	info, err := lookAt(w.Path)
	if err != nil {
		return removal, err
	}
	if info != nil {
		if w.complete && !opt.Discard {
			if removal.Unsaved = git.Unsaved(ctx, w.Path); removal.Unsaved != "" {
				return removal, w.leaveAlone(removal.Unsaved, opt.Now)
			}
		}
		n := note{Project: w.root.Trash.Project, Keep: w.root.Trash.Keep, Discard: opt.Discard}
		if removal.Trash, err = w.root.moveWithNote(w.Path, w.Key, opt.Now, n); err != nil {
			return removal, err
		}
	}
	removal.Removed = true
	crash.At("workspace.remove.trashed")
	if err := w.clearWork(ctx); err != nil {
		return removal, err
	}
	return removal, w.root.removeRecord(w.Key)
}

// leaveAlone records that the workspace stays, and why, so that the next run finds it complete and passes wait before
// they try again.
func (w *Workspace) leaveAlone(work string, now time.Time) error {
	w.rec.State, w.rec.Unsaved, w.rec.UnsavedAt = Prepared, work, now
	return w.root.writeRecord(w.rec)
}

// recordRemoval writes down that the workspace is being removed, so that no run works in it from now on.
func (w *Workspace) recordRemoval(o Owner, found bool) error {
	w.Previous = w.rec.holders(o)
	if !found {
		w.rec = Record{
			IssueID: o.IssueID, Identifier: o.Identifier, Key: w.Key, Project: o.Project, ID: newID(), Path: w.Path,
		}
	}
	// An incomplete workspace stays "creating": a hook must not see it the next time either.
	if !found || w.rec.State != Creating {
		w.rec.State = Removing
	}
	w.rec.RunID, w.rec.StateDir, w.rec.Previous = o.RunID, o.StateDir, w.Previous
	w.ID = w.rec.ID
	return w.root.writeRecord(w.rec)
}
