package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host/local/files"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

const (
	// trashTime ends the name of an entry of the trash: when it was put there, UTC.
	trashTime = "20060102T150405.000000000Z"
	// noteSuffix ends the name of the note beside an entry.
	noteSuffix = ".note"
	maxNote    = 64 << 10 // bytes
	// RecheckUnsaved is how long a workspace with unsaved work is left alone before it is examined again.
	RecheckUnsaved = time.Hour
)

// Trash is what a project says about the removed workspaces of a root, which it may share with others.
type Trash struct {
	// Project owns what is removed from now on, and wants it kept for Keep.
	Project string
	Keep    time.Duration
	// Short: space is short, so that nothing is kept but unsaved work.
	Short bool
	// Retry examines entries with unsaved work again, however recently that was done, and tries again to delete those that
	// could not be deleted.
	Retry bool
}

// note is written beside an entry of the trash. A workspace that was removed an hour ago must not be deleted because the
// wall clock was set a year ahead, or because another project on this root keeps nothing.
type note struct {
	Boot    string        `json:"boot"`
	Mono    time.Duration `json:"mono_ns"`
	Project string        `json:"project"`
	Keep    time.Duration `json:"keep_ns"`
	// Unsaved is the work in the entry that exists nowhere else, as of Boot and Mono.
	Unsaved string `json:"unsaved,omitempty"`
	// Discard: an operator has accepted the loss of unsaved work.
	Discard bool `json:"discard,omitempty"`
	// Undeletable: it could not be deleted. Passes do not try again and again.
	Undeletable bool `json:"undeletable,omitempty"`
}

type trashEntry struct {
	path string
	at   time.Time
	note note
}

// readNote returns the note of an entry; one without is this project's.
func (r *Root) readNote(entry string) note {
	n := note{}
	b, err := files.ReadRegular(entry+noteSuffix, maxNote)
	if err != nil || json.Unmarshal(b, &n) != nil {
		return note{Project: r.Trash.Project, Keep: r.Trash.Keep}
	}
	return n
}

// writeNote precedes the entry, so that no entry is without one. If it fails, on a full disk for instance, the removal
// goes on, and the wall clock alone counts.
func (r *Root) writeNote(entry string, n note) {
	n.Boot, n.Mono, _ = r.clock()
	b, err := json.Marshal(n)
	if err == nil {
		err = os.WriteFile(entry+noteSuffix, b, 0o600)
	}
	if err != nil {
		_ = os.Remove(entry + noteSuffix)
	}
}

// moveToTrash renames a directory into the trash and returns its new path.
func (r *Root) moveToTrash(path, key string, now time.Time, discard bool) (to string, err error) {
	if err := files.OwnDir(r.trash()); err != nil {
		return "", files.Failed(err, "make the trash")
	}
	// Only an account that may write a directory can move it to another parent: its ".." changes.
	if info, statErr := os.Lstat(path); statErr == nil && info.IsDir() && info.Mode().Perm()&0o700 != 0o700 {
		err = os.Chmod(path, info.Mode().Perm()|0o700)
	}
	for taken := true; taken; now = now.Add(1) {
		to = filepath.Join(r.trash(), key+"-"+now.UTC().Format(trashTime))
		_, statErr := os.Lstat(to)
		taken = statErr == nil
	}
	if err == nil {
		r.writeNote(to, note{Project: r.Trash.Project, Keep: r.Trash.Keep, Discard: discard})
		if err = os.Rename(path, to); err != nil {
			_ = os.Remove(to + noteSuffix)
		}
	}
	if err == nil {
		crash.At("workspace.trash.renamed")
		err = errors.Join(durable.SyncDir(filepath.Dir(path)), durable.SyncDir(r.trash()))
	}
	if err != nil {
		return "", files.Failed(err, "move %s to the trash", path)
	}
	return to, nil
}

// deleteTrash deletes one entry of the trash. An entry that can't be deleted is marked, and PurgeTrash reports it.
func (r *Root) deleteTrash(ctx context.Context, path string) error {
	err := files.RemoveTree(ctx, path)
	if err == nil {
		_ = os.Remove(path + noteSuffix)
	} else if ctx.Err() == nil {
		n := r.readNote(path)
		n.Undeletable = true
		r.writeNote(path, n)
	}
	return err
}

// listTrash leaves out files whose name symphony does not write.
func (r *Root) listTrash() (list []trashEntry, err error) {
	entries, err := os.ReadDir(r.trash())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, files.Failed(err, "read the trash of %s", r.Path)
	}
	for _, e := range entries {
		name, path := e.Name(), filepath.Join(r.trash(), e.Name())
		if at, err := time.Parse(trashTime, name[max(0, len(name)-len(trashTime)):]); err == nil {
			list = append(list, trashEntry{path, at, r.readNote(path)})
		}
	}
	return list, nil
}

// due reports whether an entry has been kept for its time: by the monotonic clock where its note allows that, else by the
// wall clock. Another project's entry is kept for as long as that one asked.
func (r *Root) due(t trashEntry, now time.Time) bool {
	keep, age := r.Trash.Keep, now.Sub(t.at)
	if t.note.Project != r.Trash.Project {
		keep = t.note.Keep
	}
	if r.Trash.Short {
		keep = 0
	}
	if t.note.Unsaved != "" && !r.Trash.Retry {
		keep = max(keep, RecheckUnsaved)
	}
	if boot, mono, err := r.clock(); err == nil && boot == t.note.Boot && mono >= t.note.Mono {
		age = mono - t.note.Mono
	}
	return age >= keep || keep <= 0
}

// ExpiredTrash lists the removed workspaces that were kept for their time (workspace.keep_removed_ms) and can be
// purged, without those that could not be deleted before.
func (r *Root) ExpiredTrash(now time.Time) (paths []string, err error) {
	list, err := r.listTrash()
	for _, t := range list {
		if r.due(t, now) && (r.Trash.Retry || !t.note.Undeletable) {
			paths = append(paths, t.path)
		}
	}
	return paths, err
}

// Purged is what became of the trash.
type Purged struct {
	Removed int
	// Undeletable are paths that can't be deleted, Unsaved those that stay because of the work in them, by path.
	Undeletable []string
	Unsaved     map[string]string
}

// PurgeTrash deletes what ExpiredTrash lists. An entry with unsaved work stays, unless it is this project's and discard is
// set, and is examined again after RecheckUnsaved. It ends when ctx does, with its error; the next call continues. Concurrent calls do no harm.
func (r *Root) PurgeTrash(ctx context.Context, now time.Time, discard bool) (purged Purged, err error) {
	purged.Unsaved = map[string]string{}
	notes, _ := fs.Glob(os.DirFS(r.trash()), "*"+noteSuffix) // the pattern is well-formed
	for _, name := range notes {                             // of entries that were taken out of the trash by hand, or never arrived
		path := filepath.Join(r.trash(), name)
		if _, err := os.Lstat(strings.TrimSuffix(path, noteSuffix)); errors.Is(err, fs.ErrNotExist) {
			_ = os.Remove(path)
		}
	}
	list, err := r.listTrash()
	for _, t := range list {
		if t.note.Undeletable && !r.Trash.Retry {
			purged.Undeletable = append(purged.Undeletable, t.path)
			continue
		}
		if !r.due(t, now) {
			continue
		}
		if work := r.UnsavedInTrash(ctx, t.path, discard); work != "" && ctx.Err() == nil {
			t.note.Unsaved = work
			r.writeNote(t.path, t.note) // so that it is not examined in every pass
			purged.Unsaved[t.path] = work
			continue
		}
		err := r.deleteTrash(ctx, t.path)
		switch {
		case ctx.Err() != nil:
			return purged, fmt.Errorf("purge the trash of %s: %w", r.Path, ctx.Err())
		case err != nil:
			purged.Undeletable = append(purged.Undeletable, t.path)
		default:
			purged.Removed++
		}
	}
	return purged, err
}

// UnsavedInTrash says what work in an entry of the trash exists nowhere else. It is empty where an operator has accepted
// the loss: then, or now with discard, which is for this project's entries only.
func (r *Root) UnsavedInTrash(ctx context.Context, path string, discard bool) string {
	if n := r.readNote(path); n.Discard || discard && n.Project == r.Trash.Project {
		return ""
	}
	return git.Unsaved(ctx, path)
}

// Dissolve removes symphony's own files from a root without a workspace or project: the trash and the lock files, and the
// root itself if it is empty then. A root that is still in use, or whose trash holds unsaved work, stays as it is; the latter
// not with discard.
func (r *Root) Dissolve(ctx context.Context, discard bool) error {
	for _, pattern := range []string{"*.json", "projects/*.json"} {
		if used, err := fs.Glob(os.DirFS(r.meta()), pattern); err != nil || len(used) > 0 {
			return err
		}
	}
	list, err := r.listTrash()
	if err != nil {
		return err
	}
	for _, t := range list {
		if !discard && r.UnsavedInTrash(ctx, t.path, false) != "" {
			return nil
		}
	}
	if err := files.RemoveTree(ctx, r.meta()); err != nil {
		return files.Failed(err, "remove %s", r.meta())
	}
	_ = os.Remove(r.Path) // its maker may keep something else in it
	return nil
}
