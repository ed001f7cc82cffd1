package state

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

func TestCreated(t *testing.T) {
	db := newState(t)
	ctx := context.Background()
	made := []reconcile.Created{{Kind: "comment", ID: "c-1"}, {Kind: "attachment", ID: "a-1"}}
	check(t, db.SaveCreated(ctx, "run-1", "issue-1", made, epoch))
	check(t, db.SaveCreated(ctx, "run-1", "issue-1", nil, epoch))
	// A run that does the same again creates nothing anew: a link that is there already.
	check(t, db.SaveCreated(ctx, "run-2", "issue-1", made[1:], epoch))

	ids := []string{"c-1", "c-2", "a-1", `"]'`, ""}
	for i := range 2000 { // more than SQLite takes parameters by default
		ids = append(ids, fmt.Sprintf("other-%d", i))
	}
	ours, err := db.Created(ctx, ids)
	check(t, err)
	if len(ours) != 2 || !ours["c-1"] || !ours["a-1"] {
		t.Errorf("ours are %v", ours)
	}
	if ours, err := db.Created(ctx, nil); err != nil || len(ours) != 0 {
		t.Errorf("of none: %v, %v", ours, err)
	}
	var kind, run string
	check(t, db.sql.QueryRowContext(ctx, `SELECT kind, run_id FROM created WHERE id = 'a-1'`).Scan(&kind, &run))
	if kind != "attachment" || run != "run-1" {
		t.Errorf("kept as %s of %s", kind, run)
	}
}

// What was created in a run that is long gone is forgotten, a bounded number at a time; of a run that is kept it is not,
// however old, nor what is young.
func TestPruneCreated(t *testing.T) {
	db := newState(t)
	ctx := context.Background()
	now := epoch.Add(100 * day)
	kept := pastRuns(t, db, 1, 1, epoch)[0]
	made := func(run string, at time.Time, ids ...string) {
		t.Helper()
		for _, id := range ids {
			check(t, db.SaveCreated(ctx, run, issueOf(1).ID, []reconcile.Created{{Kind: "comment", ID: id}}, at))
		}
	}
	made("gone", epoch, "c-1", "c-2", "c-3")
	made(kept, epoch, "c-4")
	made("gone", now.Add(-29*day), "c-5")
	passAt(t, db, now)
	for _, left := range []int{3, 2, 2} {
		prune(t, db, now, 2)
		ours, err := db.Created(ctx, []string{"c-1", "c-2", "c-3", "c-4", "c-5"})
		check(t, err)
		if len(ours) != left || !ours["c-4"] || !ours["c-5"] {
			t.Errorf("left are %v", ours)
		}
	}
}
