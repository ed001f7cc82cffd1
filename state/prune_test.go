package state

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

const day = 24 * time.Hour

// pastRuns stores n settled runs of issue i, one an hour beginning at from.
func pastRuns(t *testing.T, db *DB, i, n int, from time.Time) []string {
	t.Helper()
	var ids []string
	test.OK(t, db.update(ctx, "fill", normal, func(tx tx) error {
		for k := range n {
			at := from.Add(time.Duration(k) * time.Hour)
			ids = append(ids, fmt.Sprintf("%013d-%d", at.UnixMilli(), i))
			err := tx.run(`INSERT INTO runs (id, kind, issue_id, identifier, phase, outcome, settled, issue,
				started_at, ended_at) VALUES (?, 'agent', ?, ?, 'finishing', 'succeeded', 1, ?, ?, ?)`,
				ids[k], issueOf(i).ID, issueOf(i).Identifier, jsonOf(issueOf(i)), stamp(at), stamp(at))
			if err != nil {
				return err
			}
		}
		return nil
	}))

	return ids
}

// passAt records a pass whose clocks agree.
func passAt(t *testing.T, db *DB, at time.Time) {
	t.Helper()
	test.Must(db.Store.SavePass(ctx, Pass{
		Trigger:   "cron",
		StartedAt: at,
		BootID:    "boot",
		Mono:      at.Sub(epoch),
	}))
}

func prune(t *testing.T, db *DB, now time.Time, limit int) []string {
	t.Helper()
	return test.Must(db.Store.Prune(ctx, now, limit))
}

func TestPruneKeepsTheLastAndTheRecent(t *testing.T) {
	db := newState(t)
	now := epoch.Add(100 * day)
	old := pastRuns(t, db, 1, 25, epoch)
	pastRuns(t, db, 2, 20, epoch)                  // old, but the last twenty
	pastRuns(t, db, 3, 50, now.Add(-29*day))       // many, but recent
	mixed := pastRuns(t, db, 4, 3, epoch)          // old ones of an issue ...
	pastRuns(t, db, 4, 19, now.Add(-day))          // ... of which nineteen recent ones follow
	unsettled := pastRuns(t, db, 5, 1, epoch)[0]   // old and beyond twenty, but not settled
	pastRuns(t, db, 5, 20, epoch.Add(2*time.Hour)) //
	test.Must(db.sql.Exec(`UPDATE runs SET settled = 0 WHERE id = ?`, unsettled))
	test.Must(db.sql.Exec(`INSERT INTO issue_totals (issue_id, input, output, total, runtime_ms) VALUES ('gone', 0, 0, 77, 0)`))
	passAt(t, db, now)

	want := slices.Concat(old[:5], mixed[:2])
	got := prune(t, db, now, 100)
	test.Equal(t, "pruned", slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want)))
	left := test.Must(db.Runs.OfIssue(ctx, issueOf(1).ID, 100))
	if len(left) != keepRuns || left[len(left)-1].ID != old[5] {
		t.Errorf("%d runs are left", len(left))
	}
	wantTotals(t, db, Totals{Tokens: reconcile.Tokens{Total: 77}})
}

func TestPruneIsBoundedAndGoesOn(t *testing.T) {
	db := newState(t)
	now := epoch.Add(100 * day)
	passAt(t, db, now)
	old := pastRuns(t, db, 1, 45, epoch)
	test.Equal(t, "pruned with a limit of 0", len(prune(t, db, now, 0)), 0)
	var got []string
	for _, want := range []int{10, 10, 5, 0} {
		ids := prune(t, db, now, 10)
		test.Equal(t, "runs", len(ids), want)
		got = append(got, ids...)
	}
	test.Equal(t, "pruned", slices.Sorted(slices.Values(got)), old[:25])
	pastRuns(t, db, 2, 21, epoch)
	test.Equal(t, "pruned again within the hour", len(prune(t, db, now.Add(10*time.Minute), 10)), 0)
	test.Equal(t, "pruned after an hour", len(prune(t, db, now.Add(time.Hour), 10)), 1)
}

func TestPruneWaitsWhereTheClockJumped(t *testing.T) {
	now := epoch.Add(100 * day)
	type passes = []Pass
	for name, c := range map[string]struct {
		passes []Pass
		prunes bool
	}{
		"no pass":    {nil, false},
		"first pass": {passes{{StartedAt: now, BootID: "a"}}, true},
		"steady": {passes{{
			StartedAt: now.Add(-3 * day),
			BootID:    "a",
		}, {
			StartedAt: now,
			BootID:    "a",
			Mono:      3 * day,
		}}, true},
		"jumped ahead": {passes{{
			StartedAt: now.Add(-3 * day),
			BootID:    "a",
		}, {
			StartedAt: now,
			BootID:    "a",
			Mono:      time.Minute,
		}}, false},
		"jumped back": {passes{{
			StartedAt: now.Add(3 * day),
			BootID:    "a",
		}, {
			StartedAt: now,
			BootID:    "a",
			Mono:      time.Minute,
		}}, false},
		"a little": {passes{{
			StartedAt: now.Add(-time.Hour),
			BootID:    "a",
		}, {
			StartedAt: now,
			BootID:    "a",
			Mono:      time.Minute,
		}}, true},
		"rebooted": {passes{{
			StartedAt: now.Add(-time.Hour),
			BootID:    "a",
			Mono:      day,
		}, {
			StartedAt: now,
			BootID:    "b",
		}}, true},
		"rebooted, jumped": {passes{{
			StartedAt: now.Add(-9 * day),
			BootID:    "a",
		}, {
			StartedAt: now,
			BootID:    "b",
		}}, false},
		"not saved yet": {passes{{StartedAt: now.Add(-9 * day), BootID: "a"}}, false},
	} {
		db := newState(t)
		pastRuns(t, db, 1, 21, epoch)
		for _, p := range c.passes {
			p.Trigger = "cron"
			test.Must(db.Store.SavePass(ctx, p))
		}
		test.Equal(t, name, len(prune(t, db, now, 10)) > 0, c.prunes)
	}
}

// TestPruneWhatBelongsToRuns checks that requests and threads are deleted with their runs, and
// that the last scheduled passes are never deleted.
func TestPruneWhatBelongsToRuns(t *testing.T) {
	db := newState(t)
	now := epoch.Add(100 * day)
	for i := range 10 {
		passAt(t, db, epoch.Add(time.Duration(i)*time.Minute))
	}
	for i := range 30 {
		at := now.Add(time.Duration(i-30) * time.Minute)
		test.Must(db.Store.SavePass(ctx, Pass{
			Trigger:   "worker",
			StartedAt: at,
			BootID:    "boot",
			Mono:      at.Sub(epoch),
		}))
	}
	for i := range keepRuns + 1 {
		run := pastRun(t, db, i, func(r *reconcile.Run) {
			asked(t, db, *r, reconcile.CommandRequest)
			test.OK(
				t,
				db.Journal.SaveThread(
					ctx,
					r.ID,
					r.IssueID,
					reconcile.Thread{ID: "of " + r.ID, WorkspaceID: "ws"},
					reconcile.Tokens{Total: 1},
					epoch,
				),
			)
			r.Outcome = reconcile.Failed
		})
		test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Settle: run.ID}))
	}
	test.Equal(t, "pruned", prune(t, db, now, 100), []string{runID(0)})
	for _, table := range []string{"requests", "threads"} {
		left := lines(t, db.sql, `SELECT run_id FROM `+table+` ORDER BY run_id`)
		if len(left) != keepRuns || left[0] != runID(1) {
			t.Errorf("of the %s %v are left", table, left)
		}
	}
	scheduled := test.Must(db.Views.ScheduledPasses(ctx))
	all := test.Must(db.passes(ctx, `ORDER BY id DESC LIMIT ?`, 100))
	test.Equal(t, "passes of the schedule, and all", []any{len(scheduled), len(all)}, []any{6, 36})
}
