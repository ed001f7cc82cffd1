package state

import (
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// The newest description of a pull request replaces the one before. It is deleted when it is
// old, and with what else is known of the issue.
func TestPullRequests(t *testing.T) {
	db := newState(t)
	now := epoch.Add(100 * day)
	save := func(i int, checks string, at time.Time) {
		t.Helper()
		issue := issueOf(i)
		issue.PullRequest = &reconcile.PullRequest{
			URL:    "https://example.com/pull/1",
			State:  "open",
			Checks: checks,
			Review: "approved",
		}
		test.OK(t, db.Store.SavePullRequests(ctx, at, []reconcile.Issue{issue}))
	}
	save(1, "pending", epoch)
	save(1, "failed", now)
	save(2, "passed", epoch)
	all := test.Must(db.Views.PullRequests(ctx))
	p := all[issueOf(1).ID]
	if len(all) != 2 || p.Identifier != issueOf(1).Identifier || p.Checks != "failed" ||
		p.Review != "approved" ||
		!p.SeenAt.Equal(now) {
		t.Fatalf("%+v", all)
	}
	passAt(t, db, now)
	prune(t, db, now, 100)
	all = test.Must(db.Views.PullRequests(ctx))
	test.Equal(t, "pull requests after pruning", len(all), 1)
	pastRuns(t, db, 1, 1, epoch)
	test.Must(db.Operator.ForgetIssue(ctx, issueOf(1).ID))
	all = test.Must(db.Views.PullRequests(ctx))
	test.Equal(t, "pull requests of a forgotten issue", len(all), 0)
}
