package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

// trashTime ends the name of what is in the trash: when it was put there, UTC.
const trashTime = "20060102T150405.000000000Z"

// stuck marks what could not be deleted, so that passes don't try it for ever.
const stuck = ".stuck"

// moveToTrash renames a directory of ours into the trash and returns where it is now.
func (r *Root) moveToTrash(path, key string, now time.Time) (string, error) {
	if err := ownDir(r.trash()); err != nil {
		return "", failed(err, "make the trash")
	}
	// A directory can be moved to another one only by who may write it (its ".." changes).
	if info, err := os.Lstat(path); err == nil && info.IsDir() && info.Mode().Perm()&0o700 != 0o700 {
		if err := os.Chmod(path, info.Mode().Perm()|0o700); err != nil {
			return "", failed(err, "move %s to the trash", path)
		}
		crash.At("workspace.trash.opened")
	}
	for ; ; now = now.Add(1) {
		to := filepath.Join(r.trash(), key+"-"+now.UTC().Format(trashTime))
		if _, err := os.Lstat(to); err == nil {
			continue
		}
		r.writeNote(to)
		crash.At("workspace.trash.noted")
		if err := os.Rename(path, to); err != nil {
			r.removeNote(to)
			return "", failed(err, "move %s to the trash", path)
		}
		crash.At("workspace.trash.renamed")
		if err := errors.Join(durable.SyncDir(filepath.Dir(path)), durable.SyncDir(r.trash())); err != nil {
			return "", failed(err, "move %s to the trash", path)
		}
		return to, nil
	}
}

// dispose deletes what was put into the trash just now. What can't be deleted stays there marked, and
// PurgeTrash reports it; what the context left is purged with the rest.
func (r *Root) dispose(ctx context.Context, path string) {
	_ = r.deleteTrash(ctx, path)
}

// deleteTrash deletes one entry of the trash and marks it where it can't be.
func (r *Root) deleteTrash(ctx context.Context, path string) error {
	err := removeTree(ctx, path)
	if err == nil {
		r.removeNote(path)
	}
	if err == nil || ctx.Err() != nil || strings.HasSuffix(path, stuck) {
		return err
	}
	return errors.Join(err, os.Rename(path, path+stuck))
}

type trashed struct {
	path  string
	at    time.Time
	stuck bool
}

// listTrash leaves out what has no name of ours.
func (r *Root) listTrash() ([]trashed, error) {
	entries, err := os.ReadDir(r.trash())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, failed(err, "read the trash of %s", r.Path)
	}
	var list []trashed
	for _, e := range entries {
		name, isStuck := strings.CutSuffix(e.Name(), stuck)
		if len(name) <= len(trashTime) {
			continue
		}
		at, err := time.Parse(trashTime, name[len(name)-len(trashTime):])
		if err == nil {
			list = append(list, trashed{filepath.Join(r.trash(), e.Name()), at, isStuck})
		}
	}
	return list, nil
}

// ExpiredTrash gives the paths of removed workspaces that were kept for their time (workspace.keep_removed_ms)
// and can be purged. What could not be deleted before is not among them.
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

// PurgeTrash deletes what ExpiredTrash gives, or with all everything, what could not be deleted before
// included. It counts what is gone and names what can't be deleted, now or earlier. It ends when ctx does,
// with its error; the rest is left for the next time. Two at once do no harm.
func (r *Root) PurgeTrash(ctx context.Context, now time.Time, keep time.Duration, all bool) (
	removed int, undeletable []string, err error,
) {
	list, err := r.listTrash()
	if err != nil {
		return 0, nil, err
	}
	r.removeLostNotes(list)
	for _, t := range list {
		due, redate := r.due(t, now, keep)
		switch {
		case !all && t.stuck:
			undeletable = append(undeletable, t.path)
			continue
		case !all && redate:
			if err := r.redate(t, now); err != nil {
				return removed, undeletable, err
			}
			continue
		case !all && !due:
			continue
		}
		err := r.deleteTrash(ctx, t.path)
		switch {
		case ctx.Err() != nil:
			return removed, undeletable, fmt.Errorf("purge the trash of %s: %w", r.Path, ctx.Err())
		case err != nil:
			undeletable = append(undeletable, strings.TrimSuffix(t.path, stuck)+stuck)
		default:
			removed++
		}
	}
	return removed, undeletable, nil
}
