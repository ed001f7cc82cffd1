package workspace

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/files"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// Removed is a workspace in the trash.
type Removed struct {
	Path string
	Key  string    // of the workspace
	At   time.Time // when it was moved there
	Due  time.Time // from then on a pass deletes it, unless it contains unsaved work
	// Unsaved is the work in it that exists nowhere else. Discarded: an operator has accepted its loss.
	Unsaved   string
	Items     []string // names of Unsaved
	Discarded bool
	// FilesOutside: it contains files outside of every repository, which Unsaved does not count.
	FilesOutside bool
	// Record is the workspace's record, nil if the entry can't be restored.
	Record *Record
}

// Removed lists what the project has in the trash, sorted by name, and examines it for unsaved work.
func (r *Root) Removed(ctx context.Context, now time.Time) (list []Removed, err error) {
	return r.removedBy(ctx, now, r.Trash.Project)
}

// RemovedBy lists what the projects of a state directory have in the trash.
func (r *Root) RemovedBy(ctx context.Context, now time.Time, stateDir string) (list []Removed, err error) {
	claims, err := r.claimsOf(stateDir)
	if err != nil {
		return nil, err
	}
	return r.removedBy(ctx, now, slices.Collect(maps.Values(claims))...)
}

func (r *Root) removedBy(ctx context.Context, now time.Time, projects ...string) (list []Removed, err error) {
	entries, err := r.listTrash()
	for _, t := range entries {
		if !slices.Contains(projects, t.Project) {
			continue
		}
		e := Removed{
			Path: t.path, Key: strings.TrimSuffix(filepath.Base(t.path), "-"+t.at.Format(trashTime)), At: t.at, Due: now.Add(r.left(t, now)),
			Discarded: t.LossAccepted, FilesOutside: t.FilesOutside, Record: t.Workspace,
		}
		if e.Unsaved = r.UnsavedInTrash(ctx, t.path); t.LossAccepted {
			e.Unsaved = t.Unsaved
		}
		if e.Unsaved != "" {
			_, e.Items = git.UnsavedItems(ctx, t.path)
		}
		list = append(list, e)
	}
	return list, errors.Join(err, ctx.Err())
}

// Restore moves a workspace from the trash back to its path, which it returns. Passes do not remove it before a run has used it.
// If it is interrupted it can be repeated.
func (r *Root) Restore(t Removed) (path string, err error) {
	if t.Record == nil {
		return "", &reconcile.Error{
			Code: CodeFailed, Message: t.Path + " can't be restored: its deletion has begun, or its record is missing",
			Hint: "copy what you need from it",
		}
	}
	w, _, err := r.hold(t.Record.Owner)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.Release()) }()
	if w.info != nil {
		return "", &reconcile.Error{
			Code: CodeExists, Message: w.Path + " exists: a run has made it since the other one was removed",
			Hint: "move it away first, or copy what you need from " + t.Path,
		}
	}
	rec := *t.Record
	rec.State, rec.Path, rec.Restored = Prepared, w.Path, true
	rec.Unsaved, rec.UnsavedAt, rec.KeptSince = "", time.Time{}, time.Time{}
	// Of a record without a directory the next run makes a new workspace.
	if err := r.writeRecord(rec); err != nil {
		return "", err
	}
	if err = os.Rename(t.Path, w.Path); err == nil {
		err = errors.Join(durable.SyncDir(r.Path), durable.SyncDir(r.trash()))
	}
	if err != nil {
		return "", files.Failed(err, "restore %s", w.Path)
	}
	_ = os.Remove(t.Path + noteSuffix) // PurgeTrash removes a note without its entry
	return w.Path, nil
}
