package state

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/symphony-cron/symphony/reconcile"
)

func TestFindIssue(t *testing.T) {
	ctx := context.Background()
	db := newState(t)
	claim(t, db, 1)
	insertedRun(t, db, 2)
	moved := newRun(3) // run under an identifier that the issue no longer has
	moved.IssueID, moved.Identifier = issueOf(1).ID, "OLD-1"
	check(t, db.Commit(ctx, epoch, reconcile.Change{Insert: &moved}))
	check(t, db.SaveSkips(ctx, epoch, []reconcile.Skip{
		{IssueID: "id-skip", Identifier: "ABC-4", Reason: reconcile.SkipNoSlot},
		{IssueID: "id-else", Identifier: "ABC-1", Reason: reconcile.SkipNoSlot},
	}))
	for ref, want := range map[string][2]string{
		"ABC-1": {"id-0001", "ABC-1"}, "abc-1": {"id-0001", "ABC-1"}, "id-0001": {"id-0001", "ABC-1"},
		"aBc-2": {"id-0002", "ABC-2"}, "old-1": {"id-0001", "OLD-1"},
		"abc-4": {"id-skip", "ABC-4"}, "id-skip": {"id-skip", "ABC-4"},
		"ABC-9": {}, "": {}, "ABC-%": {}, "ID-0001": {},
	} {
		id, identifier, ok, err := db.FindIssue(ctx, ref)
		check(t, err)
		if got := [2]string{id, identifier}; got != want || ok != (want != [2]string{}) {
			t.Errorf("%q is %v %v, want %v", ref, got, ok, want)
		}
	}
}

func TestLatestRateLimits(t *testing.T) {
	ctx := context.Background()
	db := newState(t)
	if limits, err := db.RateLimits(ctx); limits != nil || err != nil {
		t.Errorf("rate limits before the first: %s %v", limits, err)
	}
	a, b := startedRun(t, db, 1), startedRun(t, db, 2)
	write := func(r *reconcile.Run, limits string, at time.Time) {
		t.Helper()
		r.RateLimits = []byte(limits)
		_, err := db.UpdateRun(ctx, at, *r)
		check(t, err)
	}
	write(&a, `{"n":1}`, epoch.Add(time.Second))
	write(&b, `{"n":2}`, epoch.Add(2*time.Second))
	write(&a, `{"n":1}`, epoch.Add(3*time.Second)) // a heartbeat with nothing new
	limits, err := db.RateLimits(ctx)
	check(t, err)
	if string(limits) != `{"n":2}` {
		t.Errorf("latest is %s", limits)
	}
}

func TestPasses(t *testing.T) {
	ctx := context.Background()
	db := newState(t)
	if _, ok, err := db.LastPass(ctx); ok || err != nil {
		t.Errorf("a pass before the first: %v", err)
	}
	var all []Pass
	for i := range 20 {
		p := Pass{
			Trigger:   []string{"cron", "worker", "timer", "loop", "manual"}[i%5],
			StartedAt: epoch.Add(time.Duration(i) * time.Minute), Duration: 1500 * time.Millisecond, Actions: i,
			Skipped: 2, Errors: []PassError{{Code: "linear_api_status", Message: fmt.Sprint("HTTP ", 500+i)}},
			BootID: "boot", Mono: time.Duration(i) * time.Minute,
		}
		id, err := db.SavePass(ctx, p)
		check(t, err)
		p.ID = id
		all = append([]Pass{p}, all...)
	}
	last, ok, err := db.LastPass(ctx)
	check(t, err)
	if diff := cmp.Diff(all[0], last); !ok || diff != "" {
		t.Error(diff)
	}
	recent, err := db.passes(ctx, `ORDER BY id DESC LIMIT ?`, 3)
	check(t, err)
	if diff := cmp.Diff(all[:3], recent); diff != "" {
		t.Error(diff)
	}
	var want []Pass
	for _, p := range all {
		if scheduled := p.Trigger == "cron" || p.Trigger == "timer" || p.Trigger == "loop"; scheduled && len(want) < 6 {
			want = append(want, p)
		}
	}
	got, err := db.ScheduleGaps(ctx)
	check(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMeta(t *testing.T) {
	ctx := context.Background()
	db := newState(t)
	if _, ok, err := db.Meta(ctx, "last_good_workflow"); ok || err != nil {
		t.Errorf("a value before the first: %v", err)
	}
	for _, value := range []string{"one", "", "two"} {
		check(t, db.SetMeta(ctx, "last_good_workflow", value))
		if got, ok, err := db.Meta(ctx, "last_good_workflow"); err != nil || !ok || got != value {
			t.Errorf("%q is %q %v %v", value, got, ok, err)
		}
	}
	before := changes(t, db)
	check(t, db.SetMeta(ctx, "last_good_workflow", "two"))
	if changes(t, db) != before {
		t.Error("the same value was written again")
	}
	for _, key := range []string{"schema", "oldest_writer", "totals_input", "paused", "blocked_agent"} {
		if err := db.SetMeta(ctx, key, "9"); err == nil {
			t.Errorf("%s was overwritten", key)
		}
	}
}

// A pass with nothing to do writes its own record and nothing else.
func TestIdlePassWritesOnce(t *testing.T) {
	ctx := context.Background()
	db := newState(t)
	skips := []reconcile.Skip{{IssueID: "a", Identifier: "ABC-1", Reason: reconcile.SkipNoSlot}}
	pass := func(now time.Time) {
		t.Helper()
		_, err := db.State(ctx)
		check(t, err)
		check(t, db.Commit(ctx, now, reconcile.Change{}))
		check(t, db.SaveSkips(ctx, now, skips))
		check(t, db.SetMeta(ctx, "last_good_workflow", "text"))
		_, err = db.SavePass(ctx, Pass{Trigger: "cron", StartedAt: now})
		check(t, err)
		_, err = db.Prune(ctx, now, 100)
		check(t, err)
	}
	pass(epoch)
	before := changes(t, db)
	pass(epoch.Add(time.Minute))
	if n := changes(t, db) - before; n != 1 {
		t.Errorf("%d rows were written", n)
	}
}

// A plan for one issue depends on its claim and on those that have a slot; all others stay where they are, and are counted.
func TestStateOf(t *testing.T) {
	ctx, db := context.Background(), newState(t)
	for i, status := range []reconcile.ClaimStatus{reconcile.Waiting, reconcile.Running, reconcile.Held, reconcile.Waiting, reconcile.Waiting} {
		c := reconcile.Claim{
			IssueID: issueOf(i).ID, Identifier: issueOf(i).Identifier, Status: status, DueAt: epoch.Add(time.Duration(i) * time.Minute), Issue: issueOf(i), ClaimedAt: epoch,
		}
		check(t, db.Commit(ctx, epoch, reconcile.Change{Claim: &c}))
	}
	_, err := db.AddCommand(ctx, reconcile.Command{Verb: reconcile.VerbPause, CreatedAt: epoch})
	check(t, err)
	startedRun(t, db, 7)
	all, err := db.State(ctx)
	check(t, err)
	for issue, want := range map[string]struct {
		claims []string
		others reconcile.OtherCounts
	}{
		issueOf(0).ID: {[]string{issueOf(0).ID, issueOf(1).ID}, reconcile.OtherCounts{Waiting: 2, Held: 1, NextDue: epoch.Add(3 * time.Minute)}},
		issueOf(1).ID: {[]string{issueOf(1).ID}, reconcile.OtherCounts{Waiting: 3, Held: 1, NextDue: epoch}},
		issueOf(2).ID: {[]string{issueOf(1).ID, issueOf(2).ID}, reconcile.OtherCounts{Waiting: 3, NextDue: epoch}},
		"":            {[]string{issueOf(1).ID}, reconcile.OtherCounts{Waiting: 3, Held: 1, NextDue: epoch}},
	} {
		rec, err := db.StateOf(ctx, issue)
		check(t, err)
		var got []string
		for _, c := range rec.Claims {
			got = append(got, c.IssueID)
		}
		if diff := cmp.Diff(want.claims, got); diff != "" {
			t.Errorf("%s: %s", issue, diff)
		}
		if diff := cmp.Diff(want.others, rec.Others); diff != "" {
			t.Errorf("%s: %s", issue, diff)
		}
		rec.Claims, rec.Others = all.Claims, reconcile.OtherCounts{}
		if diff := cmp.Diff(all, rec); diff != "" {
			t.Errorf("%s: all else is the same: %s", issue, diff)
		}
	}
	for at, want := range map[time.Duration]int{0: 0, 3 * time.Minute: 1, 4 * time.Minute: 2} {
		n, err := db.CountDue(ctx, issueOf(0).ID, epoch.Add(at))
		check(t, err)
		if n != want {
			t.Errorf("%s on, %d others are due, want %d", at, n, want)
		}
	}
	check(t, db.SaveSkips(ctx, epoch, []reconcile.Skip{{IssueID: "a", Identifier: "A-1", Reason: "label", Message: "m"}}))
	for id, want := range map[string]string{"a": "label", "b": ""} {
		s, ok, err := db.SkipOf(ctx, id)
		check(t, err)
		if s.Reason != want || ok != (want != "") {
			t.Errorf("%s: %+v", id, s)
		}
	}
}
