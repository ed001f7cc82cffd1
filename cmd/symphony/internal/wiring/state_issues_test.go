package wiring

import (
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// A number that two issues have names neither, but shop-7 is no number of web-shop-7.
func TestUnknownIssue(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	db := newDB(t, now)
	test.OK(t, db.Store.SaveSkips(t.Context(), now, []reconcile.Skip{
		{IssueID: "1", Identifier: "web-shop-7", Reason: reconcile.SkipNoSlot},
		{IssueID: "2", Identifier: "old-shop-7", Reason: reconcile.SkipNoSlot},
	}))
	for ref, want := range map[string]string{
		"7":      "issue_not_found: 7 is the number of old-shop-7 and web-shop-7",
		"shop-7": "issue_not_found: shop-7 is not known here: it has had no run, did you mean old-shop-7?",
	} {
		err := UnknownIssue(t.Context(), db, ref, "it has had no run")
		test.Equal(t, ref, err.Error(), want)
	}
}
