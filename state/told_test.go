package state

import (
	"context"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// What a thread was told outlives its run, goes with the thread, and costs no token.
func TestToldIsKeptWithTheThread(t *testing.T) {
	ctx := context.Background()
	db := newState(t)
	r := startedRun(t, db, 1)
	told := func(thread string) reconcile.Told {
		t.Helper()
		got, _, err := db.Told(ctx, thread)
		check(t, err)
		return got
	}
	if _, known, err := db.Told(ctx, "t1"); known || err != nil {
		t.Errorf("of an unknown thread: %v, %v", known, err)
	}
	first := reconcile.Told{CommentAt: epoch, Description: "aa", Prompt: "p1"}
	check(t, db.Tell(ctx, r.ID, r.IssueID, reconcile.Thread{ID: "t1", WorkspaceID: "space"}, first, epoch))
	if got := told("t1"); got != first {
		t.Errorf("a new thread was told %+v, want %+v", got, first)
	}
	used := reconcile.Tokens{Input: 90, Output: 10, Total: 100}
	check(t, db.SaveThread(ctx, r.ID, r.IssueID, "t1", "space", used, epoch))
	// A description that came back, and a comment seen out of order, which does not bring back what is known.
	check(t, db.Tell(ctx, r.ID, r.IssueID, reconcile.Thread{ID: "t1", WorkspaceID: "space"}, reconcile.Told{CommentAt: epoch.Add(-time.Hour), Description: "bb", Prompt: "p2"}, epoch))
	if got, want := told("t1"), (reconcile.Told{CommentAt: epoch, Description: "bb", Prompt: "p2"}); got != want {
		t.Errorf("told %+v, want %+v", got, want)
	}
	if got, _, err := db.Thread(ctx, "t1"); err != nil || got != used {
		t.Errorf("the thread used %+v, %v", got, err)
	}
	r.Outcome = reconcile.Succeeded
	check(t, db.Finish(ctx, epoch, r))
	wantConflict(t, db.Tell(ctx, r.ID, r.IssueID, reconcile.Thread{ID: "t1", WorkspaceID: "space"}, reconcile.Told{CommentAt: epoch, Description: "cc"}, epoch))
	if got := told("t1"); got.Description != "bb" {
		t.Errorf("an ended run told the thread %+v", got)
	}
}

// A resumed thread that is told something first counts for the new run only what it uses in it.
func TestTellingBeginsANewShareOfTheThread(t *testing.T) {
	ctx := context.Background()
	db := newState(t)
	r := startedRun(t, db, 1)
	check(t, db.SaveThread(ctx, r.ID, r.IssueID, "t1", "space", reconcile.Tokens{Input: 90, Output: 10, Total: 100}, epoch))
	r.Outcome = reconcile.Succeeded
	check(t, db.Finish(ctx, epoch, r))
	next := newRun(1)
	next.ID = runID(2)
	check(t, db.Commit(ctx, epoch, reconcile.Change{Insert: &next}))
	_, err := db.TakeRun(ctx, next.ID, worker, epoch)
	check(t, err)
	check(t, db.Tell(ctx, next.ID, next.IssueID, reconcile.Thread{ID: "t1", WorkspaceID: "space"}, reconcile.Told{Description: "aa"}, epoch))
	check(t, db.SaveThread(ctx, next.ID, next.IssueID, "t1", "space", reconcile.Tokens{Input: 95, Output: 12, Total: 107}, epoch))
	if got := mustRun(t, db, next.ID).Tokens; got != (reconcile.Tokens{Input: 5, Output: 2, Total: 7}) {
		t.Errorf("the second run used %+v", got)
	}
}

// Threads of earlier versions, and those whose first turn's row was lost, say that they don't know.
func TestToldIsNotKnownOfOldThreads(t *testing.T) {
	ctx := context.Background()
	db := newState(t)
	r := startedRun(t, db, 1)
	check(t, db.SaveThread(ctx, r.ID, r.IssueID, "t1", "space", reconcile.Tokens{Input: 1, Total: 1}, epoch))
	if got, known, err := db.Told(ctx, "t1"); known || err != nil {
		t.Errorf("told %+v, %v", got, err)
	}
}

func TestLastRunOfAThread(t *testing.T) {
	ctx := context.Background()
	db := newState(t)
	if _, found, err := db.LastRunOf(ctx, issueOf(1).ID, "t1"); found || err != nil {
		t.Errorf("of an unknown thread: %v, %v", found, err)
	}
	for i, c := range []struct {
		thread string
		turns  int
		ends   bool
		want   string // the last run of t1 then
	}{
		{"t1", 0, true, runID(0)},
		{"t1", 2, true, runID(1)},
		{"t1", 1, true, runID(2)},
		{"t1", 0, true, runID(2)}, // it failed before it had a turn: that says nothing of the work
		{"t2", 3, true, runID(2)},
		{"", 0, true, runID(2)},
		{"t1", 1, false, runID(2)}, // the one that asks
	} {
		r := newRun(1)
		r.ID = runID(i)
		check(t, db.Commit(ctx, epoch, reconcile.Change{Insert: &r}))
		r, err := db.TakeRun(ctx, r.ID, worker, epoch)
		check(t, err)
		r.ThreadID, r.Turns = c.thread, c.turns
		if c.ends {
			r.Outcome = reconcile.Failed
			check(t, db.Finish(ctx, epoch, r))
		} else {
			_, err = db.UpdateRun(ctx, epoch, r)
			check(t, err)
		}
		if got, found, err := db.LastRunOf(ctx, r.IssueID, "t1"); err != nil || !found || got.ID != c.want {
			t.Errorf("after run %d it is %s (%v), %v, want %s", i, got.ID, found, err, c.want)
		}
	}
}
