package state

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/symphony-cron/symphony/reconcile"
)

// history stores runs 0 to 6, of issue 0 the even ones; 4 removed its workspace. Each but the last ends a minute after
// the one before.
func history(t *testing.T) *DB {
	t.Helper()
	ctx := context.Background()
	db := newState(t)
	for i := range 7 {
		r := newRun(i % 2)
		if r.ID = runID(i); i == 4 {
			r.Kind = reconcile.CleanupRun
		}
		check(t, db.Commit(ctx, epoch, reconcile.Change{Insert: &r}))
		if i < 6 {
			check(t, db.EndDead(ctx, epoch.Add(time.Duration(i)*time.Minute), mustRun(t, db, r.ID), reconcile.Lost, "", ""))
		}
	}
	return db
}

func idsOf(t *testing.T, runs []reconcile.Run, err error) (ids []string) {
	t.Helper()
	check(t, err)
	for _, r := range runs {
		ids = append(ids, r.ID)
	}
	return ids
}

// One that goes on is at work now; one that ended at that very moment counts.
func TestRunsSince(t *testing.T) {
	ctx, db := context.Background(), history(t)
	for since, want := range map[time.Time][]string{
		{}:                          {runID(0), runID(2), runID(6)},
		epoch.Add(2 * time.Minute):  {runID(2), runID(6)},
		epoch.Add(3 * time.Minute):  {runID(6)},
		epoch.Add(99 * time.Minute): {runID(6)},
	} {
		runs, err := db.RunsSince(ctx, issueOf(0).ID, since)
		if diff := cmp.Diff(want, idsOf(t, runs, err)); diff != "" {
			t.Errorf("since %s: %s", since, diff)
		}
	}
}

func TestNextAndLastRun(t *testing.T) {
	ctx, db := context.Background(), history(t)
	for after, want := range map[string]string{"": runID(0), runID(0): runID(2), runID(2): runID(6), runID(6): ""} {
		run, ok, err := db.NextRun(ctx, issueOf(0).ID, after)
		check(t, err)
		if run.ID != want || ok != (want != "") {
			t.Errorf("after %q: %q, want %q", after, run.ID, want)
		}
	}
	for issue, want := range map[string]string{issueOf(0).ID: runID(6), issueOf(1).ID: runID(5), "other": ""} {
		run, ok, err := db.LastRun(ctx, issue)
		check(t, err)
		if run.ID != want || ok != (want != "") {
			t.Errorf("%s: %q, want %q", issue, run.ID, want)
		}
	}
	n, err := db.CountRuns(ctx, issueOf(0).ID)
	check(t, err)
	if n != 4 {
		t.Errorf("%d runs, want 4", n)
	}
}

// An id is looked for as it stands: no character of it means another.
func TestRunsByPrefix(t *testing.T) {
	ctx, db := context.Background(), history(t)
	for prefix, want := range map[string][]string{
		"run-":     {runID(6), runID(4), runID(2)},
		runID(2):   {runID(2)},
		"run-00_":  nil,
		"un-":      nil,
		runID(1):   nil,
		"run-0%":   nil,
		"RUN-0000": nil,
	} {
		runs, err := db.RunsByPrefix(ctx, issueOf(0).ID, prefix, 3)
		if diff := cmp.Diff(want, idsOf(t, runs, err)); diff != "" {
			t.Errorf("%s: %s", prefix, diff)
		}
	}
}

func TestIdentifiers(t *testing.T) {
	ctx, db := context.Background(), history(t)
	claim(t, db, 8)
	check(t, db.SaveSkips(ctx, epoch, []reconcile.Skip{{IssueID: "s", Identifier: "SKIP-1", Reason: "label"}, {IssueID: issueOf(0).ID, Identifier: issueOf(0).Identifier, Reason: "label"}}))
	names, err := db.Identifiers(ctx)
	check(t, err)
	if diff := cmp.Diff([]string{issueOf(0).Identifier, issueOf(1).Identifier, issueOf(8).Identifier, "SKIP-1"}, names); diff != "" {
		t.Error(diff)
	}
}

// A plan for one issue depends on its claim and on those that have a slot; all others stay where they are, and are counted.
func TestRecordedOf(t *testing.T) {
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
