package state

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func acquire(t *testing.T, dir string, timeout time.Duration) (release func() error, held *Holder) {
	t.Helper()
	release, held, err := Acquire(ctx, dir, Holder{Trigger: "manual", Since: epoch}, timeout)
	check(t, err)
	if (release == nil) == (held == nil) {
		t.Fatalf("release is nil: %v, held %v", release == nil, held)
	}
	return release, held
}

func TestWaitIsBounded(t *testing.T) {
	dir := newDir(t)
	release, _ := acquire(t, dir, 0)
	defer func() { check(t, release()) }()
	if _, held := acquire(t, dir, 60*time.Millisecond); held == nil || held.Queued {
		t.Errorf("held %+v", held)
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	_, held, err := Acquire(ctx, dir, Holder{}, time.Hour)
	if held != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: held %+v, error %v", held, err)
	}
	// The waiters that gave up are no waiters any more.
	if _, held := acquire(t, dir, time.Millisecond); held == nil || held.Queued {
		t.Errorf("held %+v", held)
	}
}

// TestLockNamesItsHolder checks that each handle locks for itself, and that the file of the lock stays.
func TestLockNamesItsHolder(t *testing.T) {
	dir := newDir(t)
	release, _ := acquire(t, dir, 0)
	before := must(os.Stat(filepath.Join(dir, lockName)))
	if _, held := acquire(t, dir, 0); held == nil || *held != (Holder{PID: os.Getpid(), Trigger: "manual", Since: epoch}) {
		t.Errorf("held by %+v", held)
	}
	check(t, release())
	check(t, release()) // once more does no harm
	release, held := acquire(t, dir, 0)
	if held != nil {
		t.Fatalf("still held by %+v", held)
	}
	check(t, release())
	if after := must(os.Stat(filepath.Join(dir, lockName))); !os.SameFile(before, after) || after.Mode().Perm() != 0o600 {
		t.Errorf("the lock file was made anew, or has mode %o", after.Mode().Perm())
	}
}
