package state

import (
	"context"
	"testing"

	"github.com/symphony-cron/symphony/reconcile"
)

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
