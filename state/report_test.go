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

func reported(t *testing.T, db *DB, since, until time.Time) Report {
	t.Helper()
	return test.Must(db.Views.Report(ctx, until, since, until))
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
		Created: map[string]int{"comment": 3},
		Labels:  []string{"bug"},
	}}
	test.Equal(t, "releases before the first", len(reported(t, db, epoch, at).Releases), 0)
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
	test.Equal(t, "Releases", reported(t, db, at, at.Add(time.Minute)).Releases, want)
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

// TestHandovers counts issues that were handed over: at once, after two runs, after a failure
// of verify, for the second time, without a result, and by a person while the agent worked.
func TestHandovers(t *testing.T) {
	db := newState(t)
	n := 0
	at := epoch
	passed := &reconcile.Verification{}
	late := &reconcile.Verification{Round: 1}
	failed := &reconcile.Verification{Exit: 1, Round: 1}
	run := func(c reconcile.Claim, outcome reconcile.Outcome, h reconcile.Handover) {
		n++
		at = at.Add(time.Hour)
		ranFor(t, db, c, n, at, "m", outcome)
		test.Must(
			db.sql.ExecContext(
				ctx,
				`UPDATE runs SET delivery = ? WHERE id = ?`,
				jsonOf(&reconcile.DeliveryResult{Handover: &h}),
				runID(n),
			),
		)
	}
	release := func(c reconcile.Claim, reason string) {
		at = at.Add(time.Minute)
		test.OK(t, db.Store.Commit(ctx, at, reconcile.Change{
			Claim:   &c,
			Delete:  true,
			Release: &reconcile.Release{Reason: reason, State: "Human Review"},
		}))
	}
	claimed := func(n int) reconcile.Claim {
		c := claim(t, db, n)
		c.ClaimedAt = at
		return c
	}
	watch := func(issueID, state string, first string, rounds int) {
		w := reconcile.Watch{
			IssueID: issueID,
			Pull:    reconcile.Pull{State: state},
			History: make([]reconcile.Round, rounds),
		}
		if first != "" {
			w.Seen = []reconcile.Observation{{Commit: "a", What: first}}
		}
		test.OK(t, db.Store.Commit(ctx, at, reconcile.Change{Watch: &w}))
	}
	test.Equal(t, "nothing", reported(t, db, epoch, at.Add(time.Hour)).Handovers, Handovers{})

	once := claimed(1)
	run(once, reconcile.Succeeded, reconcile.Handover{Verification: passed})
	release(once, reconcile.StopInactive)
	watch(once.IssueID, reconcile.PullMerged, reconcile.CheckSuccess, 1)
	second := at.Add(time.Second)
	once = claimed(1) // it comes back
	run(once, reconcile.Succeeded, reconcile.Handover{Verification: passed})
	release(once, reconcile.StopInactive)
	twice := claimed(2)
	run(twice, reconcile.Failed, reconcile.Handover{})
	run(twice, reconcile.Succeeded, reconcile.Handover{})
	release(twice, reconcile.StopInactive)
	watch(twice.IssueID, "open", reconcile.CheckFailure, 2)
	red := claimed(3)
	run(red, reconcile.Succeeded, reconcile.Handover{Verification: late})
	n++
	cleanup := newRun(n) // of the pass that releases it
	cleanup.Kind = reconcile.CleanupRun
	cleanup.IssueID = red.IssueID
	cleanup.StartedAt = at
	test.OK(t, db.Store.Commit(ctx, at, reconcile.Change{Insert: &cleanup}))
	release(red, reconcile.StopTerminal)
	watch(red.IssueID, reconcile.PullClosed, "", 0)
	asks := claimed(4)
	run(asks, reconcile.Succeeded, reconcile.Handover{Blocked: "a key"})
	release(asks, reconcile.StopInactive)
	decided := claimed(5)
	run(decided, reconcile.Succeeded, reconcile.Handover{Verification: failed, UnverifiedBy: "ann"})
	release(decided, reconcile.StopInactive)
	taken := claimed(6)
	run(taken, reconcile.Canceled, reconcile.Handover{})
	release(taken, reconcile.StopTerminal)
	other := claimed(7) // it was not handed over
	run(other, reconcile.Succeeded, reconcile.Handover{})
	release(other, reconcile.StopLabel)

	want := Handovers{
		Issues:       6,
		First:        1,
		Verified:     2,
		PullRequests: 3,
		Merged:       1,
		Closed:       1,
		Checked:      2,
		Green:        1,
		Rounds:       3,
	}
	test.Equal(t, "of all", reported(t, db, epoch, at.Add(time.Hour)).Handovers, want)
	want.First = 0
	test.Equal(t, "of the second ones", test.Must(db.Views.Handovers(ctx, second, at.Add(time.Hour))), want)
}

func TestReportOfRuns(t *testing.T) {
	db := newState(t)
	a := claim(t, db, 1)
	b := claim(t, db, 2)
	ranFor(t, db, a, 1, epoch.Add(-time.Millisecond), "m", reconcile.Failed) // too early
	ranFor(t, db, a, 2, epoch, "m", reconcile.Stalled)
	ranFor(t, db, a, 3, epoch.Add(time.Hour), "m", reconcile.Failed)
	ranFor(t, db, a, 4, epoch.Add(2*time.Hour), "n", reconcile.Succeeded)
	ranFor(t, db, b, 5, epoch.Add(25*time.Hour), "m", reconcile.Canceled)
	ranFor(t, db, b, 6, epoch.Add(26*time.Hour), "m", reconcile.Failed) // too late
	r := reported(t, db, epoch, epoch.Add(26*time.Hour))

	use := reconcile.Tokens{Input: 100, Cached: 40, Output: 10, Reasoning: 5, Total: 110}
	var ids []string
	for _, run := range r.Runs {
		ids = append(ids, run.ID)
	}
	test.Equal(t, "ids of Runs", ids, []string{runID(2), runID(3), runID(4), runID(5)})
	test.Equal(t, "a run", r.Runs[1], EndedRun{
		Run: reconcile.Run{
			ID:         runID(3),
			Kind:       reconcile.AgentRun,
			IssueID:    a.IssueID,
			Identifier: "ABC-1",
			Issue:      reconcile.Issue{Title: "Title", State: "Todo", Labels: []string{"bug"}},
			Outcome:    reconcile.Failed,
			ErrorCode:  "turn_failed",
			ErrorText:  "why of 3",
			StartedAt:  epoch.Add(50 * time.Minute),
			EndedAt:    epoch.Add(time.Hour),
			Model:      "m",
			Tokens:     use,
		},
		Runtime: 10 * time.Minute,
	})
	// Days are whole, and so are their models.
	wantDays := []ModelDay{
		{"2026-11-20", reconcile.ModelUse{Model: "m", Tokens: use.Plus(use).Plus(use)}},
		{"2026-11-20", reconcile.ModelUse{Model: "n", Tokens: use}},
		{"2026-11-21", reconcile.ModelUse{Model: "m", Tokens: use.Plus(use)}},
	}
	test.Equal(t, "Days", r.Days, wantDays)
	test.Equal(
		t,
		"UsedOn",
		test.Must(db.Store.UsedOn(ctx, epoch)),
		[]reconcile.ModelUse{wantDays[0].ModelUse, wantDays[1].ModelUse},
	)
}

// TestReportOfDamagedRun: a value that can't have been stored is called damage, whatever the
// report was reading.
func TestReportOfDamagedRun(t *testing.T) {
	db := newState(t)
	ranFor(t, db, claim(t, db, 1), 1, epoch, "m", reconcile.Succeeded)
	test.Must(db.sql.ExecContext(ctx, `UPDATE runs SET outcome = NULL, settled = 0`))
	_, err := db.Views.Report(ctx, epoch, epoch.Add(-time.Hour), epoch.Add(time.Hour))
	wantCode(t, err, "state_corrupt")
}

func TestOutagesLastFromTheFirstBlockToItsEnd(t *testing.T) {
	db := newState(t)
	at := func(minutes int) time.Time { return epoch.Add(time.Duration(minutes) * time.Minute) }
	block := func(minutes int, c reconcile.Change) { test.OK(t, db.Store.Commit(ctx, at(minutes), c)) }
	block(0, reconcile.Change{TrackerBlock: &reconcile.Block{
		Code:    "linear_api_status",
		Message: "HTTP 500",
	}})
	block(1, reconcile.Change{TrackerBlock: &reconcile.Block{
		Code:    "linear_api_status",
		Message: "HTTP 503",
	}})
	block(2, reconcile.Change{AgentBlock: &reconcile.Block{
		Code:    "agent_quota",
		Message: "used up",
	}})
	block(3, reconcile.Change{TrackerBlock: &reconcile.Block{}})
	block(4, reconcile.Change{TrackerBlock: &reconcile.Block{}}) // nothing was open
	block(5, reconcile.Change{AgentBlock: &reconcile.Block{Code: "agent_auth", Message: "log in"}})
	want := []Outage{
		{
			"linear_api_status",
			"HTTP 503",
			at(0),
			at(3),
		}, {"agent_quota", "used up", at(2), at(5)}, {"agent_auth", "log in", at(5), time.Time{}},
	}
	// An outage that began before the period or has not ended belongs to the period.
	for _, c := range []struct {
		since, until int
		want         []Outage
	}{{0, 60, want}, {4, 60, want[1:]}, {0, 5, want[:2]}} {
		test.Equal(t, "Outages", reported(t, db, at(c.since), at(c.until)).Outages, c.want)
	}
}

func TestMissedPasses(t *testing.T) {
	at := func(minutes float64) time.Time { return epoch.Add(time.Duration(minutes * float64(time.Minute))) }
	since := at(0)
	until := at(60)
	for name, c := range map[string]struct {
		passes []float64
		want   ScheduleRow
	}{
		"none": {nil, ScheduleRow{}},
		"one":  {[]float64{59}, ScheduleRow{Passes: 1}},
		"late by twice the usual gap": {[]float64{50, 52, 54, 59}, ScheduleRow{
			Passes: 4,
			Usual:  new(120.0),
		}},
		"a gap": {
			[]float64{0, 1, 2, 3, 43, 44, 45, 58}, ScheduleRow{
				Passes: 8,
				Usual:  new(60.0),
				Missed: []Gap{
					{From: at(3), To: at(43), Missed: 39}, {From: at(45), To: at(58), Missed: 12},
				},
			},
		},
		"none since": {
			[]float64{0, 1, 2}, ScheduleRow{
				Passes: 3,
				Usual:  new(60.0),
				Missed: []Gap{{From: at(2), To: at(60), Missed: 57, Open: true}},
			},
		},
		"the period begins in a gap": {
			[]float64{-200, -99, 30, 31, 32, 33, 59}, ScheduleRow{
				Passes: 5,
				Usual:  new(60.0),
				Missed: []Gap{
					{
						From:   at(-99),
						To:     at(30),
						Missed: 128,
					}, {
						From:   at(33),
						To:     at(59),
						Missed: 25,
					},
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := newState(t)
			for _, m := range c.passes {
				test.Must(db.Store.SavePass(ctx, Pass{Trigger: "cron", StartedAt: at(m)}))
				// no schedule's
				test.Must(db.Store.SavePass(ctx, Pass{Trigger: "manual", StartedAt: at(m + 7)}))
			}
			got := reported(t, db, since, until).Schedule
			for i := range got.Missed { // the epoch has milliseconds
				got.Missed[i].From = got.Missed[i].From.UTC()
				got.Missed[i].To = got.Missed[i].To.UTC()
			}
			test.Equal(t, "rhythm", got, c.want)
		})
	}
}

// A report says from when on it is complete if prune deleted runs of its period.
func TestReportAfterForgetIssue(t *testing.T) {
	db := newState(t)
	c := claim(t, db, 1)
	ended := epoch.AddDate(0, 0, 10).Truncate(time.Millisecond)
	until := epoch.AddDate(0, 0, 20)
	ranFor(t, db, c, 1, ended, "m", reconcile.Succeeded)
	test.OK(t, db.Store.Commit(ctx, until, reconcile.Change{Claim: &c, Delete: true}))
	test.Equal(t, "before", reported(t, db, epoch, until).RunsSince, epoch)
	test.Must(db.Operator.ForgetIssue(ctx, c.IssueID))
	test.Equal(t, "after", reported(t, db, epoch, until).RunsSince.UTC(), ended.UTC())
}
