package proc

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

// lockStep is the time between two attempts to lock. It is short because a probe holds a lock
// only for an instant.
const lockStep = 10 * time.Millisecond

// Lock takes a flock on an open file; how is unix.LOCK_EX or LOCK_SH. After trying for wait it
// returns ErrHeld.
func Lock(f *os.File, how int, wait time.Duration) error {
	lock := func() error { return unix.Flock(int(f.Fd()), how|unix.LOCK_NB) }
	return tryFor(context.Background(), f, wait, lock)
}

// LockProcess takes a lock on a file for this process, even if other processes have inherited
// the same open file. It is released when the process ends or closes the file. After trying
// for wait it returns ErrHeld, and if ctx ends, its error.
func LockProcess(ctx context.Context, f *os.File, wait time.Duration) error {
	whole := &unix.Flock_t{Type: unix.F_WRLCK}
	lock := func() error { return unix.FcntlFlock(f.Fd(), unix.F_SETLK, whole) }
	return tryFor(ctx, f, wait, lock)
}

// tryFor repeats lock, which does not wait itself.
func tryFor(ctx context.Context, f *os.File, wait time.Duration, lock func() error) error {
	end := time.Now().Add(wait)
	for ctx.Err() == nil {
		err := lock()
		if err == nil {
			return nil
		}
		held := errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES)
		if !held && !errors.Is(err, unix.EINTR) {
			return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
		if held && time.Now().After(end) {
			return ErrHeld
		}
		time.Sleep(lockStep)
	}
	return ctx.Err()
}
