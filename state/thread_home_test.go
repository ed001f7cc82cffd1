package state

import (
	"context"
	"testing"

	"github.com/symphony-cron/symphony/reconcile"
)

// A thread is where codex keeps it: what another home holds is not offered, and is again when that home is.
func TestLastThreadByHome(t *testing.T) {
	const first, second = "/home/ann/.codex", "/srv/codex"
	type past struct{ thread, home string } // home "": nobody wrote it down
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
					check(t, db.Tell(ctx, r.ID, r.IssueID, thread, reconcile.Told{Description: "aa"}, epoch))
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

// What is told without a home leaves the one that is known.
func TestHomeStaysKnown(t *testing.T) {
	ctx, db := context.Background(), newState(t)
	r := startedRun(t, db, 1)
	for _, home := range []string{"", "/srv/codex", ""} {
		check(t, db.Tell(ctx, r.ID, r.IssueID, reconcile.Thread{ID: "a", CodexHome: home}, reconcile.Told{Description: "aa"}, epoch))
	}
	r.ThreadID, r.Outcome = "a", reconcile.Succeeded
	check(t, db.Finish(ctx, epoch, r))
	if newest, here, err := db.LastThread(ctx, r.IssueID, "/elsewhere"); err != nil || newest.CodexHome != "/srv/codex" || here.ID != "" {
		t.Errorf("newest %+v, here %+v, %v", newest, here, err)
	}
}
