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
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host/local/files"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

const (
	// trashTime ends the name of an entry of the trash: when it was put there, UTC.
	trashTime = "20060102T150405.000000000Z"
	// stuckSuffix marks an entry that could not be deleted, so that passes don't try it again and again.
	stuckSuffix = ".stuck"
	// noteSuffix ends the name of the note beside an entry.
	noteSuffix = ".note"
	maxNote    = 64 << 10 // bytes
	// clockSlack is by how much wall clocks are commonly set back.
	clockSlack = time.Minute
	// RecheckUnsaved is how long a workspace with unsaved work is left alone before it is examined again.
	RecheckUnsaved = time.Hour
)

// Trash is what a project says about the removed workspaces of a root, which it may share with others.
type Trash struct {
	// Clock tells how long they have been kept. Nil: the wall clock does.
	Clock Clock
	// Project owns what is removed from now on, and wants it kept for Keep.
	Project string
	Keep    time.Duration
	// Recheck examines entries with unsaved work again, however recently that was done.
	Recheck bool
}

// Clock reads the clock that neither a suspend nor a step of the wall clock moves. Readings can be compared where boot
// is the same.
type Clock func() (boot string, mono time.Duration, err error)

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
}

type trashEntry struct {
	path  string
	at    time.Time
	stuck bool
}

func (t trashEntry) note() (n note) {
	b, err := files.ReadRegular(strings.TrimSuffix(t.path, stuckSuffix)+noteSuffix, maxNote)
	if err != nil || json.Unmarshal(b, &n) != nil {
		return note{}
	}
	return n
}

// writeNote precedes the entry, so that no entry is without one. If it fails, on a full disk for instance, the removal
// goes on, and the wall clock alone counts.
func (r *Root) writeNote(entry string, n note) {
	if r.Trash.Clock != nil {
		if boot, mono, err := r.Trash.Clock(); err == nil {
			n.Boot, n.Mono = boot, mono
		}
	}
	path := strings.TrimSuffix(entry, stuckSuffix) + noteSuffix
	b, err := json.Marshal(n)
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		_ = os.Remove(path)
	}
}

func (r *Root) removeNote(entry string) {
	_ = os.Remove(strings.TrimSuffix(entry, stuckSuffix) + noteSuffix)
}

// moveToTrash renames a directory into the trash and returns its new path.
func (r *Root) moveToTrash(path, key string, now time.Time) (string, error) {
	return r.moveWithNote(path, key, now, note{Project: r.Trash.Project, Keep: r.Trash.Keep})
}

func (r *Root) moveWithNote(path, key string, now time.Time, n note) (string, error) {
	if err := files.OwnDir(r.trash()); err != nil {
		return "", files.Failed(err, "make the trash")
	}
	// Only an account that may write a directory can move it to another parent: its ".." changes.
	if info, err := os.Lstat(path); err == nil && info.IsDir() && info.Mode().Perm()&0o700 != 0o700 {
		if err := os.Chmod(path, info.Mode().Perm()|0o700); err != nil {
			return "", files.Failed(err, "move %s to the trash", path)
		}
	}
	for ; ; now = now.Add(1) {
		to := filepath.Join(r.trash(), key+"-"+now.UTC().Format(trashTime))
		if _, err := os.Lstat(to); err == nil {
			continue
		}
		r.writeNote(to, n)
		if err := os.Rename(path, to); err != nil {
			r.removeNote(to)
			return "", files.Failed(err, "move %s to the trash", path)
		}
		crash.At("workspace.trash.renamed")
		if err := errors.Join(durable.SyncDir(filepath.Dir(path)), durable.SyncDir(r.trash())); err != nil {
			return "", files.Failed(err, "move %s to the trash", path)
		}
		return to, nil
	}
}

// deleteTrash deletes one entry of the trash. An entry that can't be deleted is marked, and PurgeTrash reports it.
func (r *Root) deleteTrash(ctx context.Context, path string) error {
	err := files.RemoveTree(ctx, path)
	if err == nil {
		r.removeNote(path)
	}
	if err == nil || ctx.Err() != nil || strings.HasSuffix(path, stuckSuffix) {
		return err
	}
	return errors.Join(err, os.Rename(path, path+stuckSuffix))
}

// listTrash leaves out files whose name symphony does not write.
func (r *Root) listTrash() ([]trashEntry, error) {
	entries, err := os.ReadDir(r.trash())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, files.Failed(err, "read the trash of %s", r.Path)
	}
	var list []trashEntry
	for _, e := range entries {
		name, isStuck := strings.CutSuffix(e.Name(), stuckSuffix)
		if len(name) <= len(trashTime) {
			continue
		}
		at, err := time.Parse(trashTime, name[len(name)-len(trashTime):])
		if err == nil {
			list = append(list, trashEntry{filepath.Join(r.trash(), e.Name()), at, isStuck})
		}
	}
	return list, nil
}

// due reports whether an entry has been kept for its time: by the monotonic clock where its note allows that, else by the
// wall clock. Another project's entry is kept for as long as that one asked, unless space is short: then keep is less
// than what this project asks for. An entry from the future, which only a clock that was set back can make, is to be
// redated.
func (r *Root) due(t trashEntry, now time.Time, keep time.Duration) (due, redate bool) {
	n := t.note()
	if n.Project != "" && n.Project != r.Trash.Project && keep >= r.Trash.Keep {
		keep = n.Keep
	}
	if n.Unsaved != "" && !r.Trash.Recheck {
		keep = max(keep, RecheckUnsaved)
	}
	if r.Trash.Clock != nil && n.Boot != "" {
		if boot, mono, err := r.Trash.Clock(); err == nil && boot == n.Boot && mono >= n.Mono {
			return mono-n.Mono >= keep, false
		}
	}
	age := now.Sub(t.at)
	return age >= keep || keep <= 0, age < -clockSlack && keep > 0
}

// redate lets an entry from the future be kept for its time from now on.
func (r *Root) redate(t trashEntry, now time.Time) error {
	name := strings.TrimSuffix(filepath.Base(t.path), stuckSuffix)
	n := t.note()
	if n.Project == "" {
		n.Project, n.Keep = r.Trash.Project, r.Trash.Keep
	}
	to, err := r.moveWithNote(t.path, name[:len(name)-len(trashTime)-1], now, n)
	if err != nil {
		return err
	}
	r.removeNote(t.path)
	if t.stuck {
		return os.Rename(to, to+stuckSuffix)
	}
	return nil
}

// removeLostNotes removes the notes of entries that were taken out of the trash by hand, or never arrived.
func (r *Root) removeLostNotes(list []trashEntry) {
	entries, _ := os.ReadDir(r.trash()) // it was listed a moment ago
	for _, e := range entries {
		name, isNote := strings.CutSuffix(e.Name(), noteSuffix)
		entry := filepath.Join(r.trash(), name)
		if isNote && !slices.ContainsFunc(list, func(t trashEntry) bool { return strings.TrimSuffix(t.path, stuckSuffix) == entry }) {
			r.removeNote(entry)
		}
	}
}

// ExpiredTrash lists the removed workspaces that were kept for their time (workspace.keep_removed_ms) and can be
// purged, without those that could not be deleted before.
func (r *Root) ExpiredTrash(now time.Time, keep time.Duration) ([]string, error) {
	list, err := r.listTrash()
	var paths []string
	for _, t := range list {
		if due, redate := r.due(t, now, keep); !t.stuck && (due || redate) {
			paths = append(paths, t.path)
		}
	}
	return paths, err
}

// Purge says what PurgeTrash deletes.
type Purge struct {
	Now  time.Time
	Keep time.Duration
	// All includes entries that are not due or could not be deleted before, Discard those with unsaved work.
	All, Discard bool
}

// Purged is what became of the trash.
type Purged struct {
	Removed int
	// Undeletable are paths that can't be deleted, Unsaved those that stay because of what Unsaved (the function) found.
	Undeletable []string
	Unsaved     []UnsavedPath
}

// UnsavedPath is a directory with the work in it that exists nowhere else.
type UnsavedPath struct{ Path, Work string }

// PurgeTrash deletes what ExpiredTrash lists. An entry with unsaved work stays, however short space is, and is examined
// again after RecheckUnsaved. It ends when ctx does, with its error; the next call continues. Concurrent calls do no
// harm.
func (r *Root) PurgeTrash(ctx context.Context, p Purge) (purged Purged, err error) {
	list, err := r.listTrash()
	if err != nil {
		return purged, err
	}
	r.removeLostNotes(list)
	for _, t := range list {
		due, redate := r.due(t, p.Now, p.Keep)
		switch {
		case !p.All && t.stuck:
			purged.Undeletable = append(purged.Undeletable, t.path)
			continue
		case !p.All && redate:
			if err := r.redate(t, p.Now); err != nil {
				return purged, err
			}
			continue
		case !p.All && !due:
			continue
		}
		if work := r.unsavedEntry(ctx, t, p.Discard); work != "" && ctx.Err() == nil {
			purged.Unsaved = append(purged.Unsaved, UnsavedPath{t.path, work})
			continue
		}
		err := r.deleteTrash(ctx, t.path)
		switch {
		case ctx.Err() != nil:
			return purged, fmt.Errorf("purge the trash of %s: %w", r.Path, ctx.Err())
		case err != nil:
			purged.Undeletable = append(purged.Undeletable, strings.TrimSuffix(t.path, stuckSuffix)+stuckSuffix)
		default:
			purged.Removed++
		}
	}
	return purged, nil
}

// UnsavedInTrash says what work in an entry of the trash exists nowhere else. It is empty where an operator has accepted
// the loss.
func (r *Root) UnsavedInTrash(ctx context.Context, path string) string {
	if (trashEntry{path: path}).note().Discard {
		return ""
	}
	return git.Unsaved(ctx, path)
}

// unsavedEntry is the unsaved work of an entry, which is noted so that the entry is not examined in every pass.
func (r *Root) unsavedEntry(ctx context.Context, t trashEntry, discard bool) string {
	if discard {
		return ""
	}
	n, work := t.note(), r.UnsavedInTrash(ctx, t.path)
	if work != "" && ctx.Err() == nil {
		if n.Project == "" {
			n.Project, n.Keep = r.Trash.Project, r.Trash.Keep
		}
		n.Unsaved = work
		r.writeNote(t.path, n)
	}
	return work
}
