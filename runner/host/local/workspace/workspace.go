package workspace

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// Workspace is the directory of one issue (specification 4.1.4), held under its lease. It is for one
// goroutine.
type Workspace struct {
	host.Workspace
	Key string
	// Previous are the runs that held the workspace before, oldest first; usually one, none for the first.
	// What they left must be reaped before anything is started. Ready confirms that it was.
	Previous []RunRef

	root    *Root
	rec     Record
	lease   *os.File
	info    fs.FileInfo // of Path: the directory that Verify expects
	removal *removal    // set by BeginRemoval
}

// Acquire takes the workspace of an issue, making it where it is missing (specification 9.2). It waits up to 2 s for the lease,
// then fails with workspace_busy. A workspace of another issue or project is workspace_foreign, and something that is no directory
// in its place invalid_workspace_cwd; both are left as they are. A workspace whose making or removal was cut off is made anew. The
// caller owes Release.
func (r *Root) Acquire(ctx context.Context, o Owner) (*Workspace, error) {
	w, found, err := r.hold(o)
	if err != nil {
		return nil, err
	}
	if err := w.prepare(ctx, o, found); err != nil {
		return nil, errors.Join(err, w.Release())
	}
	return w, nil
}

// hold takes the lease, reads the record (found is false where there is none) and looks at the directory. It
// changes nothing.
func (r *Root) hold(o Owner) (w *Workspace, found bool, err error) {
	key := Key(o.Identifier)
	path := filepath.Join(r.Path, key) // always a direct child of the root (specification 9.5, invariant 2)
	lease, err := r.lease(key, o)
	if err != nil {
		return nil, false, err
	}
	w = &Workspace{Key: key, root: r, lease: lease, Workspace: host.Workspace{
		Path: path, Root: r.Path, TmpDir: filepath.Join(r.work(key), "tmp"), CacheDir: filepath.Join(r.work(key), "cache"),
	}}
	w.rec, found, err = r.readRecord(key)
	if err == nil && found && (w.rec.IssueID != o.IssueID || w.rec.Project != o.Project) {
		err = &reconcile.Error{
			Code: CodeForeign,
			Message: fmt.Sprintf("%s belongs to issue %s (id %s) of %s, state directory %s",
				path, w.rec.Identifier, w.rec.IssueID, w.rec.Project, w.rec.StateDir),
			Hint: "give each project a workspace.root of its own, or remove that workspace first",
		}
	}
	if err == nil {
		w.info, err = lookAt(path)
	}
	if err != nil {
		return nil, false, errors.Join(err, w.Release())
	}
	return w, found, nil
}

// lookAt gives nil where there is nothing, and an error for anything but a real directory.
func lookAt(path string) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, files.Failed(err, "look at the workspace %s", path)
	case info.Mode().IsRegular():
		return nil, invalidCwd(path, "not a directory but a file")
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, invalidCwd(path, "not a directory but a symbolic link")
	case !info.IsDir():
		return nil, invalidCwd(path, "not a directory but a special file")
	}
	return info, nil
}

// prepare brings a held workspace into use: as it is, or made anew.
func (w *Workspace) prepare(ctx context.Context, o Owner, found bool) error {
	w.Created = w.info == nil || found && w.rec.State != Prepared
	if w.Created {
		if err := w.clear(ctx, found && w.rec.State == Removing); err != nil {
			return err
		}
	}
	id, state := w.rec.ID, Prepared
	if w.Created || !found || w.rec.Path != w.Path {
		id = newID() // a root that was moved: a thread that worked in the old place knows the old paths
	}
	if w.Created {
		state = Creating
	}
	if err := w.takeRecord(o, id, state); err != nil {
		return err
	}
	if w.Created {
		if err := os.Mkdir(w.Path, 0o700); err != nil {
			return files.Failed(err, "make the workspace")
		}
	}
	crash.At("workspace.make.directory")
	err := w.makeWork()
	if err == nil {
		w.info, err = w.look()
	}
	return err
}

func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: it ends the program instead
	return hex.EncodeToString(b[:])
}

// takeRecord writes down that a run holds the workspace. Previous are the runs that it has to reap after: the last one and those
// that this one had not confirmed.
func (w *Workspace) takeRecord(o Owner, id string, state State) error {
	list := slices.Clone(w.rec.Previous)
	if w.rec.RunID != "" {
		list = append(list, RunRef{w.rec.RunID, w.rec.StateDir})
	}
	list = slices.DeleteFunc(list, func(p RunRef) bool { return p == RunRef{o.RunID, o.StateDir} })
	w.ID, w.Previous = id, list[max(0, len(list)-maxPrevious):]
	w.rec = Record{Owner: o, Key: w.Key, ID: id, State: state, Previous: w.Previous, Path: w.Path}
	return w.root.writeRecord(w.rec)
}

// deleteTimeout bounds the deletion of leftovers while a run waits for it.
const deleteTimeout = 10 * time.Second

// clear takes away what a cut-off run left. What was on its way into the trash is kept there for its time; the rest is worth
// nothing.
func (w *Workspace) clear(ctx context.Context, keep bool) (err error) {
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	if keep && w.info != nil {
		_, err = w.root.moveToTrash(w.Path, w.Key, time.Now(), w.examine(ctx))
	} else {
		err = w.dispose(ctx, w.Path)
	}
	if err == nil {
		w.info = nil
		err = w.dispose(ctx, w.root.work(w.Key))
	}
	return err
}

// dispose deletes a directory that is worth nothing, by way of the trash. What can't be deleted is purged later.
func (w *Workspace) dispose(ctx context.Context, path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	trashed, err := w.root.moveToTrash(path, w.Key, time.Now(), note{LossAccepted: true})
	if err == nil {
		_ = w.root.deleteTrash(ctx, trashed)
	}
	return err
}

func (w *Workspace) makeWork() error {
	work := w.WorkDir()
	for _, dir := range []string{filepath.Dir(work), work, w.TmpDir, w.CacheDir} {
		if err := files.OwnDir(dir); err != nil {
			return files.Failed(err, "make %s", dir)
		}
	}
	return nil
}

// Lease is the open lock file. A process that inherits it keeps the workspace taken until it ends, whatever
// becomes of us; hand it to hooks and agent as an extra file. Release closes it.
func (w *Workspace) Lease() *os.File { return w.lease }

// WorkDir is symphony's own directory of the workspace, with tmp and cache in it. Agents can write those only.
func (w *Workspace) WorkDir() string { return w.root.work(w.Key) }

// Env is what every process in the workspace is told about it, as NAME=value.
func (w *Workspace) Env() []string {
	return []string{"SYMPHONY_WORKSPACE=" + w.Path, "TMPDIR=" + w.TmpDir, "XDG_CACHE_HOME=" + w.CacheDir}
}

// look checks that the workspace is a directory that lies, all links resolved, strictly inside the root (specification 9.5).
func (w *Workspace) look() (fs.FileInfo, error) {
	info, err := lookAt(w.Path)
	if err != nil {
		return nil, err
	}
	if info == nil {
		return nil, invalidCwd(w.Path, "it is gone")
	}
	return info, contained(w.Root, w.Path)
}

func contained(root, path string) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return files.Failed(err, "resolve the workspace %s", path)
	}
	if real != path || filepath.Dir(path) != root {
		return invalidCwd(path, "not inside the workspace root "+root+" but "+real)
	}
	return nil
}

// Verify checks, right before something is started in the workspace, that its path still is the directory
// that was taken, and inside the root (specification 9.5, invariants 1 and 2). Its error is
// invalid_workspace_cwd.
func (w *Workspace) Verify() error {
	info, err := w.look()
	if err == nil && !os.SameFile(info, w.info) {
		err = invalidCwd(w.Path, "replaced by another directory")
	}
	return err
}

// Ready records that the workspace may be worked in: what its previous holders left is reaped, and
// after_create has succeeded where the directory is new. Until then a crash makes the next holder start over.
// The directory that is there now is the one that Verify expects: after_create is the operator's and may have
// replaced it.
func (w *Workspace) Ready() (err error) {
	if w.info, err = w.look(); err != nil {
		return err
	}
	w.rec.State, w.rec.Previous = Prepared, nil
	return w.root.writeRecord(w.rec)
}

// Discard takes a new workspace away whose after_create failed (specification 9.3), with its record. It
// refuses one that is not new: that is work of earlier runs. The lease stays until Release.
func (w *Workspace) Discard() error {
	if w.rec.State != Creating {
		return &reconcile.Error{Code: CodeFailed, Message: "discard " + w.Path + ": it is not new"}
	}
	if _, err := lookAt(w.Path); err != nil {
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

// lockFile takes the exclusive flock on path, creating the file, and tries for at most wait. The error wraps files.ErrHeld where
// another process kept it. The lock ends when every copy of the returned file is closed, those that children inherited included.
func lockFile(path string, wait time.Duration) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	if err = files.Lock(f, unix.LOCK_EX, wait); err == nil {
		// The file may have been deleted meanwhile. A lock on a file without a name excludes no process.
		open, statErr := f.Stat()
		named, nameErr := os.Lstat(path)
		if err = statErr; err == nil && (nameErr != nil || !os.SameFile(open, named)) {
			err = files.ErrHeld
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Held reports whether a process holds the lease of a key: a worker, or a hook or an agent that it left. It asks with a shared
// lock and creates nothing.
func (r *Root) Held(key string) (held bool, err error) {
	f, err := os.OpenFile(r.lock(key), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = files.Lock(f, unix.LOCK_SH, 0)
		if held = errors.Is(err, files.ErrHeld); held {
			err = nil
		}
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		err = files.Failed(err, "probe the lease of %s", key)
	}
	return held, err
}

// lease takes the lease of a key for a run. Where it is taken, the error names the holder as the record tells it, which may be
// changing just now.
func (r *Root) lease(key string, o Owner) (*os.File, error) {
	f, err := lockFile(r.lock(key), r.leaseWait)
	switch {
	case err == nil:
		return f, nil
	case !errors.Is(err, files.ErrHeld):
		return nil, files.Failed(err, "take the lease of %s", key)
	}
	e := &reconcile.Error{
		Code:    CodeBusy,
		Message: "the workspace " + key + " is in use",
		Hint:    "its run, or a process that the run left, still holds the lease " + r.lock(key),
		Err:     err,
	}
	if rec, ok, err := r.readRecord(key); err == nil && ok {
		e.Message += " by run " + rec.RunID
		if rec.StateDir != o.StateDir {
			e.Message += " of " + rec.StateDir
		}
	}
	return nil, e
}
