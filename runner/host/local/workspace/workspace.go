package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// Owner says for whom a workspace is taken. All fields are needed.
type Owner struct {
	IssueID    string
	Identifier string
	// Project is the tracker's endpoint and project: another one's workspace is never touched.
	Project  string
	StateDir string // absolute
	RunID    string
}

// Workspace is the directory of one issue (specification 4.1.4), held under its lease. It is for one
// goroutine.
type Workspace struct {
	// Path is absolute, free of symbolic links, directly below Root. TmpDir and CacheDir lie beside it and
	// outlive a run.
	Path, TmpDir, CacheDir string
	Root                   string
	Key                    string
	// ID is the random id of this directory; see Record.ID.
	ID string
	// CreatedNow: the directory was made by this call, so that after_create has to run.
	CreatedNow bool
	// Previous are the runs that held the workspace before, oldest first; usually one, none for the first.
	// What they left must be reaped before anything is started. Ready confirms that it was.
	Previous []RunRef

	root  *Root
	rec   Record
	lease *os.File
	info  fs.FileInfo // of Path: the directory that Verify expects
	// complete: it is not one whose making was cut off. Set for a removal.
	complete bool
}

// Acquire takes the workspace of an issue, making it where it is missing (specification 9.2, design section
// 7). It waits up to 2 s for the lease, then fails with workspace_busy. A workspace of another issue or
// project is workspace_foreign, and something that is no directory in its place invalid_workspace_cwd; both
// are left as they are. A workspace whose making or removal was cut off is made anew. The caller owes Release.
func (r *Root) Acquire(ctx context.Context, o Owner) (*Workspace, error) {
	w, found, err := r.hold(ctx, o)
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
func (r *Root) hold(ctx context.Context, o Owner) (w *Workspace, found bool, err error) {
	if o.IssueID == "" || o.Identifier == "" || o.Project == "" || o.StateDir == "" || o.RunID == "" {
		return nil, false, &reconcile.Error{Code: CodeInvalidCwd, Message: fmt.Sprintf("no workspace without an owner: %+v", o)}
	}
	key, err := r.KeyFor(o.Identifier)
	if err != nil {
		return nil, false, err
	}
	path, err := r.path(key)
	if err != nil {
		return nil, false, err
	}
	lease, err := r.lease(ctx, key, o)
	if err != nil {
		return nil, false, err
	}
	w = &Workspace{
		Path: path, Root: r.Path, Key: key, root: r, lease: lease,
		TmpDir: filepath.Join(r.work(key), "tmp"), CacheDir: filepath.Join(r.work(key), "cache"),
	}
	if w.rec, found, err = r.readRecord(key); err == nil && found {
		err = w.rec.belongsTo(o, path)
	}
	if err == nil {
		w.info, err = lookAt(path)
	}
	if err != nil {
		return nil, false, errors.Join(err, w.Release())
	}
	return w, found, nil
}

func (rec Record) belongsTo(o Owner, path string) error {
	if rec.IssueID == o.IssueID && rec.Project == o.Project {
		return nil
	}
	return &reconcile.Error{
		Code: CodeForeign,
		Message: fmt.Sprintf("%s belongs to issue %s (id %s) of %s, state directory %s",
			path, rec.Identifier, rec.IssueID, rec.Project, rec.StateDir),
		Hint: "give each project a workspace.root of its own, or remove that workspace first",
	}
}

// lookAt gives nil where there is nothing, and an error for anything but a real directory.
func lookAt(path string) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, files.Failed(err, "look at the workspace %s", path)
	case !info.IsDir():
		return nil, invalidCwd(path, "not a directory but "+kind(info.Mode()))
	}
	return info, nil
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "a file"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	}
	return "a device"
}

// prepare brings a held workspace into use: as it is, or made anew.
func (w *Workspace) prepare(ctx context.Context, o Owner, found bool) error {
	fresh := w.info == nil || found && w.rec.State != Prepared
	previous := w.rec.holders(o)
	if fresh {
		if err := w.clear(ctx, found && w.rec.State == Removing); err != nil {
			return err
		}
	}
	id := w.rec.ID
	if fresh || !found || w.rec.Path != w.Path {
		id = newID() // a root that was moved: a thread that worked in the old place knows the old paths
	}
	state := Prepared
	if fresh {
		state = Creating
	}
	w.rec = Record{
		IssueID: o.IssueID, Identifier: o.Identifier, Key: w.Key, Project: o.Project, StateDir: o.StateDir,
		RunID: o.RunID, ID: id, State: state, Previous: previous, Path: w.Path,
	}
	w.ID, w.Previous, w.CreatedNow = id, previous, fresh
	if err := w.root.writeRecord(w.rec); err != nil {
		return err
	}
	if fresh {
		if err := os.Mkdir(w.Path, 0o700); err != nil {
			return files.Failed(err, "make the workspace")
		}
	}
	crash.At("workspace.make.directory")
	if err := w.makeWork(); err != nil {
		return err
	}
	return w.pin()
}

// holders are the runs that o has to reap after: the last one and those that it had not confirmed.
func (rec Record) holders(o Owner) []RunRef {
	list := slices.Clone(rec.Previous)
	if rec.RunID != "" {
		list = append(list, RunRef{rec.RunID, rec.StateDir})
	}
	list = slices.DeleteFunc(list, func(p RunRef) bool { return p == RunRef{o.RunID, o.StateDir} })
	return list[max(0, len(list)-maxPrevious):]
}

// deleteTimeout bounds the deletion of leftovers while a run waits for it.
const deleteTimeout = 10 * time.Second

// clear takes away what a cut-off run left. What was on its way into the trash stays there for its time; the
// rest is worth nothing.
func (w *Workspace) clear(ctx context.Context, keep bool) error {
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	if w.info != nil {
		trashed, err := w.root.moveToTrash(w.Path, w.Key, w.root.now())
		if err != nil {
			return err
		}
		if !keep {
			_ = w.root.deleteTrash(ctx, trashed) // what is left is purged with the trash
		}
		w.info = nil
	}
	return w.clearWork(ctx)
}

// clearWork takes away tmp, cache and all else beside the workspace.
func (w *Workspace) clearWork(ctx context.Context) error {
	work := w.root.work(w.Key)
	if _, err := os.Lstat(work); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	trashed, err := w.root.moveToTrash(work, w.Key, w.root.now())
	if err != nil {
		return err
	}
	_ = w.root.deleteTrash(ctx, trashed) // what is left is purged with the trash
	return nil
}

func (w *Workspace) makeWork() error {
	work := w.root.work(w.Key)
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

// Env is what every process in the workspace is told about it, as NAME=value.
func (w *Workspace) Env() []string {
	return []string{"SYMPHONY_WORKSPACE=" + w.Path, "TMPDIR=" + w.TmpDir, "XDG_CACHE_HOME=" + w.CacheDir}
}
