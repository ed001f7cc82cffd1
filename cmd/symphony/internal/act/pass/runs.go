package pass

import (
	"context"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/state"
)

// Unsettled lists the runs that no pass settled yet. kept may have the database open. There
// are none if the database can't be read, which the next pass reports.
func Unsettled(ctx context.Context, p *wiring.Project, kept *KeptDB) []reconcile.Run {
	db := kept.Opened()
	if db == nil {
		own, err := wiring.OpenForReading(ctx, p)
		if err != nil {
			return nil
		}
		defer own.Close()
		db = own
	}
	runs, _ := db.Runs.Unsettled(ctx)
	return runs
}

// LiveRuns lists the runs that have a worker.
func LiveRuns(ctx context.Context, p *wiring.Project) []reconcile.Run {
	return slices.DeleteFunc(
		Unsettled(ctx, p, nil),
		func(run reconcile.Run) bool { return !wiring.Alive(p.StateDir, run.ID) },
	)
}

// WaitForRun waits until the outcome of a run is recorded, or until its worker dies without
// recording it.
func WaitForRun(ctx context.Context, p *wiring.Project, id string) (reconcile.Run, error) {
	// after a signal the run is read once more, for the message
	reading := context.WithoutCancel(ctx)
	db, err := wiring.OpenForReading(reading, p)
	if err != nil {
		return reconcile.Run{}, err
	}
	defer db.Close()
	for {
		run, err := db.Runs.Find(reading, id)
		if err != nil {
			return run, err
		}
		run, dead := wiring.ConfirmDead(reading, p, db.Runs, run)
		if dead {
			run.Outcome = reconcile.Lost
			run.ErrorCode = reconcile.CodeWorkerLost
			run.ErrorText = "its worker died"
		}
		if run.Outcome != "" {
			return run, nil
		}
		if !wiring.Sleep(ctx, wiring.WaitStep) {
			name := run.Identifier
			return run, reconcile.NewError(
				"canceled",
				"ended by a signal; the run of "+name+" continues",
				"symphony logs -f "+name+" follows it, symphony stop "+name+" ends it",
			).WithCause(ctx.Err())
		}
	}
}

// settlePatience is how long WaitSettled waits at most. Another pass may have the lock.
const settlePatience = 15 * time.Second

// WaitSettled waits until a pass settled a run that has ended, and released its issue or decided
// what follows, so that the next command sees that. The run's worker starts the pass before it
// ends; after the death of a worker none may come.
func WaitSettled(ctx context.Context, p *wiring.Project, run reconcile.Run) error {
	if run.Outcome == reconcile.Lost {
		return nil
	}
	db, err := wiring.OpenForReading(ctx, p)
	if err != nil {
		return err
	}
	defer db.Close()
	for end := proc.Monotonic() + settlePatience; ; {
		now, err := db.Runs.Find(ctx, run.ID)
		if err != nil {
			return err
		}
		if now.Settled && !wiring.Alive(p.StateDir, run.ID) && noPassOfWorkers(p.StateDir) {
			return nil
		}
		if proc.Monotonic() > end || !wiring.Sleep(ctx, wiring.WaitStep) {
			return nil
		}
	}
}

// noPassOfWorkers reports whether no pass runs that a worker has started. It is also true where
// that is not known.
func noPassOfWorkers(stateDir string) bool {
	passes, err := proc.OwnPasses(stateDir)
	return err != nil || len(passes) == 0
}

// KeptDB is a database that stays open between the passes of a loop. The zero value holds none
// yet.
type KeptDB struct{ db *state.DB }

// open returns the open database, or opens it. Only the holder of the project lock may call
// it.
func (k *KeptDB) open(ctx context.Context, dir string, now time.Time) (_ *state.DB, err error) {
	if k.db != nil && k.db.Current(ctx) {
		return k.db, nil
	}
	k.Close()
	k.db, err = state.Create(ctx, dir, now)
	return k.db, err
}

// Opened returns the database if it is open.
func (k *KeptDB) Opened() *state.DB {
	if k == nil {
		return nil
	}
	return k.db
}

// Close closes the database if it is open.
func (k *KeptDB) Close() {
	if k.db != nil {
		_ = k.db.Close() // every write was committed
	}
	k.db = nil
}
