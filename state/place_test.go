package state

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// A program that has the database open for hours writes nothing into files that are no longer it, and spoils nothing in
// those that have taken their place.
func TestReplacedUnderAWriter(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		code string
		make func(t *testing.T, path string)
	}{
		"another database": {"state_replaced", func(t *testing.T, path string) {
			check(t, os.Rename(path, path+".old"))
			copyFile(t, path+".old", path)
		}},
		"no database": {"state_missing", func(t *testing.T, path string) { check(t, os.Remove(path)) }},
		"empty":       {"state_corrupt", func(t *testing.T, path string) { check(t, os.Truncate(path, 0)) }},
		"no log":      {"state_replaced", func(t *testing.T, path string) { check(t, os.Remove(path+"-wal")) }},
		"another log": {"state_replaced", func(t *testing.T, path string) {
			check(t, os.Rename(path+"-wal", path+"-wal.old"))
			copyFile(t, path+"-wal.old", path+"-wal")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			db := newDB(t)
			path := filepath.Join(db.Dir(), databaseName)
			claim(t, db, 1)
			c.make(t, path)
			before, _ := os.ReadFile(path) // none is as good
			other := reconcile.Claim{IssueID: "other", Identifier: "ABC-2", Issue: issueOf(2)}
			wantCode(t, db.Commit(ctx, epoch, reconcile.Change{Claim: &other}), c.code)
			check(t, db.Close())
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Errorf("closing changed what lies there: %d bytes, before %d", len(after), len(before))
			}
		})
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	check(t, err)
	check(t, os.WriteFile(to, data, 0o600))
}

// A connection that was given up, as one that a signal has interrupted is, takes its log with it. That is no
// replacement.
func TestNewConnectionIsNoReplacement(t *testing.T) {
	ctx := context.Background()
	db := newDB(t)
	claim(t, db, 1)
	conn, err := db.sql.Conn(ctx)
	check(t, err)
	_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // gives the connection up
	_ = conn.Close()                                           // which it says again
	if _, err := os.Stat(filepath.Join(db.Dir(), databaseName+"-wal")); !os.IsNotExist(err) {
		t.Fatalf("the log is still there (%v): nothing is tested", err)
	}
	// File systems give the number of a file that is gone to the next one: not to the new log.
	check(t, os.WriteFile(filepath.Join(db.Dir(), "other"), nil, 0o600))
	claim(t, db, 2)
	claim(t, db, 3)
}

// A transaction that its context ended says so, wherever it was: that is no fault of the database's.
func TestTransactionWhoseContextEnds(t *testing.T) {
	db := newDB(t)
	for name, left := range map[string]func(error) error{
		"at a statement": func(err error) error { return err },
		"at its commit":  func(error) error { return nil },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		err := db.update(ctx, "store something", full, func(tx *sql.Tx) error {
			cancel()
			for {
				if _, err := tx.Exec(`DELETE FROM claims`); err != nil {
					return left(err)
				}
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	claim(t, db, 1)
}

// Of many writes that find the database taken only the first waits long, so that a pass with many runs comes to its end.
func TestBusyOnlyOnceForLong(t *testing.T) {
	ctx := context.Background()
	dir := newDir(t)
	db, holder := createIn(t, dir), openIn(t, dir)
	tx, err := holder.sql.BeginTx(ctx, nil)
	check(t, err)
	write := func() (time.Duration, error) {
		began := time.Now()
		err := db.SaveSweep(ctx, epoch)
		return time.Since(began), err
	}
	took, err := write()
	wantCode(t, err, "state_busy")
	if took < busyTimeout-time.Second {
		t.Errorf("the first write gave up after %v", took)
	}
	for range 4 {
		took, err = write()
		wantCode(t, err, "state_busy")
		if took > busyTimeout/2 {
			t.Errorf("a later write waited %v", took)
		}
	}
	check(t, tx.Rollback())
	_, err = write()
	check(t, err)
	tx, err = holder.sql.BeginTx(ctx, nil)
	check(t, err)
	time.AfterFunc(2*hastyTimeout, func() { check(t, tx.Rollback()) })
	if _, err = write(); err != nil {
		t.Errorf("patience has not come back: %v", err)
	}
}

// A stop that a pass has written down is read also where the worker can write nothing any more.
func TestStopReasonWhereNothingCanBeWritten(t *testing.T) {
	ctx := context.Background()
	db := newDB(t)
	run := startedRun(t, db, 1)
	check(t, db.RequestStop(ctx, run.ID, reconcile.StopTerminal, reconcile.Instant{Boot: "boot", Mono: 7}))
	check(t, os.Remove(filepath.Join(db.Dir(), databaseName)))
	reason, err := db.UpdateRun(ctx, epoch, run)
	wantCode(t, err, "state_missing")
	if reason != reconcile.StopTerminal {
		t.Errorf("the reason is %q", reason)
	}
}
