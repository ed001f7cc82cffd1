package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/files"
	"golang.org/x/sys/unix"
)

// leaseRetry is how often a lease is tried for: a probe holds one for an instant only.
const leaseRetry = 10 * time.Millisecond

// errHeld says that another open file has the lock.
var errHeld = errors.New("held by another process")

// lockFile takes the exclusive flock on path, creating the file, and tries for at most wait. The error wraps
// errHeld where another process kept it, or is the context's. The lock ends when every copy of the returned
// file is closed, those that children inherited included.
func lockFile(ctx context.Context, path string, wait time.Duration) (*os.File, error) {
	deadline := time.Now().Add(wait)
	for {
		f, err := tryLock(path)
		if !errors.Is(err, errHeld) || time.Now().After(deadline) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(leaseRetry):
		}
	}
}

func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(f, unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	// The file may have been deleted between the two calls. A lock on a file without a name excludes no process.
	open, err := f.Stat()
	if err == nil && !open.Mode().IsRegular() {
		err = &fs.PathError{Op: "lock", Path: path, Err: errors.New("not a regular file")}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if named, err := os.Lstat(path); err != nil || !os.SameFile(open, named) {
		return nil, errors.Join(errHeld, f.Close())
	}
	return f, nil
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return errHeld
		case err != nil:
			return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
		return nil
	}
}

// Held reports whether a process holds the lease of a key: a worker, or a hook or an agent that it left. It
// asks with a shared lock and creates nothing (design section 8).
func (r *Root) Held(key string) (bool, error) {
	f, err := os.OpenFile(r.lock(key), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, files.Failed(err, "probe the lease of %s", key)
	}
	err = flock(f, unix.LOCK_SH)
	held := errors.Is(err, errHeld)
	if held {
		err = nil
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return held, files.Failed(err, "probe the lease of %s", key)
	}
	return held, nil
}

// lease takes the lease of a key for a run.
func (r *Root) lease(ctx context.Context, key string, o Owner) (*os.File, error) {
	f, err := lockFile(ctx, r.lock(key), r.leaseWait)
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, errHeld):
		return nil, r.busy(key, o, err)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("wait for the lease of %s: %w", key, err)
	}
	return nil, files.Failed(err, "take the lease of %s", key)
}

// busy names the holder where the record tells. It may be changing just now, so that it is only a hint.
func (r *Root) busy(key string, o Owner, cause error) error {
	e := &reconcile.Error{
		Code:    CodeBusy,
		Message: "the workspace " + key + " is in use",
		Hint:    "its run, or a process that the run left, still holds the lease " + r.lock(key),
		Err:     cause,
	}
	if rec, ok, err := r.readRecord(key); err == nil && ok {
		e.Message += " by run " + rec.RunID
		if rec.StateDir != o.StateDir {
			e.Message += " of " + rec.StateDir
		}
	}
	return e
}
