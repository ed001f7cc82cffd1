package state

import (
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// View returns what State returns, whatever has changed since the last time, and reads only that.
func TestViewIsTheState(t *testing.T) {
	db := newState(t)
	same := func(what string) {
		t.Helper()
		test.Equal(t, "the view "+what, test.Must(db.Store.View(ctx)), test.Must(db.Store.State(ctx)))
	}
	same("of nothing")
	first, second := claim(t, db, 1), claim(t, db, 2)
	same("of two claims")
	first.Issue.Title, first.HoldReason, first.Status, first.HeldAt = "Another title", reconcile.HoldMaxFailures, reconcile.Held, epoch
	test.OK(t, db.Store.Commit(ctx, epoch.Add(time.Second), reconcile.Change{Claim: &first}))
	same("of a changed claim")
	test.Must(db.sql.ExecContext(ctx, `UPDATE claims SET hold_comment_at = 5, project = 'moved'`))
	same("of what changes without a version")
	test.OK(t, db.Store.Commit(ctx, epoch.Add(time.Minute), reconcile.Change{Claim: &second, Delete: true, Gone: &reconcile.Gone{}}))
	same("after a release")
	claim(t, db, 2)
	same("of the issue that has come back")
	test.Must(db.sql.ExecContext(ctx, `UPDATE claims SET identifier = 'NEW-1' WHERE issue_id = ?`, first.IssueID))
	for _, c := range test.Must(db.Store.View(ctx)).Claims {
		test.Equal(t, "a claim that no statement of ours has changed is read again", c.Identifier == "NEW-1", false)
	}
}
