package sharing

import (
	"context"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/team"
)

// freshFor is for how long a pass trusts its last look at the claims.
const freshFor = 5 * time.Second

// CheckFresh returns an error if another machine has an issue, before a pass changes something about it
// that people see: it looks first, but at most every five seconds. It returns nil without a team.
func (t *Team) CheckFresh(ctx context.Context, i team.Issue) error {
	if t == nil {
		return nil
	}
	now := t.Member.Clock()
	age, isKnown := now.Sub(t.looked)
	if !isKnown || age >= freshFor {
		if err := t.Member.Look(ctx); err != nil {
			return err
		}
		t.looked = now
	}
	return t.Member.Check(ctx, i)
}

// Guarded returns a tracker whose steps that people see fail for issues that other machines have; the
// tracker itself without a team.
func (t *Team) Guarded(tracker *reconcile.TrackerAdapter) *reconcile.TrackerAdapter {
	if t == nil || tracker == nil {
		return tracker
	}
	guarded := *tracker
	named := func(issueID string) team.Issue { return team.Issue{ID: issueID, Identifier: "the issue"} }
	if tracker.Move != nil {
		guarded.Move = func(ctx context.Context, issueID, state string) error {
			if err := t.CheckFresh(ctx, named(issueID)); err != nil {
				return err
			}
			return tracker.Move(ctx, issueID, state)
		}
	}
	if tracker.Post != nil {
		guarded.Post = func(ctx context.Context, issueID, body string) (reconcile.Comment, error) {
			if err := t.CheckFresh(ctx, named(issueID)); err != nil {
				return reconcile.Comment{}, err
			}
			return tracker.Post(ctx, issueID, body)
		}
	}
	if tracker.Edit != nil {
		guarded.Edit = func(ctx context.Context, issueID, commentID, body string) (string, error) {
			if err := t.CheckFresh(ctx, named(issueID)); err != nil {
				return "", err
			}
			return tracker.Edit(ctx, issueID, commentID, body)
		}
	}
	return &guarded
}
