package state

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

func TestFindIssue(t *testing.T) {
	db := newState(t)
	claim(t, db, 1)
	insertedRun(t, db, 2)
	moved := newRun(3) // the issue had another identifier at that time
	moved.IssueID = issueOf(1).ID
	moved.Identifier = "OLD-1"
	test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Insert: &moved}))
	test.OK(t, db.Store.SaveSkips(ctx, epoch, []reconcile.Skip{
		{
			IssueID:    "id-skip",
			Identifier: "ABC-4",
			URL:        "https://linear.app/acme/issue/ABC-4/some-title",
			Reason:     reconcile.SkipNoSlot,
		},
		{IssueID: "id-else", Identifier: "ABC-1", Reason: reconcile.SkipNoSlot},
	}))

	for ref, want := range map[string][2]string{
		"ABC-1":   {"id-0001", "ABC-1"},
		"abc-1":   {"id-0001", "ABC-1"},
		"id-0001": {"id-0001", "ABC-1"},
		"aBc-2":   {"id-0002", "ABC-2"},
		"old-1":   {"id-0001", "OLD-1"},
		"abc-4":   {"id-skip", "ABC-4"},
		"id-skip": {"id-skip", "ABC-4"},
		// several or no issues end with -1 and -9
		"2":                                    {"id-0002", "ABC-2"},
		"4":                                    {"id-skip", "ABC-4"},
		"#4":                                   {"id-skip", "ABC-4"},
		"1":                                    {},
		"9":                                    {},
		"https://linear.app/acme/issue/ABC-4":  {"id-skip", "ABC-4"},
		"https://linear.app/other/issue/ABC-4": {},
		"https://linear.app/acme":              {},
		"ABC-9":                                {},
		"":                                     {},
		"ABC-%":                                {},
		"ID-0001":                              {},
	} {
		id, identifier, ok, err := db.Views.FindIssue(ctx, ref)
		test.OK(t, err)
		test.Equal(
			t,
			ref+": issue, and whether it was found",
			[]any{[2]string{id, identifier}, ok},
			[]any{want, want != [2]string{}},
		)
	}
}

func TestLatestRateLimits(t *testing.T) {
	db := newState(t)
	a := startedRun(t, db, 1)
	b := startedRun(t, db, 2)
	// The last write, by a, repeats an old record.
	for i, limits := range []string{"", `{"n":1}`, `{"n":2}`, `{"n":1}`} {
		want := limits
		r := &a
		switch i {
		case 2:
			r = &b
		case 3:
			want = `{"n":2}`
		}
		r.RateLimits = []byte(limits)
		test.Must(db.Journal.UpdateRun(ctx, epoch.Add(time.Duration(i)*time.Second), *r))
		test.Equal(t, "the latest limits", string(test.Must(db.Views.RateLimits(ctx))), want)
	}
}

func TestPasses(t *testing.T) {
	db := newState(t)
	if _, ok, err := db.Views.LastPass(ctx); ok || err != nil {
		t.Errorf("a pass before the first: %v", err)
	}
	var all, scheduled []Pass // the newest first
	for i := range 20 {
		p := Pass{
			Trigger:   []string{"cron", "worker", "timer", "loop", "manual"}[i%5],
			StartedAt: epoch.Add(time.Duration(i) * time.Minute),
			Duration:  1500 * time.Millisecond,
			Actions:   i,
			Skipped:   2,
			Errors: []reconcile.Error{{
				Code:    "linear_api_status",
				Message: fmt.Sprint("HTTP ", 500+i),
			}},
			BootID: "boot",
			Mono:   time.Duration(i) * time.Minute,
		}
		id := test.Must(db.Store.SavePass(ctx, p))
		p.ID = id
		all = append([]Pass{p}, all...)
		if p.Trigger != "worker" && p.Trigger != "manual" {
			scheduled = append([]Pass{p}, scheduled...)
		}
	}
	last, _, err := db.Views.LastPass(ctx)
	test.OK(t, err)
	recent := test.Must(db.passes(ctx, `ORDER BY id DESC LIMIT ?`, 3))
	if diff := cmp.Diff(all[:3], recent) + cmp.Diff(all[0], last); diff != "" {
		t.Error(diff)
	}
	test.Equal(t, "of the schedule", test.Must(db.Views.ScheduledPasses(ctx)), scheduled[:6])
	withoutLoop := slices.DeleteFunc(scheduled, func(p Pass) bool { return p.Trigger == "loop" })
	test.Equal(t, "of cron and timers", test.Must(db.Views.ScheduledPassesWithoutLoop(ctx)), withoutLoop[:6])
}

// TestIdlePassWritesOnce checks that a pass with nothing to do writes only its own record.
func TestIdlePassWritesOnce(t *testing.T) {
	db := newState(t)
	skips := []reconcile.Skip{{IssueID: "a", Identifier: "ABC-1", Reason: reconcile.SkipNoSlot}}
	pass := func(now time.Time) {
		t.Helper()
		test.Must(db.Store.State(ctx))
		test.OK(t, db.Store.Commit(ctx, now, reconcile.Change{}))
		test.OK(t, db.Store.SaveSkips(ctx, now, skips))
		test.OK(t, db.SetMeta(ctx, "last_good_workflow", "text"))
		test.Must(db.Store.SavePass(ctx, Pass{Trigger: "cron", StartedAt: now}))
		test.Must(db.Store.Prune(ctx, now, 100))
	}
	pass(epoch)
	before := changes(t, db)
	pass(epoch.Add(time.Minute))
	test.Equal(t, "rows written", changes(t, db)-before, 1)
}

// TestStateOf checks that a plan for one issue gets its claim, the claims that have a slot,
// and everything else of the state.
func TestStateOf(t *testing.T) {
	db := newState(t)
	for i, status := range []reconcile.ClaimStatus{
		reconcile.Waiting, reconcile.Running, reconcile.Held, reconcile.Waiting, reconcile.Waiting,
	} {
		c := reconcile.Claim{
			IssueID: issueOf(i).ID, Identifier: issueOf(i).Identifier, Status: status,
			DueAt: epoch.Add(time.Duration(i) * time.Minute), Issue: issueOf(i), ClaimedAt: epoch,
		}
		test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Claim: &c}))
	}
	test.Must(db.Operator.AddCommand(ctx, reconcile.Command{
		Verb:      reconcile.VerbPause,
		CreatedAt: epoch,
	}))
	startedRun(t, db, 7)
	all := test.Must(db.Store.State(ctx))
	for issue, want := range map[string][]string{
		issueOf(0).ID: {issueOf(0).ID, issueOf(1).ID},
		issueOf(1).ID: {issueOf(1).ID},
		issueOf(2).ID: {issueOf(1).ID, issueOf(2).ID},
		"":            {issueOf(1).ID},
	} {
		rec := test.Must(db.Views.StateOf(ctx, issue))
		got := test.Map(rec.Claims, func(c reconcile.Claim) string { return c.IssueID })
		diff := cmp.Diff(want, got)
		rec.Claims = all.Claims
		diff += cmp.Diff(all, rec)
		if diff != "" {
			t.Errorf("%s: %s", issue, diff)
		}
	}
}

// However claims change, a reader with a cache gets what one without gets.
func TestClaimCache(t *testing.T) {
	db := newState(t)
	var cache ClaimCache
	check := func(after string) {
		t.Helper()
		test.Equal(t, after, test.Must(db.Views.State(ctx, &cache)), test.Must(db.Store.State(ctx)))
	}
	check("nothing")
	claims := map[int]reconcile.Claim{}
	for i := range 4 {
		claims[i] = claim(t, db, i)
	}
	check("new claims")
	held := claims[0]
	held.Status = reconcile.Held
	held.HoldReason = reconcile.HoldOperator
	held.HeldAt = epoch
	held.Project = "theirs"
	held.WorkspaceRoot = "/old/ws"
	held.Issue.Labels = []string{"other"}
	gone := claims[1]
	test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Claim: &held}, reconcile.Change{
		Claim:  &gone,
		Delete: true,
	}))
	check("a hold and an end")
	test.OK(t, db.Store.KeepHold(ctx, Hold{
		IssueID:   held.IssueID,
		CommentAt: epoch.Add(time.Minute),
	}))
	check("a comment that ends no hold")
	test.OK(t, db.Operator.MoveProjects(ctx, func(project string) string { return project + " moved" }))
	check("a move of the project")
	test.OK(t, db.Operator.MoveWorkspaces(ctx, "/old", "/new"))
	check("a move of the workspaces")
	tried, _, err := db.Views.ClaimByIssue(ctx, claims[3].IssueID)
	test.OK(t, err)
	tried.Attempt = 1
	test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Claim: &tried}))
	check("another attempt")
	startedRun(t, db, 2)
	check("a run")
	claim(t, db, 1)
	check("a claim that was gone")
}

// The issues that an issue blocks are claims, or issues that the last pass skipped.
func TestBlockedByIssue(t *testing.T) {
	db := newState(t)
	c := claim(t, db, 7)
	test.Must(
		db.sql.Exec(
			`UPDATE claims SET issue = json_set(issue, '$.blocked_by', json('[{"identifier":"ABC-1"}]')) WHERE issue_id = ?`,
			c.IssueID,
		),
	)
	test.Must(db.sql.Exec(`INSERT INTO skips (issue_id, identifier, reason, message, since, title, url) VALUES
		('id-8', 'ABC-8', 'blocked_by', 'it waits for ABC-11, ABC-1', 0, '', ''), ('id-9', 'ABC-9', 'blocked_by', 'it waits for ABC-11', 0, '', '')`))
	test.Equal(
		t,
		"blocked by ABC-1",
		test.Must(db.Views.BlockedByIssue(ctx, "ABC-1")),
		[]string{c.Identifier, "ABC-8"},
	)
}
