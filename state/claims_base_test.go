package state

import (
	"testing"

	"github.com/symphony-cron/symphony/reconcile"
)

// A claim made anew counts what its issue uses from there on.
func TestTokenBaseOfANewClaim(t *testing.T) {
	db := newState(t)
	ctx := t.Context()
	if _, err := db.sql.ExecContext(ctx, `INSERT INTO issue_totals (issue_id, input, output, total, runtime_ms) VALUES ('i', 60, 40, 100, 0)`); err != nil {
		t.Fatal(err)
	}
	claim := reconcile.Claim{IssueID: "i", Identifier: "A-1", Status: reconcile.Held, Issue: reconcile.Issue{ID: "i"}}
	if err := db.Commit(ctx, epoch, reconcile.Change{Claim: &claim}); err != nil {
		t.Fatal(err)
	}
	got, ok, err := db.ClaimByIssue(ctx, "i")
	if err != nil || !ok || got.TokenBase != 100 {
		t.Errorf("base %d, %v, %v", got.TokenBase, ok, err)
	}
}
