package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// pin remembers which directory is the workspace, after checking that it is one (specification 9.5).
func (w *Workspace) pin() error {
	info, err := lookAt(w.Path)
	if err == nil && info == nil {
		err = invalidCwd(w.Path, "it is gone")
	}
	if err == nil {
		err = contained(w.Root, w.Path)
	}
	if err != nil {
		return err
	}
	w.info = info
	return nil
}

// contained checks that path, all links resolved, is what it says it is and lies strictly inside root.
func contained(root, path string) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return files.Failed(err, "resolve the workspace %s", path)
	}
	rel, err := filepath.Rel(root, real)
	if err != nil || rel == "." || !filepath.IsLocal(rel) || real != path {
		return invalidCwd(path, "not inside the workspace root "+root+" but "+real)
	}
	return nil
}

// Verify checks, right before something is started in the workspace, that its path still is the directory
// that was taken, and inside the root (specification 9.5, invariants 1 and 2). Its error is
// invalid_workspace_cwd.
func (w *Workspace) Verify() error {
	info, err := lookAt(w.Path)
	switch {
	case err != nil:
		return err
	case info == nil:
		return invalidCwd(w.Path, "it is gone")
	case !os.SameFile(info, w.info):
		return invalidCwd(w.Path, "replaced by another directory")
	}
	return contained(w.Root, w.Path)
}

// WorkDir is symphony's own directory of the workspace, with tmp and cache in it. Agents can write those only.
func (w *Workspace) WorkDir() string { return w.root.work(w.Key) }

// Ready records that the workspace may be worked in: what its previous holders left is reaped, and
// after_create has succeeded where the directory is new. Until then a crash makes the next holder start over.
// The directory that is there now is the one that Verify expects: after_create is the operator's and may have
// replaced it.
func (w *Workspace) Ready() error {
	if err := w.pin(); err != nil {
		return err
	}
	rec := w.rec
	rec.State, rec.Previous = Prepared, nil
	if err := w.root.writeRecord(rec); err != nil {
		return err
	}
	w.rec = rec
	return nil
}

// Discard takes a new workspace away whose after_create failed (specification 9.3), with its record. It
// refuses one that is not new: that is work of earlier runs. The lease stays until Release.
func (w *Workspace) Discard() error {
	if w.rec.State != Creating {
		return &reconcile.Error{Code: CodeFailed, Message: "discard " + w.Path + ": it is not new"}
	}
	var err error
	if w.info, err = lookAt(w.Path); err != nil {
		return err
	}
	// Not the context of the run: that one may be over, and the directory must not stay.
	if err := w.clear(context.Background(), false); err != nil {
		return err
	}
	return w.root.removeRecord(w.Key)
}

// Release closes the lease. Processes that inherited it keep it. Releasing again does nothing.
func (w *Workspace) Release() error {
	if err := w.lease.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return files.Failed(err, "release the lease of %s", w.Key)
	}
	return nil
}
