package state

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// TestBusyDatabase checks that a writer gets its turn beside one that takes the database again at once. SQLite does not
// queue writers.
func TestBusyDatabase(t *testing.T) {
	dir := newDir(t)
	db := createIn(t, dir)
	run := startedRun(t, db, 1)
	// So that this does not take the five seconds that it really would.
	_, err := db.sql.ExecContext(context.Background(), `PRAGMA busy_timeout = 600`)
	check(t, err)

	until := time.Now().Add(2 * time.Second)
	over := crowded(t, dir, func() bool { return time.Now().After(until) })
	run.Beats++
	_, err = db.UpdateRun(context.Background(), epoch, run)
	check(t, errors.Join(err, <-over))
}

// crowded lets another connection write until over, and returns when it has begun.
func crowded(t *testing.T, dir string, over func() bool) <-chan error {
	t.Helper()
	hog, err := openPool(filepath.Join(dir, databaseName), "rw", "")
	check(t, err)
	t.Cleanup(func() { check(t, hog.Close()) })
	began, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- hogUntil(hog, over, began) }()
	select {
	case <-began:
	case err := <-ended:
		t.Fatalf("the other writer: %v", err)
	}
	return ended
}

// hogUntil writes in one transaction after the other.
func hogUntil(hog *sql.DB, over func() bool, began chan<- struct{}) error {
	for n := 0; !over(); n++ {
		tx, err := hog.BeginTx(context.Background(), nil)
		if err == nil {
			_, err = tx.ExecContext(context.Background(), `UPDATE meta SET value = ? WHERE key = 'totals_input'`, strconv.Itoa(n))
			if n == 0 {
				close(began)
			}
			time.Sleep(30 * time.Millisecond) // the length of its turn
			err = errors.Join(err, tx.Commit())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestHeldDatabase checks that a write reports a database that one process holds, that the next write waits for a short
// time only, and the one after a success for the whole time again.
func TestHeldDatabase(t *testing.T) {
	ctx, dir := context.Background(), newDir(t)
	db := createIn(t, dir)
	run := startedRun(t, db, 1)
	wantPatience := func(want time.Duration) {
		t.Helper()
		var ms int64
		check(t, db.sql.QueryRow(`PRAGMA busy_timeout`).Scan(&ms))
		if got := time.Duration(ms) * time.Millisecond; got != want {
			t.Errorf("the next write waits %v, want %v", got, want)
		}
	}
	_, err := db.sql.ExecContext(ctx, `PRAGMA busy_timeout = 100`) // so that the test need not wait for busyTimeout
	check(t, err)
	tx, err := openIn(t, dir).sql.BeginTx(ctx, nil)
	check(t, err)
	_, err = db.UpdateRun(ctx, epoch, run)
	wantCode(t, err, "state_busy")
	wantPatience(retryTimeout)
	check(t, tx.Rollback())
	_, err = db.UpdateRun(ctx, epoch, run)
	check(t, err)
	wantPatience(busyTimeout)
}

// TestReplacedUnderAWriter checks that nothing is written into files that were replaced, nor into their replacements.
func TestReplacedUnderAWriter(t *testing.T) {
	for _, suffix := range []string{"", "-wal"} {
		db := newState(t)
		path := filepath.Join(db.Dir(), databaseName)
		claim(t, db, 1)
		data, err := os.ReadFile(path + suffix)
		check(t, err)
		check(t, os.Rename(path+suffix, path+suffix+".old"))
		check(t, os.WriteFile(path+suffix, data, 0o600))
		before, err := os.ReadFile(path)
		check(t, err)
		other := reconcile.Claim{IssueID: "other", Identifier: "ABC-2", Issue: issueOf(2)}
		wantCode(t, db.Commit(context.Background(), epoch, reconcile.Change{Claim: &other}), "state_replaced")
		check(t, db.Close())
		if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
			t.Errorf("closing changed %s: %d bytes, before %d, %v", path, len(after), len(before), err)
		}
	}
}

// TestStopReasonWhereNothingCanBeWritten checks that a worker reads a stop request although it can write nothing.
func TestStopReasonWhereNothingCanBeWritten(t *testing.T) {
	ctx := context.Background()
	db := newState(t)
	run := startedRun(t, db, 1)
	check(t, db.RequestStop(ctx, run.ID, reconcile.StopTerminal, reconcile.Instant{Boot: "boot", Mono: 7}))
	check(t, os.Remove(filepath.Join(db.Dir(), databaseName)))
	reason, err := db.UpdateRun(ctx, epoch, run)
	wantCode(t, err, "state_missing")
	if reason != reconcile.StopTerminal {
		t.Errorf("the reason is %q", reason)
	}
}
