package project

import (
	"slices"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Run ids sort in the order in which they were given, within a pass and over passes, whatever the wall clock does.
func TestRunIDsSort(t *testing.T) {
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	db, err := state.Create(t.Context(), t.TempDir()+"/state", noon)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var ids []string
	for _, off := range []time.Duration{0, time.Minute, -time.Hour, -time.Hour, 365 * 24 * time.Hour, 0, time.Minute} {
		next := RunIDs(db, func() time.Time { return noon.Add(off) }) // a pass
		for range 3 {
			id := next()
			ids = append(ids, id)
			run := reconcile.Run{ID: id, Kind: reconcile.CleanupRun, Phase: reconcile.Starting, StartedAt: noon}
			if err := db.Store.Commit(t.Context(), noon, reconcile.Change{Insert: &run}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !slices.IsSorted(ids) {
		t.Errorf("not in order: %q", ids)
	}
	// Where the clock is right the id tells the time.
	if want := "20260302T120000.000-"; ids[0][:len(want)] != want {
		t.Errorf("%s does not begin with %s", ids[0], want)
	}
}
