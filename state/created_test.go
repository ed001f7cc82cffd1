package state

import (
	"context"
	"fmt"
	"testing"

	"github.com/symphony-cron/symphony/reconcile"
)

func TestCreated(t *testing.T) {
	db := newDB(t)
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
