package workspace

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/reconcile/crash"
)

// Removal is what became of a workspace.
type Removal struct {
	// Removed is false where there was none.
	Removed bool
	// HookErr is what before said; it does not keep the workspace (specification 9.4).
	HookErr error
	// Trash is where the workspace is kept; empty where it is deleted.
	Trash string
	// Undeletable says what of it could not be deleted; it is kept in the trash, marked, and not tried again
	// by passes.
	Undeletable error
}

// Remove takes the workspace of an issue away (specification 8.5, 8.6; design section 7). It takes the
// lease as Acquire does, calls before with the workspace (to reap what Previous left and run before_remove;
// not for one that was never made completely), moves the directory into the trash under the name of now, and
// deletes it at once where keep is 0. Where ctx is over after before, nothing is moved and the next call goes
// on. The lock file stays: who waits for a lock on a deleted file would hold a lock that nobody else sees.
func (r *Root) Remove(
	ctx context.Context, o Owner, keep time.Duration, now time.Time, before func(*Workspace) error,
) (Removal, error) {
	w, found, err := r.hold(ctx, o)
	if err != nil {
		return Removal{}, err
	}
	if !found && w.info == nil {
		return Removal{}, w.Release()
	}
	report, err := w.remove(ctx, o, found, now, before)
	// The rest needs no lease: the path is free for the next run already.
	if err := errors.Join(err, w.Release()); err != nil {
		return report, err
	}
	crash.At("workspace.remove.released")
	if keep > 0 || report.Trash == "" {
		return report, nil
	}
	err = r.deleteTrash(ctx, report.Trash)
	switch {
	case ctx.Err() != nil:
		return report, fmt.Errorf("delete %s: %w", report.Trash, ctx.Err())
	case err != nil:
		report.Trash, report.Undeletable = report.Trash+stuck, err
	default:
		report.Trash = ""
	}
	return report, nil
}

func (w *Workspace) remove(
	ctx context.Context, o Owner, found bool, now time.Time, before func(*Workspace) error,
) (Removal, error) {
	whole := w.info != nil && (!found || w.rec.State != Creating)
	if err := w.recordRemoval(o, found); err != nil {
		return Removal{}, err
	}
	crash.At("workspace.remove.recorded")
	report := Removal{Removed: true}
	if whole && before != nil {
		if err := w.makeWork(); err != nil {
			return report, err
		}
		report.HookErr = before(w)
	}
	crash.At("workspace.remove.hooked")
	if err := ctx.Err(); err != nil {
		return Removal{HookErr: report.HookErr}, fmt.Errorf("remove %s: %w", w.Path, err)
	}
	// The hook may have taken the directory away itself, or put something else there.
	info, err := lookAt(w.Path)
	if err != nil {
		return Removal{HookErr: report.HookErr}, err
	}
	if info != nil {
		if report.Trash, err = w.root.moveToTrash(w.Path, w.Key, now); err != nil {
			return Removal{HookErr: report.HookErr}, err
		}
	}
	crash.At("workspace.remove.trashed")
	if err := w.clearWork(ctx); err != nil {
		return report, err
	}
	crash.At("workspace.remove.cleared")
	return report, w.root.removeRecord(w.Key)
}

// recordRemoval writes down that the workspace goes, so that nobody works in it from now on.
func (w *Workspace) recordRemoval(o Owner, found bool) error {
	w.Previous = w.rec.holders(o)
	if !found {
		w.rec = Record{
			IssueID: o.IssueID, Identifier: o.Identifier, Key: w.Key, Project: o.Project, ID: newID(), Path: w.Path,
		}
	}
	// One that was never complete stays "creating": a hook must not see it the next time either.
	if !found || w.rec.State != Creating {
		w.rec.State = Removing
	}
	w.rec.RunID, w.rec.StateDir, w.rec.Previous = o.RunID, o.StateDir, w.Previous
	w.ID = w.rec.ID
	return w.root.writeRecord(w.rec)
}
