package trackertest

import (
	"errors"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// faults are the rules about trackers that do not answer as they should.
var faults = []testCase{
	{
		"unavailable: every call fails",
		func(b *backend) bool { return b.Unavailable.Arrange != nil },
		checkUnavailable,
	},
	{"rate limit", func(b *backend) bool { return b.Limit != nil }, checkLimit},
	{"rate limit: budget", func(b *backend) bool { return b.Low != nil }, checkBudget},
}

// runFaults tries each fault with its own tracker.
func runFaults(t *testing.T, start func(t *testing.T) *Backend) {
	for n, f := range start(t).Faults {
		t.Run("fault: "+f.Name, func(t *testing.T) {
			b := &backend{Backend: start(t), T: t}
			id := b.add(Issue{})
			f := b.Faults[n]
			f.Arrange(b.T)
			if !f.OnlyByIDs {
				found, err := b.Candidates(b.ctx(), b.Active)
				b.wantError(err, f.Code, f.Class)
				if len(found) > 0 {
					b.Errorf("candidates in spite of the error: %+v", found)
				}
			}
			found, err := b.ByIDs(b.ctx(), []string{id})
			b.wantError(err, f.Code, f.Class)
			if len(found) > 0 {
				b.Errorf("issues in spite of the error: %+v", found)
			}
		})
	}
}

func checkUnavailable(b *backend) {
	issue := b.issue(b.add(Issue{}))
	f := b.Unavailable
	f.Arrange(b.T)
	for name, call := range b.calls(issue) {
		err := call()
		b.Log(name+":", err)
		b.wantError(err, f.Code, f.Class)
	}
	for name, call := range b.agentCalls(issue, "No.") {
		if a := b.call(b.TrackerAdapter, issue, call); a.Success || a.Mutation != nil && a.Mutation.Success {
			b.Errorf("the tool's call %s: %+v", name, a)
		}
	}
}

// calls are the calls of the adapter that make a request.
func (b *backend) calls(issue reconcile.Issue) map[string]func() error {
	ctx := b.ctx()
	calls := map[string]func() error{
		"candidates": func() error { _, err := b.Candidates(ctx, b.Active); return err },
		"by id":      func() error { _, err := b.ByIDs(ctx, []string{issue.ID}); return err },
	}
	if b.Find != nil {
		calls["find"] = func() error { _, err := b.Find(ctx, issue.Identifier); return err }
	}
	if b.Comments != nil {
		calls["comments"] = func() error { _, err := b.Comments(ctx, issue.ID, time.Time{}); return err }
	}
	if b.Post != nil {
		calls["post"] = func() error { _, err := b.Post(ctx, issue.ID, "No."); return err }
	}
	if b.TrackerAdapter.Move != nil {
		calls["move"] = func() error { return b.TrackerAdapter.Move(ctx, issue.ID, b.Terminal) }
	}
	if b.Create != nil {
		calls["create"] = func() error {
			_, err := b.Create(ctx, reconcile.NewIssue{
				Title: "No",
				State: b.Active[0],
			})
			return err
		}
	}
	if b.Verify != nil {
		calls["verify"] = func() error { _, err := b.Verify(ctx, reconcile.TrackerNames{States: b.Active}); return err }
	}
	return calls
}

func checkLimit(b *backend) {
	issue := b.issue(b.add(Issue{}))
	until := time.Now().Add(20 * time.Minute).Truncate(time.Second)
	b.Limit(b.T, until)
	for name, call := range b.calls(issue) {
		err := call()
		b.Log(name+":", err)
		b.wantError(err, "tracker_rate_limited", "")
		var l reconcile.Limited
		// A tracker may say how long the limit lasts instead of when it ends.
		if !errors.As(err, &l) || l.ResetAt().Before(until.Add(-time.Second)) ||
			l.ResetAt().After(until.Add(10*time.Minute)) {
			b.Errorf("%s: %v does not end at %v", name, err, until)
		}
	}
	for name, call := range b.agentCalls(issue, "No.") {
		if a := b.call(b.TrackerAdapter, issue, call); a.Success ||
			refusalOf(a).Code != "tracker_rate_limited" {
			b.Errorf("the tool's call %s: %+v", name, a)
		}
	}
}

func checkBudget(b *backend) {
	isLow := func(at time.Time) bool { return at.Before(b.Budget().LowUntil()) }
	if isLow(time.Now()) {
		b.Error("low before the first answer")
	}
	b.candidates()
	budget := b.Budget()
	if budget.At.IsZero() || budget.Left < 0.1 || budget.Left > 1 || isLow(budget.At) {
		b.Errorf("budget %+v", budget)
	}
	until := time.Now().Add(20 * time.Minute).Truncate(time.Second)
	b.Low(b.T, until)
	b.issue(b.add(Issue{}))
	budget = b.Budget()
	test.Equal(b.T, "low", isLow(budget.At), true)
	if budget.Left >= 0.1 || !budget.Reset.IsZero() && isLow(budget.Reset) {
		b.Errorf("budget %+v", budget)
	}
}
