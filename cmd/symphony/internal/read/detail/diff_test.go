package detail

import (
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// The workspace of an issue is still there after a run that failed before it had one, for
// instance because its host could not be reached.
func TestLastRunWithAWorkspace(t *testing.T) {
	db := test.Must(state.Create(t.Context(), t.TempDir(), now))
	defer db.Close()
	for _, run := range []reconcile.Run{
		{ID: "run-1", WorkspacePath: "/clones/ABC-7", StartedAt: now, Outcome: reconcile.Failed, Settled: true},
		{ID: "run-2", StartedAt: now.Add(time.Minute)},
	} {
		run.IssueID = "id-7"
		run.Identifier = "ABC-7"
		run.Kind = reconcile.AgentRun
		test.OK(t, db.Store.Commit(t.Context(), now, reconcile.Change{Insert: &run}))
	}
	run := test.Must(lastRun(t.Context(), nil, db, "ABC-7"))
	test.Equal(t, "the run", run.ID+" "+run.WorkspacePath, "run-1 /clones/ABC-7")
}
