package project

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// ownerKey is where a database keeps whose it is: the resolved path of the workflow.
const OwnerKey = "workflow_path"

// owner reads whose the state directory is, and refuses one of another workflow: a pass would let go of all
// that the other has claimed. A workflow that was moved takes its state along.
func OwnerPath(ctx context.Context, p *Project, db *state.DB) (path string, err error) {
	path, known, err := db.Meta(ctx, OwnerKey)
	switch {
	case err != nil || !known || path == p.Path:
		return path, err
	case p.SourceErr != nil:
		return path, p.SourceErr // not there, and it never was this directory's
	}
	theirs, err := os.Stat(path)
	if err != nil {
		return path, nil //nolint:nilerr // it is gone: the workflow was moved
	}
	if ours, err := os.Stat(p.Path); err == nil && os.SameFile(ours, theirs) {
		return path, nil
	}
	return path, &reconcile.Error{
		Code: "state_conflict", Message: fmt.Sprintf("the state directory %s belongs to %s, not to %s", p.StateDir, path, p.Path),
		Hint: "give each workflow a state directory of its own: leave --state-dir and SYMPHONY_STATE_DIR out, or name another",
	}
}

// original refuses a copy beside the directory it was made of. What the copy says of workers and processes is true of
// the original's: a pass would take them for dead, because their locks are held elsewhere, and end what belongs to them.
// A copy on another machine, or where the original is gone, is the one that counts.
func OriginalPath(ctx context.Context, p *Project, db *state.DB) (path string, err error) {
	path, known, err := db.Meta(ctx, placeKey)
	if err != nil || !known || path == p.StateDir {
		return path, err
	}
	theirs, err := os.Stat(filepath.Join(path, "state.db"))
	if err != nil {
		return path, nil //nolint:nilerr // it is gone: the directory was moved, or has come from elsewhere
	}
	if ours, err := os.Stat(filepath.Join(p.StateDir, "state.db")); err == nil && os.SameFile(ours, theirs) {
		return path, nil
	}
	return path, &reconcile.Error{
		Code: "state_conflict", Message: fmt.Sprintf("the state directory %s is a copy of %s, which is still there", p.StateDir, path),
		Hint: "use " + path + ", or move it away while nothing runs",
	}
}

// own makes the state directory this workflow's.
func TakeOwnership(ctx context.Context, p *Project, db *state.DB) error {
	place, err := OriginalPath(ctx, p, db)
	if err == nil && place != p.StateDir {
		err = db.SetMeta(ctx, placeKey, p.StateDir)
	}
	if err != nil {
		return err
	}
	path, err := OwnerPath(ctx, p, db)
	if err != nil || path == p.Path || p.SourceErr != nil {
		return err
	}
	return db.SetMeta(ctx, OwnerKey, p.Path)
}

// placeKey is where a database keeps the path of its directory.
const placeKey = "state_dir"
