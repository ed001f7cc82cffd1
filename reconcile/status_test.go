package reconcile

import "testing"

// Each issue is counted once: one that is held is not among the undelivered ones, and a
// claimed one not among the skips.
func TestCount(t *testing.T) {
	claims := []Claim{
		{IssueID: "1", Status: Running, RunID: "r1"},
		{IssueID: "2", Status: Running, RunID: "r2"},
		{IssueID: "3", Status: Held, Delivery: Delivery{Due: true, Code: "delivery_failed"}},
		{IssueID: "4", Status: Waiting, Delivery: Delivery{Due: true, Code: "delivery_failed"}},
		{IssueID: "5", Status: Waiting, Kind: NoSlot},
		{IssueID: "6", Status: Waiting, Kind: Backoff},
	}
	skips := []Skip{
		{IssueID: "5", Reason: SkipNoSlot},
		{IssueID: "7", Reason: SkipNoSlotInState},
		{IssueID: "8", Reason: SkipBlockedBy},
		{IssueID: "9", Reason: SkipPaused},
		{IssueID: "10", Reason: SkipLabel},
		{IssueID: "11", Reason: SkipUnsavedWork},
	}
	n := Count(claims, map[string]bool{"r2": true}, skips, false)
	equal(
		t,
		"the sum",
		n.Text(),
		"2 running (1 needs an answer), 2 queued, 1 blocked, 2 waiting, 1 skipped, 1 held, 1 undelivered",
	)
	equal(
		t,
		"twice that",
		n.Plus(n).GoingOn(),
		"4 running (2 need an answer), 4 queued, 2 blocked, 4 waiting, 2 skipped",
	)
	equal(t, "the claims that wait", n.Retrying, 3)
	n = Count(claims, map[string]bool{"r2": true}, skips, true)
	equal(
		t,
		"the sum while nothing starts",
		n.Text(),
		"2 running (1 needs an answer), 1 blocked, 4 waiting, 1 skipped, 1 held, 1 undelivered",
	)
	equal(t, "nothing", Count(nil, nil, nil, false).Text(), "")
}
