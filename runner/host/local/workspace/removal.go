package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// removal is the state of a removal.
type removal struct {
	now      time.Time
	discard  bool // even if it contains unsaved work
	halfMade bool // its creation was interrupted, or it does not exist
}

// Remove removes the workspace of an issue (specification 8.5, 8.6) without running a hook.
func (r *Root) Remove(ctx context.Context, o Owner, now time.Time, discard bool) (host.RemoveAnswer, error) {
	w, unsaved, err := r.BeginRemoval(ctx, o, now, discard)
	if err != nil || w == nil {
		return host.RemoveAnswer{Unsaved: unsaved}, err
	}
	return w.EndRemoval(ctx)
}

// BeginRemoval acquires the workspace of an issue in order to remove it. w is nil if there is
// none, or if it is kept because of unsaved work. Otherwise the caller ends the processes of
// Previous, runs before_remove if HookDue, and calls EndRemoval. now is the date of the entry
// in the trash.
//
// A workspace with unsaved work (see git.Unsaved) is kept. It is examined after before_remove,
// which may push the work. A workspace that was kept before is examined first, so that the
// hook does not run again and again.
func (r *Root) BeginRemoval(
	ctx context.Context,
	o Owner,
	now time.Time,
	discard bool,
) (w *Workspace, unsaved string, err error) {
	w, found, err := r.hold(o)
	if err != nil {
		return nil, "", err
	}
	if !found && w.info == nil {
		return nil, "", w.Release()
	}
	w.removal = &removal{
		now:      now,
		discard:  discard,
		halfMade: w.info == nil || w.rec.State == Creating,
	}
	if w.rec.Unsaved != "" && w.rec.State == Prepared && !discard {
		unsaved, _ = w.root.Unsaved(ctx, w.rec)
		if unsaved != "" {
			return nil, unsaved, errors.Join(w.keep(ctx, unsaved), w.Release())
		}
	}
	// The record keeps other runs from working in it. An incomplete workspace stays
	// "creating", because the next removal must not run a hook in it either.
	id := w.rec.ID
	state := Removing
	if !found {
		id = rand.Text()
	} else if w.rec.State == Creating {
		state = Creating
	}
	if err := w.takeRecord(o, id, state); err != nil {
		return nil, "", errors.Join(err, w.Release())
	}
	if !w.removal.halfMade {
		if err := w.makeWork(); err != nil {
			return nil, "", errors.Join(err, w.Release())
		}
	}
	return w, "", nil
}

// HookDue reports whether before_remove must run: it does not in a workspace whose creation
// was interrupted.
func (w *Workspace) HookDue() bool { return !w.removal.halfMade }

// EndRemoval moves the workspace into the trash and releases the lease. If ctx ended, it moves
// nothing, and the next removal continues. It keeps the lock file, because a lock on a deleted
// file would exclude no other process.
func (w *Workspace) EndRemoval(ctx context.Context) (removed host.RemoveAnswer, err error) {
	crash.At("workspace.remove.hooked")
	defer func() { err = errors.Join(err, w.Release()) }()
	if err := ctx.Err(); err != nil {
		return removed, fmt.Errorf("remove %s: %w", w.Path, err)
	}
	// The hook may have removed the directory, or replaced it.
	info, err := lookAt(w.Path)
	if err != nil {
		return removed, err
	}
	if info != nil {
		n := w.examine(ctx)
		n.LossAccepted = w.removal.discard
		if n.Unsaved != "" && !n.LossAccepted && !w.removal.halfMade {
			return host.RemoveAnswer{Unsaved: n.Unsaved}, w.keep(ctx, n.Unsaved)
		}
		removed.Trash, err = w.root.moveToTrash(w.Path, w.Key, w.removal.now, n)
		if err != nil {
			return removed, err
		}
	}
	crash.At("workspace.remove.trashed")
	if err := w.dispose(ctx, w.WorkDir()); err != nil {
		return removed, err
	}
	return removed, w.root.removeRecord(w.Key)
}

// keep records that the workspace is kept, and why, so that the next run finds it complete,
// and passes wait before they examine it again. If ctx ended, the examination was not
// complete, and keep returns its error.
func (w *Workspace) keep(ctx context.Context, work string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("examine %s: %w", w.Path, err)
	}
	w.rec.State = Prepared
	w.rec.Unsaved = work
	w.rec.UnsavedAt = w.removal.now
	if w.rec.KeptSince.IsZero() {
		w.rec.KeptSince = w.removal.now
	}
	return w.root.writeRecord(w.rec)
}

// Unsaved describes and names the work in a workspace that exists nowhere else (see
// git.Unsaved).
func (r *Root) Unsaved(ctx context.Context, rec Record) (work string, items []string) {
	path := filepath.Join(r.Path, rec.Key)
	return git.Unsaved(ctx, path, rec.Outside, rec.Origin.URL, rec.AccountFiles, r.work(rec.Key))
}

// examine returns the note for a workspace that is about to be removed.
func (w *Workspace) examine(ctx context.Context) note {
	n := note{SavedAt: time.Now()}
	if w.rec.State != Creating { // incomplete workspaces can't be restored
		n.Workspace = &w.rec
	}
	n.Unsaved, _ = w.root.Unsaved(ctx, w.rec)
	if n.Unsaved != "" {
		n.SavedAt = time.Time{}
	}
	return n
}
