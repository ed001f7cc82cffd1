package statetest

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// TestLarge reads a large state with the program and finds as much as was asked for.
func TestLarge(t *testing.T) {
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "state")
	now, size := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC), Size{Claims: 100, Runs: 700, Passes: 2000}
	if err := Large(ctx, dir, now, size); err != nil {
		t.Fatal(err)
	}
	db, err := state.OpenReadOnly(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rec, err := db.Store.State(ctx)
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
	r, err := db.Views.Report(ctx, now, now.Add(-31*24*time.Hour), now)
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	for _, u := range r.Uses {
		runs += u.Runs
	}
	if runs != size.Runs || r.Rhythm.Passes != size.Passes || len(r.Rhythm.Gaps) != 0 || len(r.Releases) == 0 || len(r.Days) == 0 {
		t.Errorf("%d runs, %+v, %d releases, %d days", runs, r.Rhythm, len(r.Releases), len(r.Days))
	}
}
