package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/files"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

const (
	// trashTime is the format of the time at the end of an entry's name: when it was moved to
	// the trash, UTC.
	trashTime = "20060102T150405.000000000Z"
	// noteSuffix is appended to an entry's name for the note beside it, and deletingSuffix
	// before its deletion begins.
	noteSuffix     = ".note"
	deletingSuffix = ".deleting"
	// gitSuffix is appended to it for the copy of GitFile.
	gitSuffix = ".git" + noteSuffix
	maxNote   = 64 << 10 // bytes
	// RecheckUnsaved is the time between two examinations of a workspace with unsaved work.
	RecheckUnsaved = time.Hour
)

// Trash describes how a project keeps its removed workspaces in a root, which it may share
// with other projects.
type Trash struct {
	// Project owns the workspaces that are removed through this Root, and keeps them for Keep.
	Project string
	Keep    time.Duration
	// Short: free space is low, so that work saved elsewhere is not kept.
	Short bool
}

// note is stored beside an entry of the trash. Thanks to it, a workspace that was removed an
// hour ago is not deleted because the wall clock was set a year ahead, or because another
// project in this root keeps nothing.
type note struct {
	Project string        `json:"project"`
	Keep    time.Duration `json:"keep_ns"`
	// Boot and Mono are the time at which the entry was moved here, or was last found to
	// contain unsaved work.
	Boot string        `json:"boot"`
	Mono time.Duration `json:"mono_ns"`
	// SavedAt is the time at which it contained no unsaved work, zero if it did when it was
	// moved here. It is valid until a file in the entry changes. Git can't tell later if the
	// main repository of a linked worktree was pruned.
	SavedAt time.Time `json:"saved_at,omitzero"`
	// LossAccepted: an operator accepted the loss of unsaved work, or the deletion began.
	LossAccepted bool `json:"discard,omitempty"`
	// Unsaved is the work in it that exists nowhere else, empty if none is known.
	Unsaved string `json:"unsaved,omitempty"`
	// Undeletable: a deletion failed, and passes do not try again.
	Undeletable bool `json:"undeletable,omitempty"`
	// Workspace is the record of a complete workspace, which can be restored.
	Workspace *Record `json:"workspace,omitempty"`
}

type trashEntry struct {
	note
	path, key string
	at        time.Time
	deleting  bool
}

// readNote returns the note of an entry. An entry without a note counts as this project's.
func (t Trash) readNote(entry string) note {
	n := note{}
	b, err := files.ReadRegular(entry+noteSuffix, maxNote)
	if err != nil || json.Unmarshal(b, &n) != nil {
		return note{Project: t.Project, Keep: t.Keep}
	}
	return n
}

// writeNote writes the note of an entry. If that fails, for example on a full disk, the entry
// stays without a note.
func writeNote(entry string, n note) {
	if err := os.WriteFile(entry+noteSuffix, text.JSON(n), 0o600); err != nil {
		_ = os.Remove(entry + noteSuffix)
	}
}

// removeNotes removes the files beside an entry of the trash. If that fails, PurgeTrash
// removes them later.
func removeNotes(entry string) {
	_ = os.Remove(entry + noteSuffix)
	_ = os.Remove(entry + gitSuffix)
}

// moveToTrash renames a directory into the trash and returns its new path. The note is written
// first.
func (r *Root) moveToTrash(path, key string, now time.Time, n note) (to string, err error) {
	if err := files.OwnDir(r.trash()); err != nil {
		return "", files.Failed(err, "create the trash")
	}
	if err := makeMovable(path); err != nil {
		return "", files.Failed(err, "move %s to the trash", path)
	}
	to = filepath.Join(r.trash(), key+"-"+now.UTC().Format(trashTime))
	for exists(to) {
		now = now.Add(1)
		to = filepath.Join(r.trash(), key+"-"+now.UTC().Format(trashTime))
	}
	n.Project = r.Trash.Project
	n.Keep = r.Trash.Keep
	n.Boot, n.Mono, _ = r.clock() // on an error the wall clock counts
	writeNote(to, n)
	if err := r.moveWithGitFile(path, key, to); err != nil {
		removeNotes(to)
		return "", files.Failed(err, "move %s to the trash", path)
	}
	crash.At("workspace.trash.renamed")
	err = errors.Join(durable.SyncDir(filepath.Dir(path)), durable.SyncDir(r.trash()))
	if err != nil {
		return "", files.Failed(err, "move %s to the trash", path)
	}
	return to, nil
}

// makeMovable makes a directory writable: otherwise it could not be moved to another parent,
// because its ".." changes.
func makeMovable(path string) error {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o700 == 0o700 {
		return nil //nolint:nilerr // the move reports what can't be read
	}
	return os.Chmod(path, info.Mode().Perm()|0o700)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// moveWithGitFile moves a workspace to its new path in the trash, with a copy of its GitFile
// beside it: after a restoration, the files that an agent left are still compared with that
// copy.
func (r *Root) moveWithGitFile(path, key, to string) error {
	// removeOrphanedNotes leaves new files
	_ = os.Chtimes(r.gitFile(key), time.Time{}, time.Now()) // it may not exist
	err := os.Link(r.gitFile(key), to+gitSuffix)
	if err != nil && !files.Absent(err) {
		return err
	}
	return os.Rename(path, to)
}

// DeleteTrash deletes an entry of the trash. It renames the entry first, so that the entry
// can't be restored any more, and so that the next purge continues an interrupted deletion
// without an examination: half a repository can't be read. An entry that can't be deleted is
// marked, and PurgeTrash reports it.
func (r *Root) DeleteTrash(ctx context.Context, path string) error {
	n := r.Trash.readNote(path)
	n.LossAccepted = true
	n.Workspace = nil
	to := deletingPath(path)
	if to != path {
		writeNote(to, n)
		err := os.Rename(path, to)
		// an entry that is not there was restored, or deleted by another process
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			removeNotes(to)
			return files.Failed(err, "delete %s", path)
		}
		removeNotes(path)
		crash.At("workspace.delete.renamed")
		path = to
	}
	err := files.RemoveTree(ctx, path)
	if err != nil {
		if ctx.Err() == nil {
			n.Undeletable = true
			writeNote(path, n)
		}
		return err
	}
	removeNotes(path)
	return nil
}

// deletingPath returns the path of an entry during its deletion.
func deletingPath(path string) string {
	return strings.TrimSuffix(path, deletingSuffix) + deletingSuffix
}

// listTrash returns the entries of the trash. It skips names that symphony does not create.
func (r *Root) listTrash() (list []trashEntry, err error) {
	entries, err := os.ReadDir(r.trash())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, files.Failed(err, "read the trash of %s", r.Path)
	}
	for _, e := range entries {
		t, ok := parseEntryName(e.Name())
		if !ok {
			continue
		}
		t.path = filepath.Join(r.trash(), e.Name())
		t.note = r.Trash.readNote(t.path)
		t.LossAccepted = t.LossAccepted || t.deleting
		list = append(list, t)
	}
	return list, nil
}

// parseEntryName reads the name of an entry, such as
// "ABC-1-20260131T093000.000000000Z.deleting": its key, its time and whether it is being
// deleted. ok is false for a name that symphony does not create.
func parseEntryName(name string) (t trashEntry, ok bool) {
	name, t.deleting = strings.CutSuffix(name, deletingSuffix)
	start := max(0, len(name)-len(trashTime))
	at, err := time.Parse(trashTime, name[start:])
	if err != nil {
		return trashEntry{}, false
	}
	t.at = at
	t.key = strings.TrimSuffix(name[:start], "-")
	return t, true
}

// left returns how long an entry is kept from now on: by the monotonic clock if it was removed
// in this boot, otherwise by the wall clock. The entry of another project is kept for as long
// as that project wants.
func (r *Root) left(t trashEntry, now time.Time) time.Duration {
	if t.deleting {
		return 0
	}
	keep := t.Keep
	if r.Trash.Short {
		keep = 0
	} else if t.Project == r.Trash.Project {
		keep = r.Trash.Keep
	}
	if t.Unsaved != "" && !t.LossAccepted {
		keep = max(keep, RecheckUnsaved)
	}
	if keep <= 0 {
		return 0
	}
	age := now.Sub(t.at)
	boot, mono, err := r.clock()
	if err == nil && boot == t.Boot && mono >= t.Mono {
		age = mono - t.Mono
	}
	return keep - age
}

// ExpiredTrash lists the removed workspaces whose time (workspace.keep_removed_ms) is over,
// without workspaces that could not be deleted before.
func (r *Root) ExpiredTrash(now time.Time) (paths []string, err error) {
	list, err := r.listTrash()
	if err != nil {
		return nil, err
	}
	for _, t := range list {
		if r.left(t, now) <= 0 && !t.Undeletable {
			paths = append(paths, t.path)
		}
	}
	return paths, nil
}

// PurgeTrash deletes the entries that ExpiredTrash lists. An entry with unsaved work is kept,
// and is examined again after RecheckUnsaved. If ctx ends, it returns the error of ctx, and
// the next call continues. Concurrent calls are safe.
func (r *Root) PurgeTrash(ctx context.Context, now time.Time) (purged host.PurgeAnswer, err error) {
	purged.Unsaved = map[string]string{}
	r.removeOrphanedNotes()
	list, err := r.listTrash()
	if err != nil {
		return purged, err
	}
	for _, t := range list {
		if t.Undeletable {
			purged.Undeletable = append(purged.Undeletable, t.path)
			continue
		}
		if r.left(t, now) > 0 {
			continue
		}
		work, _ := t.unsaved(ctx)
		if ctx.Err() != nil { // the examination was not complete
			return purged, fmt.Errorf("purge the trash of %s: %w", r.Path, ctx.Err())
		}
		if work != "" {
			t.Unsaved = work // so that not every pass examines it
			t.Boot, t.Mono, _ = r.clock()
			writeNote(t.path, t.note)
			purged.Unsaved[t.path] = work
			continue
		}
		err := r.DeleteTrash(ctx, t.path)
		if ctx.Err() != nil {
			return purged, fmt.Errorf("purge the trash of %s: %w", r.Path, ctx.Err())
		}
		if err != nil {
			purged.Undeletable = append(purged.Undeletable, deletingPath(t.path))
			continue
		}
		purged.Removed++
	}
	return purged, nil
}

// unsaved describes and names the work in an entry of the trash that exists nowhere else. It
// returns an empty string if nothing was unsaved when the entry was moved here and nothing in
// it changed since, or if an operator accepted the loss.
func (t trashEntry) unsaved(ctx context.Context) (work string, items []string) {
	if t.LossAccepted || !t.SavedAt.IsZero() && !changedSince(ctx, t.path, t.SavedAt) {
		return "", nil
	}
	return t.examine(ctx)
}

// examine describes and names the work in an entry of the trash that exists nowhere else.
func (t trashEntry) examine(ctx context.Context) (work string, items []string) {
	var rec Record
	if t.Workspace != nil {
		rec = *t.Workspace
	}
	return git.Unsaved(ctx, t.path, rec.Outside, rec.Origin.URL, rec.AccountFiles)
}

// removeOrphanedNotes removes the notes of entries that were restored, or that an operator
// took out of the trash. It leaves new notes, because a note is written before its entry is
// moved here.
func (r *Root) removeOrphanedNotes() {
	notes, _ := fs.Glob(os.DirFS(r.trash()), "*"+noteSuffix) // the pattern is well-formed
	for _, name := range notes {
		path := filepath.Join(r.trash(), name)
		info, err := os.Lstat(path)
		if err != nil || time.Since(info.ModTime()) <= time.Hour {
			continue
		}
		_, err = os.Lstat(strings.TrimSuffix(strings.TrimSuffix(path, gitSuffix), noteSuffix))
		if errors.Is(err, fs.ErrNotExist) {
			_ = os.Remove(path)
		}
	}
}

// changedSince reports whether a file below path was modified after since, or can't be
// examined.
func changedSince(ctx context.Context, path string, since time.Time) bool {
	err := filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.ModTime().After(since) {
			return errors.New("changed")
		}
		return nil
	})
	return err != nil
}

// Removed lists a project's entries in the trash, sorted by name, and examines them for
// unsaved work. It does not measure Bytes.
func (r *Root) Removed(ctx context.Context, now time.Time, project string) (list []host.Removed, err error) {
	entries, err := r.listTrash()
	if err != nil {
		return nil, err
	}
	for _, t := range entries {
		if t.Project != project {
			continue
		}
		e := host.Removed{
			Identifier: t.key,
			Path:       t.path,
			At:         t.at,
			Due:        now.Add(r.left(t, now)),
			Discarded:  t.LossAccepted,
			Restorable: t.Workspace != nil,
		}
		if e.Restorable {
			e.IssueID = t.Workspace.IssueID
			e.Identifier = t.Workspace.Identifier
		}
		e.Unsaved.Work, e.Unsaved.Items = t.unsaved(ctx)
		if t.LossAccepted && t.Unsaved != "" {
			e.Unsaved.Work = t.Unsaved
			_, e.Unsaved.Items = t.examine(ctx)
		}
		list = append(list, e)
	}
	return list, ctx.Err()
}

// Restore moves an entry of the trash back to its path, which it returns. Passes do not remove
// it before a run uses it. If it is interrupted it can be repeated.
func (r *Root) Restore(entry string) (path string, err error) {
	entries, err := r.listTrash()
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(entries, func(t trashEntry) bool { return t.path == entry && t.Workspace != nil })
	if i < 0 {
		return "", reconcile.NewError(
			CodeFailed,
			entry+" can't be restored: it is being deleted, or has no record",
			"copy what you need from it",
		)
	}
	t := entries[i]
	w, _, err := r.hold(t.Workspace.Owner)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.Release()) }()
	if w.info != nil {
		return "", reconcile.NewError(
			CodeExists,
			w.Path+" exists: a run has made it anew",
			"move it away, or copy what you need from "+t.path,
		)
	}
	rec := *t.Workspace
	rec.State = Prepared
	rec.Path = w.Path
	rec.Restored = true
	rec.Unsaved = ""
	rec.UnsavedAt = time.Time{}
	rec.KeptSince = time.Time{}
	if err := w.restoreGitFile(t.path + gitSuffix); err != nil {
		return "", files.Failed(err, "restore the git settings that are trusted in %s", w.Path)
	}
	// Of a record without a directory the next run makes a new workspace.
	if err := r.writeRecord(rec); err != nil {
		return "", err
	}
	if err := os.Rename(t.path, w.Path); err != nil {
		return "", files.Failed(err, "restore %s", w.Path)
	}
	crash.At("workspace.restore.moved")
	if err := errors.Join(durable.SyncDir(r.Path), durable.SyncDir(r.trash())); err != nil {
		return "", files.Failed(err, "restore %s", w.Path)
	}
	removeNotes(t.path)
	return w.Path, nil
}

// restoreGitFile restores GitFile from its copy, if no agent worked here since.
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
