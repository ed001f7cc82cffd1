package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// ranFor adds a settled run of ten minutes, which ended at a time with an outcome, to the
// issue of a claim.
func ranFor(
	t *testing.T,
	db *DB,
	c reconcile.Claim,
	n int,
	at time.Time,
	model string,
	outcome reconcile.Outcome,
) {
	t.Helper()
	r := newRun(n)
	r.IssueID = c.IssueID
	r.Identifier = c.Identifier
	r.Issue = c.Issue
	r.StartedAt = at.Add(-10 * time.Minute)
	test.OK(t, db.Store.Commit(ctx, r.StartedAt, reconcile.Change{Insert: &r}))
	r = test.Must(db.Journal.TakeRun(ctx, r.ID, worker, r.StartedAt))
	r.Phase = reconcile.StreamingTurn
	r.Model = model
	if outcome == reconcile.Succeeded {
		r.MovedAt = at
		r.MovedTo = "Human Review"
	}
	r.Links = []reconcile.Link{
		{
			Kind: "pull_request",
			URL:  "https://example.com/r/pull/1",
		}, {
			Kind: "attachment",
			URL:  fmt.Sprint("https://example.com/", n),
		},
	}
	test.Must(db.Journal.UpdateRun(ctx, at, r))
	used := reconcile.Tokens{Input: 100, Cached: 40, Output: 10, Reasoning: 5, Total: 110}
	thread := reconcile.Thread{ID: fmt.Sprint("thread-", n), WorkspaceID: "space"}
	test.OK(t, db.Journal.SaveThread(ctx, r.ID, r.IssueID, thread, used, at))
	test.OK(t, db.Journal.SaveCreated(ctx, r.ID, r.IssueID, []reconcile.Created{{
		ID:   fmt.Sprint("c", n),
		Kind: "comment",
	}}, at))
	r.Outcome = outcome
	r.Tokens = used
	if outcome != reconcile.Succeeded {
		r.ErrorCode = "turn_failed"
		r.ErrorText = fmt.Sprint("why of ", n)
	}
	test.OK(t, db.Journal.Finish(ctx, at, r))
	test.OK(t, db.Store.Commit(ctx, at, reconcile.Change{Settle: r.ID}))
}

func TestReleaseKeepsWhatTheClaimCameTo(t *testing.T) {
	db := newState(t)
	c := claim(t, db, 1)
	c.ClaimedAt = epoch
	c.Issue.State = "Todo"
	before := c // its run belongs to an earlier claim
	ranFor(t, db, before, 1, epoch, "old", reconcile.Failed)
	ranFor(t, db, c, 2, epoch.Add(time.Hour), "gpt-a", reconcile.Failed)
	ranFor(t, db, c, 3, epoch.Add(2*time.Hour), "gpt-b", reconcile.Succeeded)
	ranFor(t, db, c, 4, epoch.Add(3*time.Hour), "gpt-b", reconcile.Succeeded)
	at := epoch.Add(4 * time.Hour)
	idle := claim(t, db, 2) // no run: nothing was done
	release := &reconcile.Release{Reason: reconcile.StopInactive, State: "Human Review"}
	test.OK(t, db.Store.Commit(ctx, at, reconcile.Change{
		Claim:   &c,
		Delete:  true,
		Release: release,
	}))
	release = &reconcile.Release{Reason: reconcile.StopLabel, State: "Todo"}
	test.OK(t, db.Store.Commit(ctx, at, reconcile.Change{
		Claim:   &idle,
		Delete:  true,
		Release: release,
	}))

	use := reconcile.Tokens{Input: 100, Cached: 40, Output: 10, Reasoning: 5, Total: 110}
	want := []Release{{
		IssueID:    c.IssueID,
		Identifier: "ABC-1",
		Title:      "Title",
		Reason:     reconcile.StopInactive,
		From:       "Todo",
		To:         new("Human Review"),
		ClaimedAt:  epoch.Truncate(time.Millisecond),
		At:         at,
		Runs:       3,
		Runtime:    30 * time.Minute,
		Models: []reconcile.ModelUse{{
			Model:  "gpt-a",
			Tokens: use,
		}, {
			Model:  "gpt-b",
			Tokens: use.Plus(use),
		}},
		Links: []reconcile.Link{
			{Kind: "pull_request", URL: "https://example.com/r/pull/1"},
			{Kind: "attachment", URL: "https://example.com/2"},
			{Kind: "attachment", URL: "https://example.com/3"},
			{Kind: "attachment", URL: "https://example.com/4"},
		},
		Created:  map[string]int{"comment": 3},
		Labels:   []string{"bug"},
		InReview: true,
	}}
	uses := test.Must(db.Runs.UseOf(ctx, c.IssueID)) // of the earlier claim, too
	test.Equal(t, "UseOf", uses, []reconcile.ModelUse{{
		Model:  "old",
		Tokens: use,
	}, {
		Model:  "gpt-a",
		Tokens: use,
	}, {
		Model:  "gpt-b",
		Tokens: use.Plus(use),
	}})
	test.Equal(t, "Releases", test.Must(db.Views.Releases(ctx, c.IssueID, 5)), want)
	other, err := db.Views.Releases(ctx, idle.IssueID, 5)
	test.Equal(t, "releases of an issue without a run, and error", []any{len(other), err}, []any{0, nil})
	// the first run ended before
	days := test.Must(db.Views.Days(ctx, epoch.Add(30*time.Minute)))
	test.Equal(t, "Days.Handovers", days.Handovers, []Handover{{want[0].ClaimedAt, at}})
	runs := map[reconcile.Outcome]int{}
	for _, o := range days.Outcomes {
		runs[o.Outcome] += o.Runs
	}
	test.Equal(t, "Days.Outcomes", runs, map[reconcile.Outcome]int{
		reconcile.Failed:    1,
		reconcile.Succeeded: 2,
	})
	// The release does not depend on its runs.
	test.Must(db.sql.ExecContext(ctx, `DELETE FROM runs`))
	test.Equal(t, "Releases", test.Must(db.Views.Releases(ctx, c.IssueID, 10)), want)
}

// TestReleaseByPerson: a person parks an issue at which an agent was at work, or closes it. Nobody
// handed it over, and nothing waits for a review.
func TestReleaseByPerson(t *testing.T) {
	db := newState(t)
	at := epoch.Add(time.Hour)
	for n, reason := range []string{reconcile.StopInactive, reconcile.StopTerminal} {
		c := claim(t, db, n)
		c.ClaimedAt = epoch
		ranFor(t, db, c, n, at, "m", reconcile.EndedRun)
		test.OK(t, db.Store.Commit(ctx, at, reconcile.Change{
			Claim:   &c,
			Delete:  true,
			Release: &reconcile.Release{Reason: reason, State: "Parked"},
		}))
		list := test.Must(db.Views.Releases(ctx, c.IssueID, 1))
		test.Equal(t, "reason", list[0].Reason, reconcile.ReleasedByPerson)
		test.Equal(t, "handed over, in review", []bool{list[0].HandedOver(), list[0].InReview}, []bool{false, false})
	}
}

// TestReleaseCountsCommits: the first run delivers 3 commits. The delivery of its continuation
// fails, so that a delivery run pushes 2 more.
func TestReleaseCountsCommits(t *testing.T) {
	db := newState(t)
	c := claim(t, db, 1)
	c.ClaimedAt = epoch
	delivers := func(n int, kind reconcile.RunKind, result reconcile.DeliveryResult) {
		r := newRun(n)
		r.Kind = kind
		r.IssueID = c.IssueID
		r.StartedAt = epoch.Add(time.Duration(n) * time.Minute)
		test.OK(t, db.Store.Commit(ctx, r.StartedAt, reconcile.Change{Insert: &r}))
		r = test.Must(db.Journal.TakeRun(ctx, r.ID, worker, r.StartedAt))
		r.Outcome = reconcile.Succeeded
		r.Delivery = result
		test.OK(t, db.Journal.Finish(ctx, r.StartedAt, r))
		test.OK(t, db.Store.Commit(ctx, r.StartedAt, reconcile.Change{Settle: r.ID}))
	}
	delivers(1, reconcile.AgentRun, reconcile.DeliveryResult{Done: true, Commits: 3})
	delivers(2, reconcile.AgentRun, reconcile.DeliveryResult{Code: "delivery_failed"})
	delivers(3, reconcile.DeliveryRun, reconcile.DeliveryResult{Done: true, Commits: 2})
	test.OK(t, db.Store.Commit(ctx, epoch.Add(time.Hour), reconcile.Change{
		Claim:   &c,
		Delete:  true,
		Release: &reconcile.Release{Reason: reconcile.StopInactive, State: "Human Review"},
	}))
	releases := test.Must(db.Views.Releases(ctx, c.IssueID, 5))
	test.Equal(t, "runs", releases[0].Runs, 2)
	test.Equal(t, "commits", releases[0].Commits, 5)
}
