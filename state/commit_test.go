package state

import (
	"context"
	"testing"

	"github.com/symphony-cron/symphony/reconcile"
)

// Several changes are stored together or not at all, and the error is that of the one that could not be.
func TestCommitAllOrNone(t *testing.T) {
	ctx := context.Background()
	db := newState(t)
	one, two := claim(t, db, 1), claim(t, db, 2)
	stale := two
	one.Issue.Title, stale.Issue.Title = "changed", "changed"
	stale.Version--
	wantConflict(t, db.Commit(ctx, epoch, reconcile.Change{Claim: &one}, reconcile.Change{Claim: &stale}))
	if title := titleOf(t, db, one); title != "Title" {
		t.Errorf("half of it was stored: %s", title)
	}
	two.Issue.Title = "changed"
	check(t, db.Commit(ctx, epoch, reconcile.Change{Claim: &one}, reconcile.Change{}, reconcile.Change{Claim: &two}))
	if titleOf(t, db, one) != "changed" || titleOf(t, db, two) != "changed" {
		t.Error("not both were stored")
	}
}

func titleOf(t *testing.T, db *DB, c reconcile.Claim) string {
	t.Helper()
	stored, _, err := db.ClaimByIssue(context.Background(), c.IssueID)
	check(t, err)
	return stored.Issue.Title
}
