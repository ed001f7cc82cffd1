package workspace

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// removal is how a workspace is removed.
type removal struct {
	now      time.Time
	discard  bool // whatever Unsaved finds in it
	halfMade bool // its making was cut off, or it is gone
}

// Removed is what became of a workspace. The zero value: it is deleted, or there was none.
type Removed struct {
	// Unsaved is the work that exists nowhere else, for which the workspace stays.
	Unsaved string
	// Trash is the path in the trash.
	Trash string
	// Undeletable says what of it could not be deleted; it is kept in the trash, marked, and not tried again by passes.
	Undeletable error
}

// Remove takes the workspace of an issue away (specification 8.5, 8.6; design section 7) without a hook.
func (r *Root) Remove(ctx context.Context, o Owner, now time.Time, discard bool) (Removed, error) {
	w, unsaved, err := r.BeginRemoval(ctx, o, now, discard)
	if err != nil || w == nil {
		return Removed{Unsaved: unsaved}, err
	}
	return w.EndRemoval(ctx)
}

// BeginRemoval takes the workspace of an issue in order to remove it. w is nil where there is none, or where it stays because
// of unsaved work. Otherwise the caller ends what Previous left, runs before_remove if HookDue, and owes
// EndRemoval. now dates the entry in the trash.
//
// A workspace with unsaved work (see git.Unsaved) stays where it is. That is judged after before_remove, which may push what
// is there; once a workspace has been kept, it is judged first, so that the hook is not repeated in vain.
func (r *Root) BeginRemoval(ctx context.Context, o Owner, now time.Time, discard bool) (w *Workspace, unsaved string, err error) {
	w, found, err := r.hold(o)
	if err != nil {
		return nil, "", err
	}
	if !found && w.info == nil {
		return nil, "", w.Release()
	}
	w.removal = &removal{now: now, discard: discard, halfMade: w.info == nil || w.rec.State == Creating}
	if w.rec.Unsaved != "" && w.rec.State == Prepared && !discard {
		if unsaved = git.Unsaved(ctx, w.Path); unsaved != "" {
			return nil, unsaved, errors.Join(w.leaveAlone(unsaved), w.Release())
		}
	}
	// Written down, so that no run works in it from now on. An incomplete workspace stays "creating": a hook must not see it the
	// next time either.
	id, state := w.rec.ID, Removing
	if !found {
		id = newID()
	} else if w.rec.State == Creating {
		state = Creating
	}
	err = w.takeRecord(o, id, state)
	if err == nil && !w.removal.halfMade {
		err = w.makeWork()
	}
	if err != nil {
		return nil, "", errors.Join(err, w.Release())
	}
	return w, "", nil
}

// HookDue reports whether before_remove is to run: not in a workspace whose making was cut off.
func (w *Workspace) HookDue() bool { return !w.removal.halfMade }

// EndRemoval moves the workspace into the trash and gives up the lease. If ctx has ended, nothing is moved and the next call of
// BeginRemoval continues. The lock file stays: a lock on a deleted file would exclude no other process.
func (w *Workspace) EndRemoval(ctx context.Context) (Removed, error) {
	crash.At("workspace.remove.hooked")
	removed, err := w.moveAway(ctx)
	// The rest needs no lease: the path is free for the next run already.
	if err := errors.Join(err, w.Release()); err != nil || removed.Trash == "" || w.root.Trash.Keep > 0 {
		return removed, err
	}
	err = w.root.deleteTrash(ctx, removed.Trash)
	switch {
	case ctx.Err() != nil:
		return removed, fmt.Errorf("delete %s: %w", removed.Trash, ctx.Err())
	case err == nil:
		removed.Trash = ""
	}
	removed.Undeletable = err
	return removed, nil
}

func (w *Workspace) moveAway(ctx context.Context) (removed Removed, err error) {
	if err := ctx.Err(); err != nil {
		return removed, fmt.Errorf("remove %s: %w", w.Path, err)
	}
	// The hook may have removed the directory itself, or put something else there.
	info, err := lookAt(w.Path)
	if err != nil {
		return removed, err
	}
	if info != nil {
		n := note{LossAccepted: true}
		if !w.removal.discard {
			if n = examined(ctx, w.Path); n.Unsaved != "" && !w.removal.halfMade {
				return Removed{Unsaved: n.Unsaved}, w.leaveAlone(n.Unsaved)
			}
		}
		if removed.Trash, err = w.root.moveToTrash(w.Path, w.Key, w.removal.now, n); err != nil {
			return removed, err
		}
	}
	crash.At("workspace.remove.trashed")
	if err := w.dispose(ctx, w.WorkDir()); err != nil {
		return removed, err
	}
	return removed, w.root.removeRecord(w.Key)
}

// leaveAlone records that the workspace stays, and why, so that the next run finds it complete and passes wait before
// they try again.
func (w *Workspace) leaveAlone(work string) error {
	w.rec.State, w.rec.Unsaved, w.rec.UnsavedAt = Prepared, work, w.removal.now
	return w.root.writeRecord(w.rec)
}
