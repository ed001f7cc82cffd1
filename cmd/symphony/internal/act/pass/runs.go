package pass

import (
	"context"
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/reconcile"
)

// Unsettled lists the runs that no pass has settled yet. kept may have the database open. There are none if the database can't be read,
// which the next pass reports.
func Unsettled(ctx context.Context, p *project.Project, kept *KeptDB) []reconcile.Run {
	if db := kept.Opened(); db != nil {
		runs, _ := db.Runs.Unsettled(ctx)
		return runs
	}
	db, err := project.OpenForReading(ctx, p)
	if err != nil {
		return nil
	}
	defer db.Close()
	runs, _ := db.Runs.Unsettled(ctx)
	return runs
}

// LiveRuns lists the runs that have a worker.
func LiveRuns(ctx context.Context, p *project.Project) []reconcile.Run {
	return slices.DeleteFunc(Unsettled(ctx, p, nil), func(run reconcile.Run) bool { return !project.Alive(p.StateDir, run.ID) })
}

// WaitForRun waits until a run has an outcome, or until its worker has died without recording one.
func WaitForRun(ctx context.Context, p *project.Project, id string) (reconcile.Run, error) {
	reading := context.WithoutCancel(ctx) // after a signal the run is read once more, for the message
	db, err := project.OpenForReading(reading, p)
	if err != nil {
		return reconcile.Run{}, err
	}
	defer db.Close()
	for {
		run, err := db.Runs.Find(reading, id)
		if err != nil {
			return run, err
		}
		run, dead := project.ConfirmDead(reading, p, db.Runs, run)
		if dead {
			run.Outcome, run.ErrorCode, run.ErrorText = reconcile.Lost, reconcile.CodeWorkerLost, "its worker died"
		}
		if run.Outcome != "" {
			return run, nil
		}
		if !project.Sleep(ctx, project.WaitStep) {
			return run, &reconcile.Error{
				Code: "canceled", Message: "ended by a signal; the run of " + run.Identifier + " continues",
				Hint: "symphony logs -f " + run.Identifier + " follows it, symphony stop " + run.Identifier + " ends it", Err: ctx.Err(),
			}
		}
	}
}
