package statetest

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// A large state is one that the program reads, with as much in it as was asked for.
func TestLargeStateIsWhatWasAskedFor(t *testing.T) {
	ctx, dir := context.Background(), filepath.Join(t.TempDir(), "state")
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	size := Size{Claims: 100, Runs: 700, Passes: 2000, Events: 1000}
	if err := Large(ctx, dir, now, size); err != nil {
		t.Fatal(err)
	}
	db, err := state.OpenReadOnly(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QuickCheck(ctx); err != nil {
		t.Error(err)
	}
	rec, err := db.State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	count := map[reconcile.ClaimStatus]int{}
	for _, c := range rec.Claims {
		count[c.Status]++
		if c.Issue.ID != c.IssueID || c.Issue.Identifier != c.Identifier {
			t.Fatalf("%s has the issue %+v", c.Identifier, c.Issue)
		}
	}
	if count[reconcile.Running] != size.Running() || count[reconcile.Held] != size.Held() || len(rec.Claims) != size.Claims || len(rec.Runs) != size.Running() {
		t.Errorf("%v claims, %d runs", count, len(rec.Runs))
	}
	r, err := db.Report(ctx, now, now.Add(-31*24*time.Hour), now)
	if err != nil {
		t.Fatal(err)
	}
	runs, total := 0, int64(0)
	for _, u := range r.Uses {
		runs, total = runs+u.Runs, total+u.Tokens.Total
	}
	var byDay int64
	for _, d := range r.Days {
		byDay += d.Tokens.Total
	}
	all, err := db.Totals(ctx)
	if err != nil || runs != size.Runs || total+int64(size.Running())*124_000 != byDay || total != all.Tokens.Total || total == 0 {
		t.Errorf("%d runs with %d tokens, %d by day, %d in all, %v", runs, total, byDay, all.Tokens.Total, err)
	}
	if r.Rhythm.Passes != size.Passes || r.Rhythm.Usual != time.Minute || len(r.Rhythm.Gaps) != 0 || len(r.Releases) == 0 || len(r.Outages) != 40 {
		t.Errorf("%+v, %d releases, %d outages", r.Rhythm, len(r.Releases), len(r.Outages))
	}
}
