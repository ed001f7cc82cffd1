package proc

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrHeld means that another open file has the lock.
var ErrHeld = errors.New("held by another process")

// lockStep is the time between two attempts to lock. It is short because a probe holds a lock
// only for an instant.
const lockStep = 10 * time.Millisecond

// Lock takes a flock on an open file; how is unix.LOCK_EX or LOCK_SH. After trying for wait it
// returns ErrHeld.
func Lock(f *os.File, how int, wait time.Duration) error {
	return tryFor(
		context.Background(),
		f,
		wait,
		func() error { return unix.Flock(int(f.Fd()), how|unix.LOCK_NB) },
	)
}

// LockProcess takes a lock on a file for this process, even if other processes have inherited
// the same open file. It is released when the process ends or closes the file. After trying
// for wait it returns ErrHeld, and if ctx ends, its error.
func LockProcess(ctx context.Context, f *os.File, wait time.Duration) error {
	return tryFor(
		ctx,
		f,
		wait,
		func() error { return unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}) },
	)
}

// tryFor repeats lock, which does not wait itself.
func tryFor(ctx context.Context, f *os.File, wait time.Duration, lock func() error) error {
	for end := time.Now().Add(wait); ctx.Err() == nil; time.Sleep(lockStep) {
		err := lock()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES):
			return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
		case time.Now().After(end):
			return ErrHeld
		}
	}
	return ctx.Err()
}
