// Package lock locks files against other processes, by flock(2). Such a lock belongs to the open
// file: processes that inherit the file hold the lock, too, and it is free as soon as all of them
// have closed the file or ended in any way.
package lock

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrHeld means that another open file holds the lock.
var ErrHeld = errors.New("held by another process")

// The kinds of locks: an exclusive lock excludes all others, a shared one only exclusive ones.
const (
	Exclusive = unix.LOCK_EX
	Shared    = unix.LOCK_SH
)

// step is the time between two attempts to lock. It is short because a probe holds a lock only for
// an instant. A context can't interrupt a blocking flock(2).
const step = 10 * time.Millisecond

// Try takes a lock on an open file; how is Exclusive or Shared. After trying for patience it
// returns ErrHeld.
func Try(f *os.File, how int, patience time.Duration) error {
	return Wait(context.Background(), f, how, patience)
}

// Wait is Try, and returns the error of ctx if that ends while the lock is held.
func Wait(ctx context.Context, f *os.File, how int, patience time.Duration) error {
	return repeat(ctx, patience, func() error { return flock(f, how) })
}

// Take opens the file of a lock, creates it if necessary, and locks it. After trying for patience
// it returns ErrHeld, and if ctx ends, its error. Each attempt opens the file anew, because a lock
// on a file that was replaced excludes no process.
func Take(ctx context.Context, path string, how int, patience time.Duration) (*os.File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var locked *os.File
	err := repeat(ctx, patience, func() error {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		if err := flock(f, how); err != nil {
			return errors.Join(err, f.Close())
		}
		locked = f
		return nil
	})
	return locked, err
}

// TakeAlone takes a lock on a file for this process, even if other processes have inherited the
// same open file. It is released when the process ends or closes the file. After trying for
// patience it returns ErrHeld, and if ctx ends, its error.
func TakeAlone(ctx context.Context, f *os.File, patience time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	whole := &unix.Flock_t{Type: unix.F_WRLCK}
	return repeat(ctx, patience, func() error {
		return failed(f, unix.FcntlFlock(f.Fd(), unix.F_SETLK, whole))
	})
}

// Release releases a lock, also for processes that have inherited the file, and closes the file.
func Release(f *os.File) error {
	return errors.Join(failed(f, unix.Flock(int(f.Fd()), unix.LOCK_UN)), f.Close())
}

func flock(f *os.File, how int) error { return failed(f, unix.Flock(int(f.Fd()), how|unix.LOCK_NB)) }

// failed returns the error of an attempt, which is ErrHeld if another open file holds the lock.
func failed(f *os.File, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
		return ErrHeld
	}
	return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
}

// repeat repeats an attempt that does not wait itself. One that a signal has interrupted is
// repeated at once.
func repeat(ctx context.Context, patience time.Duration, attempt func() error) error {
	end := time.Now().Add(patience)
	for {
		err := attempt()
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, ErrHeld), !time.Now().Before(end):
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(step):
		}
	}
}
