package state

import (
	"context"
	"os"
	"path/filepath"
	"testing"

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
			db := newState(t)
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

// A stop that a pass has written down is read also where the worker can write nothing any more.
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
