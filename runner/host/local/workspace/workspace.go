package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/internal/lock"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/files"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// Workspace is the directory of an issue (specification 4.1.4) whose lease is held. It must
// not be used concurrently.
type Workspace struct {
	host.Workspace
	Key string
	// Previous are the runs that held the workspace before, oldest first: usually one, for the
	// first run none. Their processes must be ended before anything is started. Ready records
	// that they are.
	Previous []RunRef

	root    *Root
	rec     Record
	lease   *os.File
	info    fs.FileInfo // of Path: the directory that Verify expects
	removal *removal    // set by BeginRemoval
}

// Acquire acquires the workspace of an issue and creates it if it is missing (specification
// 9.2). After waiting 2 s for the lease it returns workspace_busy. For a workspace of another
// issue or project it returns workspace_foreign, for a path that is not a directory
// invalid_workspace_cwd, and changes neither. If the creation or the removal of the workspace
// was interrupted, it is created again. The caller must call Release.
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

// hold takes the lease, reads the record (found is false if there is none) and checks the
// directory. It changes nothing.
func (r *Root) hold(o Owner) (w *Workspace, found bool, err error) {
	key := Key(o.Identifier)
	// a direct child of the root (specification 9.5, invariant 2)
	path := filepath.Join(r.Path, key)
	lease, err := r.lease(key, o)
	if err != nil {
		return nil, false, err
	}
	work := r.work(key)
	w = &Workspace{
		Key:   key,
		root:  r,
		lease: lease,
		Workspace: host.Workspace{
			Path:     path,
			Root:     r.Path,
			TmpDir:   filepath.Join(work, "tmp"),
			CacheDir: filepath.Join(work, "cache"),
			Hooks: host.Dirs{
				Tmp:   filepath.Join(work, "hooks", "tmp"),
				Cache: filepath.Join(work, "hooks", "cache"),
			},
			Agent: host.Dirs{
				Tmp:   filepath.Join(work, "agent", "tmp"),
				Cache: filepath.Join(work, "agent", "cache"),
			},
		},
	}
	found, err = w.readOwn(o)
	if err != nil {
		return nil, false, errors.Join(err, w.Release())
	}
	return w, found, nil
}

// readOwn reads the record of a workspace that must belong to an issue, and looks at the
// directory. found is false if there is no record.
func (w *Workspace) readOwn(o Owner) (found bool, err error) {
	w.rec, found, err = w.root.Record(w.Key)
	if err != nil {
		return false, err
	}
	if found {
		if err := w.rec.checkOwner(w.Path, o); err != nil {
			return true, err
		}
	}
	w.info, err = lookAt(w.Path)
	return found, err
}

// lookAt returns nil if nothing is at path, and an error for anything but a real directory. It
// gives the directory back the rights that an agent may have taken from it.
func lookAt(path string) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, files.Failed(err, "check the workspace %s", path)
	}
	switch {
	case info.Mode().IsRegular():
		return nil, invalidCwd(path, "it is a file, not a directory")
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, invalidCwd(path, "it is a symbolic link, not a directory")
	case !info.IsDir():
		return nil, invalidCwd(path, "it is a special file, not a directory")
	case info.Mode().Perm()&0o700 == 0o700:
		return info, nil
	}
	if err := os.Chmod(path, info.Mode().Perm()|0o700); err != nil {
		return nil, files.Failed(err, "open the workspace %s", path)
	}
	info, err = os.Lstat(path)
	return info, files.Failed(err, "check the workspace %s", path)
}

// prepare makes a held workspace usable, and creates it if necessary.
func (w *Workspace) prepare(ctx context.Context, o Owner, found bool) error {
	w.Created = w.info == nil || found && w.rec.State != Prepared
	if w.Created {
		if err := w.clear(ctx, found && w.rec.State == Removing); err != nil {
			return err
		}
	}
	id := w.rec.ID
	state := Prepared
	if w.Created || !found || w.rec.Path != w.Path {
		// the root was moved: a thread that worked in the old place knows the old paths
		id = rand.Text()
	}
	if w.Created {
		state = Creating
	}
	if err := w.takeRecord(o, id, state); err != nil {
		return err
	}
	if w.Created {
		if err := os.Mkdir(w.Path, 0o700); err != nil {
			return files.Failed(err, "create the workspace")
		}
	}
	crash.At("workspace.make.directory")
	if err := w.makeWork(); err != nil {
		return err
	}
	info, err := w.look()
	if err != nil {
		return err
	}
	w.info = info
	return nil
}

// takeRecord records that a run holds the workspace. Previous are the runs whose processes it
// must end: the last run, and earlier runs whose end the last did not confirm.
func (w *Workspace) takeRecord(o Owner, id string, state State) error {
	list := slices.Clone(w.rec.Previous)
	if w.rec.RunID != "" {
		list = append(list, RunRef{w.rec.RunID, w.rec.StateDir})
	}
	list = slices.DeleteFunc(list, func(p RunRef) bool { return p == RunRef{o.RunID, o.StateDir} })
	w.ID = id
	w.Previous = list[max(0, len(list)-maxPrevious):]
	origin := w.rec.Origin
	if state == Creating {
		origin = host.Origin{}
	}
	w.rec = Record{
		Owner:        o,
		Key:          w.Key,
		ID:           id,
		State:        state,
		Previous:     w.Previous,
		Path:         w.Path,
		Outside:      w.rec.Outside,
		Origin:       origin,
		Began:        w.rec.Began,
		GitDir:       w.rec.GitDir,
		AccountFiles: w.rec.AccountFiles,
	}
	return w.root.writeRecord(w.rec)
}

// Origin returns the repository that the workspace was cloned from.
func (w *Workspace) Origin() host.Origin { return w.rec.Origin }

// Clone returns symphony's knowledge of the clone in the workspace.
func (w *Workspace) Clone() git.Clone { return w.rec.clone() }

// SetOrigin records the repository that the workspace was cloned from.
func (w *Workspace) SetOrigin(o host.Origin) error {
	w.rec.Origin = o
	return w.root.writeRecord(w.rec)
}

// deleteTimeout limits the deletion of leftovers, because a run waits for it.
const deleteTimeout = 10 * time.Second

// clear removes the leftovers of an interrupted run. With keep, the workspace was being
// removed, and is kept in the trash for its time; otherwise its creation was incomplete, and
// it is deleted.
func (w *Workspace) clear(ctx context.Context, keep bool) error {
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	if keep && w.info != nil {
		if _, err := w.root.moveToTrash(w.Path, w.Key, time.Now(), w.examine(ctx)); err != nil {
			return err
		}
	} else if err := w.dispose(ctx, w.Path); err != nil {
		return err
	}
	w.info = nil
	return w.dispose(ctx, w.root.work(w.Key))
}

// dispose moves a directory that need not be kept into the trash and deletes it there. Files
// that can't be deleted are purged later.
func (w *Workspace) dispose(ctx context.Context, path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	trashed, err := w.root.moveToTrash(path, w.Key, time.Now(), note{LossAccepted: true})
	if err != nil {
		return err
	}
	_ = w.root.DeleteTrash(ctx, trashed)
	return nil
}

// makeWork makes symphony's directories for the workspace.
func (w *Workspace) makeWork() error {
	work := w.WorkDir()
	dirs := []string{filepath.Dir(work), work, w.TmpDir, w.CacheDir}
	for _, own := range []host.Dirs{w.Hooks, w.Agent} {
		dirs = append(dirs, filepath.Dir(own.Tmp), own.Tmp, own.Cache)
	}
	for _, dir := range dirs {
		if err := files.OwnDir(dir); err != nil {
			return files.Failed(err, "create %s", dir)
		}
	}
	return nil
}

// Lease is the open lock file. Hooks and the agent inherit it, and each of them keeps the
// lease until it ends, even if this process ended. Release closes it.
func (w *Workspace) Lease() *os.File { return w.lease }

// WorkDir is symphony's directory for the workspace. Agents can write only to tmp and cache in
// it.
func (w *Workspace) WorkDir() string { return w.root.work(w.Key) }

// GitFile is the path of the snapshot of trusted git settings, which is kept with a removed
// workspace.
func (w *Workspace) GitFile() string { return w.root.gitFile(w.Key) }

// MirrorsDir contains the mirrors of repositories that the workspaces of the root share.
// Agents can't write there.
func (w *Workspace) MirrorsDir() string { return w.root.MirrorsDir() }

// MirrorsDir is the directory of mirrors that the workspaces of the root share.
func (r *Root) MirrorsDir() string { return filepath.Join(r.meta(), "mirrors") }

// Env returns the variables that describe the workspace to its hooks, as NAME=value.
func (w *Workspace) Env() []string {
	return []string{
		"SYMPHONY_WORKSPACE=" + w.Path,
		"TMPDIR=" + w.Hooks.Tmp,
		"XDG_CACHE_HOME=" + w.Hooks.Cache,
	}
}

// look checks that the workspace is a directory and, with all links resolved, strictly inside
// the root (specification 9.5).
func (w *Workspace) look() (fs.FileInfo, error) {
	info, err := lookAt(w.Path)
	if err != nil {
		return nil, err
	}
	if info == nil {
		return nil, reconcile.NewError(CodeGone, w.Path+" does not exist any more", "")
	}
	return info, contained(w.Root, w.Path)
}

// contained returns an error unless a path contains no links and is directly below the root.
func contained(root, path string) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return files.Failed(err, "resolve the workspace %s", path)
	}
	if real != path || filepath.Dir(path) != root {
		return invalidCwd(path, "it leads to "+real+", outside the workspace root "+root)
	}
	return nil
}

// Verify checks that the path is still the directory that was acquired, and inside the root
// (specification 9.5, invariants 1 and 2). It is called directly before something is started
// in the workspace. Its error is invalid_workspace_cwd, or workspace_gone.
func (w *Workspace) Verify() error {
	info, err := w.look()
	if err != nil {
		return err
	}
	if !os.SameFile(info, w.info) {
		return invalidCwd(w.Path, "it was replaced by another directory")
	}
	return nil
}

// Ready records that the workspace is ready for work: the processes of previous holders ended,
// and after_create succeeded if the directory is new. After a crash before Ready, the next
// holder starts over. From now on Verify expects the directory that exists now, because the
// operator's after_create may have replaced it.
func (w *Workspace) Ready() error {
	info, err := w.look()
	w.info = info
	if err != nil {
		return err
	}
	if w.rec.State == Creating {
		ctx := context.Background()
		w.rec.Outside = git.OutsideFiles(ctx, w.Path)
		w.rec.Began, w.rec.Beside = git.Began(ctx, w.Path)
		w.rec.GitDir = git.Elsewhere(w.Path)
	}
	w.rec.State = Prepared
	w.rec.Previous = nil
	return w.root.writeRecord(w.rec)
}

// SetAccountFiles records those of the agent's git.
func (w *Workspace) SetAccountFiles(account git.AccountFiles) error {
	if w.rec.AccountFiles == account {
		return nil
	}
	w.rec.AccountFiles = account
	return w.root.writeRecord(w.rec)
}

// Discard deletes a new workspace whose after_create failed (specification 9.3), and its
// record. It refuses a workspace that is not new, because that contains work of earlier runs.
// The lease is held until Release.
func (w *Workspace) Discard() error {
	if w.rec.State != Creating {
		return &reconcile.Error{Code: CodeFailed, Message: "discard " + w.Path + ": it is not new"}
	}
	if _, err := lookAt(w.Path); err != nil {
		return err
	}
	// The context of the run may have ended, and the directory must be deleted anyway.
	if err := w.clear(context.Background(), false); err != nil {
		return err
	}
	return w.root.removeRecord(w.Key)
}

// Release closes the lease. Processes that inherited it keep it. A second call does nothing.
func (w *Workspace) Release() error {
	if err := w.lease.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return files.Failed(err, "release the lease of %s", w.Key)
	}
	return nil
}

// lockFile creates the file if necessary and takes an exclusive flock on it. If another
// process still holds it after wait, the error wraps lock.ErrHeld. The lock ends when all
// copies of the returned file are closed, also in children.
func lockFile(path string, wait time.Duration) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock.Try(f, lock.Exclusive, wait); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := checkNamed(f, path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// checkNamed returns lock.ErrHeld unless an open file is still the file at a path. It may have
// been deleted in between, and a lock on a deleted file excludes no process.
func checkNamed(f *os.File, path string) error {
	open, err := f.Stat()
	if err != nil {
		return err
	}
	named, err := os.Lstat(path)
	if err != nil || !os.SameFile(open, named) {
		return lock.ErrHeld
	}
	return nil
}

// Held reports whether a process holds the lease of a key: a worker, or a hook or agent that
// outlived its worker. It probes with a shared lock and creates nothing.
func (r *Root) Held(key string) (held bool, err error) {
	f, err := os.OpenFile(r.lock(key), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, files.Failed(err, "probe the lease of %s", key)
	}
	err = lock.Try(f, lock.Shared, 0)
	if errors.Is(err, lock.ErrHeld) {
		held = true
		err = nil
	}
	return held, files.Failed(errors.Join(err, f.Close()), "probe the lease of %s", key)
}

// lease takes the lease of a key for a run. If another run holds it, the error names the
// holder from the record, which may be changing at this moment.
func (r *Root) lease(key string, o Owner) (*os.File, error) {
	f, err := lockFile(r.lock(key), r.leaseWait)
	if err == nil {
		return f, nil
	}
	if !errors.Is(err, lock.ErrHeld) {
		return nil, files.Failed(err, "take the lease of %s", key)
	}
	busy := reconcile.NewError(CodeBusy, "the workspace "+key+" is in use",
		"a process holds the lease "+r.lock(key)).WithCause(err)
	rec, ok, err := r.Record(key)
	if err == nil && ok {
		busy.Message += " by run " + rec.RunID
		if rec.StateDir != o.StateDir {
			busy.Message += " of " + rec.StateDir
		}
	}
	return nil, busy
}
