package workspace

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// leaseRetry is how often a lease is tried for: a probe holds one for an instant only.
const leaseRetry = 10 * time.Millisecond

// errHeld says that another open file has the lock.
var errHeld = errors.New("held by another process")

// lockFile takes the exclusive flock on path, creating the file, and tries for at most wait. The error wraps errHeld where
// another process kept it. The lock ends when every copy of the returned file is closed, those that children inherited included.
func lockFile(path string, wait time.Duration) (*os.File, error) {
	for deadline := time.Now().Add(wait); ; time.Sleep(leaseRetry) {
		f, err := tryLock(path)
		if !errors.Is(err, errHeld) || time.Now().After(deadline) {
			return f, err
		}
	}
}

func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	if err = flock(f, unix.LOCK_EX); err == nil {
		// The file may have been deleted between the two calls. A lock on a file without a name excludes no process.
		open, statErr := f.Stat()
		named, nameErr := os.Lstat(path)
		if err = statErr; err == nil && (nameErr != nil || !os.SameFile(open, named)) {
			err = errHeld
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func flock(f *os.File, how int) error {
	err := files.Retry(func() error { return unix.Flock(int(f.Fd()), how|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errHeld
	}
	if err != nil {
		return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return nil
}

// Held reports whether a process holds the lease of a key: a worker, or a hook or an agent that it left. It
// asks with a shared lock and creates nothing (design section 8).
func (r *Root) Held(key string) (held bool, err error) {
	f, err := os.OpenFile(r.lock(key), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = flock(f, unix.LOCK_SH)
		if held = errors.Is(err, errHeld); held {
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
	case !errors.Is(err, errHeld):
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
