package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// TestLastSeenStaysWithTheThread checks that what an agent knows is stored with the thread,
// after its run, too, and does not change the tokens.
func TestLastSeenStaysWithTheThread(t *testing.T) {
	db := newState(t)
	r := startedRun(t, db, 1)
	told := func(thread string) reconcile.LastSeen {
		t.Helper()
		got, _, err := db.Journal.LastSeen(ctx, thread)
		test.OK(t, err)
		return got
	}
	_, known, err := db.Journal.LastSeen(ctx, "t1")
	test.Equal(t, "an unknown thread", []any{known, err}, []any{false, nil})
	t1 := reconcile.Thread{ID: "t1", WorkspaceID: "space"}
	first := reconcile.LastSeen{CommentAt: epoch, Description: "aa", Prompt: "p1"}
	test.OK(t, db.Journal.RecordLastSeen(ctx, r.ID, r.IssueID, t1, first, epoch))
	test.Equal(t, "a new thread was told", told("t1"), first)
	used := reconcile.Tokens{Input: 90, Output: 10, Total: 100}
	test.OK(t, db.Journal.SaveThread(ctx, r.ID, r.IssueID, t1, used, epoch))
	// A changed description replaces the other; an older comment does not.
	test.OK(t, db.Journal.RecordLastSeen(ctx, r.ID, r.IssueID, t1,
		reconcile.LastSeen{
			CommentAt:   epoch.Add(-time.Hour),
			Description: "bb",
			Prompt:      "p2",
			Base:        "b2",
		}, epoch))
	test.Equal(t, "told", told("t1"), reconcile.LastSeen{
		CommentAt:   epoch,
		Description: "bb",
		Prompt:      "p2",
		Base:        "b2",
	})
	if got, _, err := db.Journal.Thread(ctx, "t1"); err != nil || got != used {
		t.Errorf("the thread used %+v, %v", got, err)
	}
	r.Outcome = reconcile.Succeeded
	test.OK(t, db.Journal.Finish(ctx, epoch, r))
	wantConflict(t, db.Journal.RecordLastSeen(ctx, r.ID, r.IssueID, t1, reconcile.LastSeen{
		CommentAt:   epoch,
		Description: "cc",
	}, epoch))
	test.Equal(t, "after the run the thread knows", told("t1").Description, "bb")
}

func TestLastRunOfAThread(t *testing.T) {
	db := newState(t)
	_, found, err := db.Journal.LastRunOf(ctx, issueOf(1).ID, "t1")
	test.Equal(t, "an unknown thread", []any{found, err}, []any{false, nil})
	for i, c := range []struct {
		thread  string
		turns   int
		outcome reconcile.Outcome
		want    string // the last run of t1 then
	}{
		{"t1", 0, reconcile.Failed, runID(0)},
		{"t1", 2, reconcile.Failed, runID(1)},
		// it failed before its first turn, so it does not count
		{"t1", 0, reconcile.Failed, runID(1)},
		{"t2", 3, reconcile.Failed, runID(1)},
		{"", 0, reconcile.Failed, runID(1)},
		{"t1", 1, "", runID(1)}, // the current run
	} {
		r := pastRun(t, db, i, func(r *reconcile.Run) {
			r.ThreadID = c.thread
			r.Turns = c.turns
			r.Outcome = c.outcome
		})
		got, found, err := db.Journal.LastRunOf(ctx, r.IssueID, "t1")
		test.Equal(
			t,
			fmt.Sprint("error, and last run after run ", i),
			[]any{err, found, got.ID},
			[]any{nil, true, c.want},
		)
	}
}

// TestLastThread checks which thread a run continues, and how often in a row that thread has
// failed. A thread belongs to a codex home. Failures of the machine don't count.
func TestLastThread(t *testing.T) {
	const first, second, failed = "/home/ann/.codex", "/srv/codex", reconcile.Failed
	type past struct {
		thread, home string
		outcome      reconcile.Outcome // empty: the run continues
		code         string
	}
	for name, c := range map[string]struct {
		runs         []past
		home         string
		newest, here string
		failed       int // of here, where it is the newest
	}{
		"none":          {nil, first, "", "", 0},
		"no thread yet": {[]past{{"", "", failed, ""}}, first, "", "", 0},
		"all that fail": {
			[]past{
				{"a", "", failed, ""},
				{"a", "", reconcile.TimedOut, ""},
				{"a", "", reconcile.Stalled, ""},
				{"a", "", reconcile.Lost, ""},
			},
			first,
			"a",
			"a",
			4,
		},
		"since a success": {
			[]past{{"a", "", failed, ""}, {"a", "", reconcile.Succeeded, ""}, {"a", "", failed, ""}},
			first,
			"a",
			"a",
			1,
		},
		"ended from outside": {
			[]past{{"a", "", failed, ""}, {"a", "", reconcile.InterruptedRun, ""}},
			first,
			"a",
			"a",
			0,
		},
		"canceled": {[]past{{"a", "", failed, ""}, {"a", "", reconcile.Canceled, ""}}, first, "a", "a", 0},
		"another in between": {
			[]past{{"a", "", failed, ""}, {"b", "", failed, ""}, {"a", "", failed, ""}},
			first,
			"a",
			"a",
			1,
		},
		"without one between": {
			[]past{{"a", "", failed, ""}, {"", "", failed, ""}, {"a", "", failed, ""}},
			first,
			"a",
			"a",
			2,
		},
		"one that continues": {[]past{{"a", "", failed, ""}, {"a", "", "", ""}}, first, "a", "a", 1},

		"outage": {
			[]past{
				{"a", "", failed, "network"},
				{"a", "", failed, "agent_auth"},
				{"a", "", failed, "linear_api_status"},
			},
			first,
			"a",
			"a",
			0,
		},
		"failure in an outage": {
			[]past{{"a", "", failed, "network"}, {"a", "", failed, "turn_failed"}, {"a", "", failed, "network"}},
			first,
			"a",
			"a",
			1,
		},
		"refused by the agent": {
			[]past{{"a", "", failed, "codex_incompatible"}, {"a", "", failed, "codex_incompatible"}},
			first,
			"a",
			"a",
			2,
		},

		"the same home": {[]past{{"a", first, failed, ""}, {"", "", failed, ""}}, first, "a", "a", 1},
		"another home":  {[]past{{"a", first, failed, ""}}, second, "a", "", 0},
		"switched":      {[]past{{"a", first, failed, ""}, {"b", second, failed, ""}}, second, "b", "b", 1},
		"switched back": {[]past{{"a", first, failed, ""}, {"b", second, failed, ""}}, first, "b", "a", 0},
		"switched back twice": {
			[]past{{"a", first, failed, ""}, {"b", second, failed, ""}, {"a", first, failed, ""}},
			second,
			"a",
			"b",
			0,
		},
		"of an unknown home":        {[]past{{"a", "", failed, ""}}, second, "a", "a", 1},
		"an unknown home's, back":   {[]past{{"a", "", failed, ""}, {"b", second, failed, ""}}, first, "b", "a", 0},
		"known by a later run only": {[]past{{"a", "", failed, ""}, {"a", first, failed, ""}}, second, "a", "", 0},
		"no home given":             {[]past{{"a", first, failed, ""}, {"b", second, failed, ""}}, "", "b", "b", 1},
	} {
		t.Run(name, func(t *testing.T) {
			db := newState(t)
			for i, p := range c.runs {
				pastRun(t, db, i, func(r *reconcile.Run) {
					r.ThreadID = p.thread
					r.WorkspaceID = "ws-" + p.thread
					r.Outcome = p.outcome
					r.ErrorCode = p.code
					if p.home != "" {
						thread := reconcile.Thread{
							ID:          p.thread,
							WorkspaceID: r.WorkspaceID,
							Home:        p.home,
						}
						test.OK(
							t,
							db.Journal.RecordLastSeen(
								ctx,
								r.ID,
								r.IssueID,
								thread,
								reconcile.LastSeen{Description: "aa"},
								epoch,
							),
						)
					}
				})
			}
			newest, here, err := db.Journal.LastThread(ctx, issueOf(1).ID, c.home)
			test.OK(t, err)
			if newest.ID != c.newest || here.ID != c.here ||
				here.ID != "" && here.WorkspaceID != "ws-"+here.ID {
				t.Errorf("newest %+v, here %+v", newest, here)
			}
			if c.newest == c.here && here.Failed != c.failed {
				t.Errorf("%d failures in a row, want %d", here.Failed, c.failed)
			}
		})
	}
}
