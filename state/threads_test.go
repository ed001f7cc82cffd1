package state

import (
	"context"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// TestToldIsKeptWithTheThread checks that what a thread was told outlives its run and costs no token.
func TestToldIsKeptWithTheThread(t *testing.T) {
	ctx := context.Background()
	db := newState(t)
	r := startedRun(t, db, 1)
	told := func(thread string) reconcile.LastSeen {
		t.Helper()
		got, _, err := db.Told(ctx, thread)
		check(t, err)
		return got
	}
	if _, known, err := db.Told(ctx, "t1"); known || err != nil {
		t.Errorf("of an unknown thread: %v, %v", known, err)
	}
	first := reconcile.LastSeen{CommentAt: epoch, Description: "aa", Prompt: "p1"}
	check(t, db.Tell(ctx, r.ID, r.IssueID, reconcile.Thread{ID: "t1", WorkspaceID: "space"}, first, epoch))
	if got := told("t1"); got != first {
		t.Errorf("a new thread was told %+v, want %+v", got, first)
	}
	used := reconcile.Tokens{Input: 90, Output: 10, Total: 100}
	check(t, db.SaveThread(ctx, r.ID, r.IssueID, "t1", "space", used, epoch))
	// A description that came back, and a comment seen out of order, which does not bring back what is known.
	check(t, db.Tell(ctx, r.ID, r.IssueID, reconcile.Thread{ID: "t1", WorkspaceID: "space"}, reconcile.LastSeen{CommentAt: epoch.Add(-time.Hour), Description: "bb", Prompt: "p2"}, epoch))
	if got, want := told("t1"), (reconcile.LastSeen{CommentAt: epoch, Description: "bb", Prompt: "p2"}); got != want {
		t.Errorf("told %+v, want %+v", got, want)
	}
	if got, _, err := db.Thread(ctx, "t1"); err != nil || got != used {
		t.Errorf("the thread used %+v, %v", got, err)
	}
	r.Outcome = reconcile.Succeeded
	check(t, db.Finish(ctx, epoch, r))
	wantConflict(t, db.Tell(ctx, r.ID, r.IssueID, reconcile.Thread{ID: "t1", WorkspaceID: "space"}, reconcile.LastSeen{CommentAt: epoch, Description: "cc"}, epoch))
	if got := told("t1"); got.Description != "bb" {
		t.Errorf("an ended run told the thread %+v", got)
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

// A thread is where codex keeps it: what another home holds is not offered, and is again when that home is.
func TestLastThreadByHome(t *testing.T) {
	const first, second = "/home/ann/.codex", "/srv/codex"
	type past struct{ thread, home string } // home "": not stored
	for name, c := range map[string]struct {
		runs         []past
		home         string
		newest, here string
	}{
		"none":                       {nil, first, "", ""},
		"the same":                   {[]past{{"a", first}}, first, "a", "a"},
		"another":                    {[]past{{"a", first}}, second, "a", ""},
		"switched":                   {[]past{{"a", first}, {"b", second}}, second, "b", "b"},
		"switched back":              {[]past{{"a", first}, {"b", second}}, first, "b", "a"},
		"switched back twice":        {[]past{{"a", first}, {"b", second}, {"a", first}}, second, "a", "b"},
		"of an earlier version":      {[]past{{"a", ""}}, second, "a", "a"},
		"an earlier version's, back": {[]past{{"a", ""}, {"b", second}}, first, "b", "a"},
		"known by a later run only":  {[]past{{"a", ""}, {"a", first}}, second, "a", ""},
		"one that has no home":       {[]past{{"a", first}, {"b", second}}, "", "b", "b"},
		"runs without a thread":      {[]past{{"a", first}, {"", ""}}, first, "a", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, db := context.Background(), newState(t)
			for i, p := range c.runs {
				r := newRun(1)
				r.ID = runID(i)
				check(t, db.Commit(ctx, epoch, reconcile.Change{Insert: &r}))
				r, err := db.TakeRun(ctx, r.ID, worker, epoch)
				check(t, err)
				r.ThreadID, r.WorkspaceID, r.Outcome = p.thread, "ws-"+p.thread, reconcile.Failed
				if p.thread != "" {
					thread := reconcile.Thread{ID: p.thread, WorkspaceID: r.WorkspaceID, CodexHome: p.home}
					check(t, db.Tell(ctx, r.ID, r.IssueID, thread, reconcile.LastSeen{Description: "aa"}, epoch))
				}
				check(t, db.Finish(ctx, epoch, r))
			}
			newest, here, err := db.LastThread(ctx, issueOf(1).ID, c.home)
			check(t, err)
			if newest.ID != c.newest || here.ID != c.here {
				t.Errorf("newest %+v, here %+v", newest, here)
			}
			if here.ID != "" && (here.WorkspaceID != "ws-"+here.ID || here.Failed == 0 && newest.ID == here.ID) {
				t.Errorf("here %+v", here)
			}
		})
	}
}

// What the machine is to blame for says nothing about the thread: after an outage the work goes on in it. Only an
// agent that refuses what it is asked may do so because of the thread.
func TestLastThreadMachineFaults(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		codes []string
		want  int
	}{
		"outage":            {[]string{"network", "network", "agent_auth", "linear_api_status"}, 0},
		"failure in outage": {[]string{"network", "turn_failed", "network"}, 1},
		"refused":           {[]string{"codex_incompatible", "codex_incompatible"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			db := newState(t)
			for i, code := range c.codes {
				r := newRun(1)
				r.ID = runID(i)
				check(t, db.Commit(ctx, epoch, reconcile.Change{Insert: &r}))
				r, err := db.TakeRun(ctx, r.ID, worker, epoch)
				check(t, err)
				r.ThreadID, r.WorkspaceID, r.Outcome, r.ErrorCode = "a", "ws", reconcile.Failed, code
				check(t, db.Finish(ctx, epoch, r))
			}
			if _, last, err := db.LastThread(ctx, issueOf(1).ID, ""); err != nil || last.Failed != c.want {
				t.Errorf("%d in a row, %v; want %d", last.Failed, err, c.want)
			}
		})
	}
}
