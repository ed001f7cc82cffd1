package lock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/test"
)

// A signal that interrupts an attempt ends no wait, and is no refusal.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	file := test.Must(os.Create(filepath.Join(t.TempDir(), "lock")))
	defer file.Close()
	for _, patience := range []time.Duration{0, time.Second} {
		results := []error{unix.EINTR, unix.EINTR, nil}
		attempts := 0
		err := repeat(t.Context(), patience, func() error {
			attempts++
			return failed(file, results[attempts-1])
		})
		test.OK(t, err)
		test.Equal(t, "attempts", attempts, len(results))
	}
}

// A lock excludes others until it is released, and a wait for it ends with its context.
func TestTake(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	take := func(how int) (*os.File, error) { return Take(t.Context(), path, how, step/2) }
	first := test.Must(take(Shared))
	second := test.Must(take(Shared))
	test.ErrorIs(t, "beside shared locks", test.Err(take(Exclusive)), ErrHeld)
	test.OK(t, Release(first))
	test.OK(t, Release(second))
	alone := test.Must(take(Exclusive))
	test.ErrorIs(t, "a shared lock", test.Err(take(Shared)), ErrHeld)
	ctx, cancel := context.WithTimeout(t.Context(), 3*step)
	defer cancel()
	_, err := Take(ctx, path, Exclusive, time.Hour)
	test.ErrorIs(t, "after the end of the context", err, context.DeadlineExceeded)
	test.OK(t, Release(alone))

	// a directory that may not be entered is no lock that is held
	_, err = Take(t.Context(), filepath.Join(path, "below"), Exclusive, time.Hour)
	test.Equal(t, "held", errors.Is(err, ErrHeld) || err == nil, false)
}

// Who waits for a lock gets that of the file that has taken the place of the locked one.
func TestTakeReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	old := test.Must(Take(t.Context(), path, Exclusive, 0))
	defer old.Close()
	time.AfterFunc(3*step, func() { _ = os.Remove(path) })
	now := test.Must(Take(t.Context(), path, Exclusive, test.Patience()))
	test.Equal(t, "the same file", os.SameFile(test.Must(old.Stat()), test.Must(now.Stat())), false)
	test.OK(t, Release(now))
}

// A released lock is free for others even while another process still has the file open.
func TestReleaseInherited(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	file := test.Must(Take(t.Context(), path, Exclusive, 0))
	inherited := test.Must(unix.Dup(int(file.Fd())))
	defer unix.Close(inherited)
	test.OK(t, Release(file))
	test.OK(t, Release(test.Must(Take(t.Context(), path, Exclusive, 0))))
}
