package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// usage returns the count of a thread that has used n units.
func usage(n int64) reconcile.Tokens {
	return reconcile.Tokens{Input: 5 * n, Cached: 3 * n, Output: 2 * n, Reasoning: n, Total: 7 * n}
}

// TestTokensCountOnce checks that each token that a thread has used counts once: for its run,
// issue, day and thread, and for the totals when its run is settled. Tokens that a dead worker
// did not report are in the next report of the thread.
func TestTokensCountOnce(t *testing.T) {
	dir := newDir(t)
	db := createIn(t, dir)
	tomorrow := epoch.Add(24 * time.Hour)
	begin := func(n, issue int, at time.Time) {
		t.Helper()
		r := newRun(issue)
		r.ID = runID(n)
		r.StartedAt = at
		test.OK(t, db.Store.Commit(ctx, at, reconcile.Change{Insert: &r}))
		test.Must(db.Journal.TakeRun(ctx, r.ID, worker, at))
	}
	report := func(what string, n int, at time.Time, thread string, used, ofThread, ofRun int64) {
		t.Helper()
		r := mustRun(t, db, runID(n))
		in := reconcile.Thread{ID: thread, WorkspaceID: "ws"}
		test.OK(t, db.Journal.SaveThread(ctx, r.ID, r.IssueID, in, usage(used), at))
		known, _, err := db.Journal.Thread(ctx, thread)
		test.OK(t, err)
		test.Equal(t, what+": thread", known, usage(ofThread))
		test.Equal(t, what+": run", mustRun(t, db, r.ID).Tokens, usage(ofRun))
		test.Must(db.Journal.UpdateRun(ctx, at, mustRun(t, db, r.ID)))
	}
	end := func(n int, at time.Time) {
		t.Helper()
		finished := mustRun(t, db, runID(n))
		wantConflict(t, db.Store.Commit(ctx, at, reconcile.Change{Settle: runID(n)}))
		finished.Outcome = reconcile.Failed
		test.OK(t, db.Journal.Finish(ctx, at, finished))
		test.OK(t, db.Store.Commit(ctx, at, reconcile.Change{Settle: runID(n)}))
		wantConflict(t, db.Store.Commit(ctx, at, reconcile.Change{Settle: runID(n)}))
	}
	begin(1, 1, epoch)
	report("the first", 1, epoch, "a", 10, 10, 10)
	report("repeated", 1, epoch, "a", 10, 10, 10)
	report("late", 1, epoch, "a", 4, 10, 10)
	report("a second thread", 1, epoch, "b", 3, 3, 13)
	report("more", 1, epoch, "a", 12, 12, 15)
	end(1, epoch.Add(time.Minute))
	begin(2, 1, tomorrow)
	report("of the next run, with what was not reported", 2, tomorrow, "a", 20, 20, 8)
	report("repeated from the run before", 2, tomorrow, "b", 3, 3, 8)
	begin(3, 2, tomorrow)
	report("another issue's", 3, tomorrow, "c", 1, 1, 1)
	end(3, tomorrow.Add(time.Minute))
	wantTotals(t, db, Totals{usage(15 + 1), 2 * time.Minute})
	end(2, tomorrow.Add(time.Minute))

	reopened := openIn(t, dir)
	wantTotals(t, reopened, Totals{usage(15 + 8 + 1), 3 * time.Minute})
	for issue, want := range map[int]Totals{
		1: {usage(15 + 8), 2 * time.Minute},
		2: {usage(1), time.Minute},
	} {
		totals := test.Must(reopened.Runs.TotalsOf(ctx, issueOf(issue).ID))
		test.Equal(t, fmt.Sprint("totals of issue ", issue), totals, want)
	}
	for at, want := range map[time.Time]int64{epoch: 15, tomorrow: 8 + 1} {
		used := test.Must(reopened.Store.UsedOn(ctx, at))
		test.Equal(t, "used on the day "+at.String(), used, []reconcile.ModelUse{{Tokens: usage(want)}})
	}
	begin(4, 1, tomorrow)
	report("after the settlement", 4, tomorrow, "a", 21, 21, 1)
	tokens := test.Must(db.Journal.IssueTokens(ctx, issueOf(1).ID))
	test.Equal(t, "tokens of issue 1, settled or not", tokens, usage(15+8+1).Total)
}
