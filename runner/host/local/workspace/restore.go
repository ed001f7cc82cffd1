package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host/local/files"
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
	// Record is the workspace's record, nil if the entry can't be restored.
	Record *Record
}

// Removed lists what projects have in the trash, sorted by name, and examines it for unsaved work.
func (r *Root) Removed(ctx context.Context, now time.Time, projects ...string) (list []Removed, err error) {
	entries, err := r.listTrash()
	for _, t := range entries {
		if !slices.Contains(projects, t.Project) {
			continue
		}
		e := Removed{Path: t.path, Key: t.key, At: t.at, Due: now.Add(r.left(t, now)), Discarded: t.LossAccepted, Record: t.Workspace}
		if e.Unsaved, e.Items = t.unsaved(ctx); t.LossAccepted && t.Unsaved != "" {
			e.Unsaved = t.Unsaved
			_, e.Items = t.examine(ctx)
		}
		list = append(list, e)
	}
	return list, errors.Join(err, ctx.Err())
}

// Restore moves a workspace from the trash back to its path, which it returns. Passes do not remove it before a run has used it.
// If it is interrupted it can be repeated.
func (r *Root) Restore(t Removed) (path string, err error) {
	if t.Record == nil {
		return "", reconcile.NewError(CodeFailed, t.Path+" can't be restored: its deletion has begun, or its record is missing",
			"copy what you need from it")
	}
	w, _, err := r.hold(t.Record.Owner)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.Release()) }()
	if w.info != nil {
		return "", reconcile.NewError(CodeExists, w.Path+" exists: a run has made it since the other one was removed",
			"move it away first, or copy what you need from "+t.Path)
	}
	rec := *t.Record
	rec.State, rec.Path, rec.Restored = Prepared, w.Path, true
	rec.Unsaved, rec.UnsavedAt, rec.KeptSince = "", time.Time{}, time.Time{}
	if err := w.restoreGitFile(t.Path + gitSuffix); err != nil {
		return "", files.Failed(err, "restore the git settings that are trusted in %s", w.Path)
	}
	// Of a record without a directory the next run makes a new workspace.
	if err := r.writeRecord(rec); err != nil {
		return "", err
	}
	if err = os.Rename(t.Path, w.Path); err == nil {
		crash.At("workspace.restore.moved")
		err = errors.Join(durable.SyncDir(r.Path), durable.SyncDir(r.trash()))
	}
	if err != nil {
		return "", files.Failed(err, "restore %s", w.Path)
	}
	removeNotes(t.Path)
	return w.Path, nil
}

// restoreGitFile restores GitFile from its copy, if no agent has worked here since.
func (w *Workspace) restoreGitFile(from string) error {
	if err := w.makeWork(); err != nil {
		return err
	}
	err := os.Link(from, w.GitFile())
	if files.Absent(err) || errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
