package state

import (
	"maps"
	"slices"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// Comments of symphony are deleted when they are old and their issue is not claimed, and with
// what else is known of the issue.
func TestOldCommentsAreDeleted(t *testing.T) {
	db := newState(t)
	now := epoch.Add(100 * day)
	claim := reconcile.Claim{IssueID: issueOf(1).ID, Status: reconcile.Held, ClaimedAt: epoch}
	test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Claim: &claim}))
	for i, c := range []Comment{{
		Key: "claimed",
		At:  epoch,
	}, {
		Key: "old",
		At:  epoch,
	}, {
		Key: "new",
		At:  now,
	}} {
		c.IssueID = issueOf(i + 1).ID
		test.OK(t, db.Store.SaveComment(ctx, c))
	}
	want := func(keys ...string) {
		t.Helper()
		test.Equal(t, "comments", slices.Sorted(maps.Keys(test.Must(db.Store.Comments(ctx, nil)))), keys)
	}
	want("claimed", "new", "old")
	passAt(t, db, now)
	prune(t, db, now, 100)
	want("claimed", "new")
	pastRuns(t, db, 3, 1, epoch)
	test.Must(db.Operator.ForgetIssue(ctx, issueOf(3).ID))
	want("claimed")
}
