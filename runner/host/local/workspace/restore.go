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
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// Removed lists what a project has in the trash, sorted by name, and examines it for unsaved work. It does not measure Bytes.
func (r *Root) Removed(ctx context.Context, now time.Time, project string) (list []host.Removed, err error) {
	entries, err := r.listTrash()
	for _, t := range entries {
		if t.Project != project {
			continue
		}
		e := host.Removed{
			Identifier: t.key, Path: t.path, At: t.at, Due: now.Add(r.left(t, now)), Discarded: t.LossAccepted, Restorable: t.Workspace != nil,
		}
		if e.Restorable {
			e.IssueID, e.Identifier = t.Workspace.IssueID, t.Workspace.Identifier
		}
		if e.Unsaved.Work, e.Unsaved.Items = t.unsaved(ctx); t.LossAccepted && t.Unsaved != "" {
			e.Unsaved.Work = t.Unsaved
			_, e.Unsaved.Items = t.examine(ctx)
		}
		list = append(list, e)
	}
	return list, errors.Join(err, ctx.Err())
}

// Restore moves an entry of the trash back to its path, which it returns. Passes do not remove it before a run has used it.
// If it is interrupted it can be repeated.
func (r *Root) Restore(entry string) (path string, err error) {
	entries, err := r.listTrash()
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(entries, func(t trashEntry) bool { return t.path == entry && t.Workspace != nil })
	if i < 0 {
		return "", reconcile.NewError(CodeFailed, entry+" can't be restored: its deletion has begun, or its record is missing",
			"copy what you need from it")
	}
	t := entries[i]
	w, _, err := r.hold(t.Workspace.Owner)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.Release()) }()
	if w.info != nil {
		return "", reconcile.NewError(CodeExists, w.Path+" exists: a run has made it since the other one was removed",
			"move it away first, or copy what you need from "+t.path)
	}
	rec := *t.Workspace
	rec.State, rec.Path, rec.Restored = Prepared, w.Path, true
	rec.Unsaved, rec.UnsavedAt, rec.KeptSince = "", time.Time{}, time.Time{}
	if err := w.restoreGitFile(t.path + gitSuffix); err != nil {
		return "", files.Failed(err, "restore the git settings that are trusted in %s", w.Path)
	}
	// Of a record without a directory the next run makes a new workspace.
	if err := r.writeRecord(rec); err != nil {
		return "", err
	}
	if err = os.Rename(t.path, w.Path); err == nil {
		crash.At("workspace.restore.moved")
		err = errors.Join(durable.SyncDir(r.Path), durable.SyncDir(r.trash()))
	}
	if err != nil {
		return "", files.Failed(err, "restore %s", w.Path)
	}
	removeNotes(t.path)
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
