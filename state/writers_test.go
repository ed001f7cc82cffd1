package state

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/lock"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// TestBusyDatabase checks that a writer gets its turn beside one that takes the database again
// at once. SQLite does not queue writers.
func TestBusyDatabase(t *testing.T) {
	db := newState(t)
	run := startedRun(t, db, 1)
	db.patience = 600 * time.Millisecond // so that the test need not wait for busyTimeout
	other := openIn(t, db.Dir())
	until := time.Now().Add(2 * time.Second)
	began := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		for n := 0; time.Now().Before(until); n++ {
			err := other.update(ctx, "hog", normal, func(t tx) error {
				if n == 0 {
					close(began)
				}
				time.Sleep(30 * time.Millisecond) // how long it keeps the lock
				return t.run(`UPDATE meta SET value = ? WHERE key = 'created_at'`, strconv.Itoa(n))
			})
			if err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	<-began
	run.Beats++
	_, err := db.Journal.UpdateRun(ctx, epoch, run)
	test.OK(t, errors.Join(err, <-ended))
}

// TestHeldDatabase checks that a write reports a database that another process keeps locked,
// that the next write waits only briefly, and that after a success writes wait for the whole
// time again.
func TestHeldDatabase(t *testing.T) {
	dir := newDir(t)
	db := createIn(t, dir)
	run := startedRun(t, db, 1)
	db.patience = 100 * time.Millisecond // so that the test need not wait for busyTimeout
	tx := test.Must(openIn(t, dir).sql.BeginTx(ctx, nil))
	wantCode(t, test.Err(db.Journal.UpdateRun(ctx, epoch, run)), "state_busy")
	test.Equal(t, "the next write waits", db.patience, retryTimeout)
	test.OK(t, tx.Rollback())
	test.Must(db.Journal.UpdateRun(ctx, epoch, run))
	test.Equal(t, "after a success the next write waits", db.patience, busyTimeout)
}

// TestReplacedUnderAWriter checks that nothing is written to files that were replaced, nor to
// their replacements.
func TestReplacedUnderAWriter(t *testing.T) {
	for _, suffix := range []string{"", "-wal"} {
		db := newState(t)
		path := filepath.Join(db.Dir(), databaseName)
		claim(t, db, 1)
		data := test.Must(os.ReadFile(path + suffix))
		test.OK(t, os.Rename(path+suffix, path+suffix+".old"))
		test.OK(t, os.WriteFile(path+suffix, data, 0o600))
		before := test.Must(os.ReadFile(path))
		other := reconcile.Claim{IssueID: "other", Identifier: "ABC-2", Issue: issueOf(2)}
		wantCode(t, db.Store.Commit(ctx, epoch, reconcile.Change{Claim: &other}), "state_replaced")
		test.OK(t, db.Close())
		test.Equal(t, "the file after closing", string(test.Must(os.ReadFile(path))), string(before))
	}
}

// TestStopReasonWhereNothingCanBeWritten checks that a worker reads a stop request although it
// can write nothing.
func TestStopReasonWhereNothingCanBeWritten(t *testing.T) {
	db := newState(t)
	run := startedRun(t, db, 1)
	test.OK(t, db.Store.RequestStop(ctx, run.ID, reconcile.StopTerminal, reconcile.Instant{
		Boot: "boot",
		Mono: 7,
	}))
	test.OK(t, os.Remove(filepath.Join(db.Dir(), databaseName)))
	orders, err := db.Journal.UpdateRun(ctx, epoch, run)
	wantCode(t, err, "state_corrupt")
	test.Equal(t, "the reason", orders.Stop, reconcile.StopTerminal)
}

func acquire(t *testing.T, dir string, timeout time.Duration) (release func() error, held *Holder) {
	t.Helper()
	release, held, err := Acquire(ctx, dir, Holder{Trigger: "manual", Since: epoch}, timeout, true)
	test.OK(t, err)
	if (release == nil) == (held == nil) {
		t.Fatalf("release is nil: %v, held %v", release == nil, held)
	}
	return release, held
}

func TestWaitIsBounded(t *testing.T) {
	dir := newDir(t)
	release, _ := acquire(t, dir, 0)
	defer func() { test.OK(t, release()) }()
	if _, held := acquire(t, dir, 60*time.Millisecond); held == nil {
		t.Errorf("held %+v", held)
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	_, held, err := Acquire(ctx, dir, Holder{}, time.Hour, true)
	test.Equal(t, "canceled", held == nil, true)
	test.ErrorIs(t, "canceled", err, context.Canceled)
	// It gives way to a process that is already waiting. Those that gave up above no longer
	// wait.
	waiter := test.Must(lock.Take(t.Context(), filepath.Join(dir, waiterName), lock.Exclusive, 0))
	if _, held := acquire(t, dir, time.Hour); held == nil {
		t.Error("it took a lock that another process has")
	}
	test.OK(t, lock.Release(waiter))
}

// TestLockNamesItsHolder checks that a second handle gets the record of the first, and that
// the lock file stays.
func TestLockNamesItsHolder(t *testing.T) {
	dir := newDir(t)
	release, _ := acquire(t, dir, 0)
	before := test.Must(os.Stat(filepath.Join(dir, lockName)))
	if _, held := acquire(t, dir, 0); held == nil || *held != (Holder{
		PID:     os.Getpid(),
		Trigger: "manual",
		Since:   epoch,
	}) {
		t.Errorf("held by %+v", held)
	}
	test.OK(t, release())
	test.OK(t, release()) // a second call does nothing
	release, held := acquire(t, dir, 0)
	if held != nil {
		t.Fatalf("still held by %+v", held)
	}
	test.OK(t, release())
	if after := test.Must(os.Stat(filepath.Join(dir, lockName))); !os.SameFile(before, after) ||
		after.Mode().Perm() != 0o600 {
		t.Errorf("the lock file was replaced, or has mode %o", after.Mode().Perm())
	}
}
