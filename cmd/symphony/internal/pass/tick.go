package pass

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// tickOptions are the flags of tick.
type TickOptions struct {
	Options
	Loop, Json, Quiet, Wait bool
	Log                     LogChoice
}

func (o *TickOptions) Check(triggerSet bool) error {
	switch o.Trigger {
	case project.TriggerCron, project.TriggerTimer, project.TriggerManual, project.TriggerWorker, project.TriggerCommand:
	default:
		return exit.Usage("tick: --trigger is one of cron, timer, manual, worker, command, not %q", o.Trigger)
	}
	if err := o.Log.check(); err != nil {
		return err
	}
	switch {
	case o.Loop && (o.DryRun || o.Wait):
		return exit.Usage("tick: --loop goes with neither --dry-run nor --wait")
	case o.Loop && triggerSet:
		return exit.Usage("tick: --loop has its own trigger")
	case o.LockTimeout < 0:
		return exit.Usage("tick: --lock-timeout is not negative")
	}
	if o.Loop {
		o.Trigger = project.TriggerLoop
	}
	return nil
}

// soon is how far ahead a worker's own pass waits for what its run left due: a continuation is due a
// second after the end of the run before.
const soon = 3 * time.Second

func tick(ctx context.Context, w *term.Env, p *project.Project, o TickOptions) error {
	log := o.logger(w)
	r, err := Run(ctx, p, o.Options)
	if err != nil && o.Trigger != project.TriggerWorker {
		return quietly(ctx, p, o, err)
	}
	if err != nil {
		return err
	}
	switch {
	case r.Holder != nil && o.LockTimeout > 0 && o.Quiet:
		return exit.Only(exit.Lock) // a held lock is no news
	case r.Holder != nil && o.LockTimeout > 0:
		return project.LockedError(r.Holder)
	}
	if o.Trigger == project.TriggerWorker {
		return followUp(ctx, p, w, o, r, log) // nobody reads what it says; the errors are in the pass's row
	}
	Print(ctx, p, w, o, r)
	if o.Wait && !o.DryRun {
		failed, err := waitForRuns(ctx, p, r, o)
		if err != nil {
			return err
		}
		if failed {
			return exit.Only(exit.Failed)
		}
	}
	return r.Code()
}

// followUp waits for a continuation that is about to fall due, so that it does not wait for the schedule.
func followUp(ctx context.Context, p *project.Project, w *term.Env, o TickOptions, r Result, log *slog.Logger) error {
	wait := r.NextWake.Sub(w.Now())
	if r.NextWake.IsZero() || wait > soon {
		return r.Code()
	}
	if !project.Sleep(ctx, max(wait, 0)) {
		return nil
	}
	p = project.New(w, p.Path, p.StateDir)
	r, err := Run(ctx, p, o.Options)
	if err != nil {
		return err
	}
	return r.Code()
}

// code is the exit code of a pass: a run that failed is no error of the pass. The errors have been said.
func (r Result) Code() error {
	code := exit.OK
	for _, e := range r.Errors {
		c := exit.Code(e)
		if code == exit.OK || c == exit.Workflow {
			code = c
		}
	}
	if code == exit.OK {
		return nil
	}
	return exit.Only(code)
}

// waitForRuns returns when every run that this pass started has its outcome, and says it.
func waitForRuns(ctx context.Context, p *project.Project, r Result, o TickOptions) (failed bool, err error) {
	db, err := state.Open(ctx, p.StateDir)
	if err != nil {
		return false, err
	}
	defer db.Close()
	for _, a := range r.Applied {
		if a.Kind != reconcile.ActDispatch || a.Err != nil {
			continue
		}
		run, err := WaitForRun(ctx, p, db, a.RunID)
		if err != nil {
			return false, err
		}
		if !o.Json && !o.Quiet { // of JSON there is one object, and it has been printed
			fmt.Fprintln(p.Env.Stdout, project.EndLine(run))
		}
		failed = failed || run.Outcome != reconcile.Succeeded
	}
	return failed, nil
}

// waitForRun waits for the outcome of a run, or for the death of a worker that recorded none.
func WaitForRun(ctx context.Context, p *project.Project, db *state.DB, id string) (reconcile.Run, error) {
	reading := context.WithoutCancel(ctx) // a signal ends the waiting, and what goes on is then still to be said
	for {
		run, err := db.Run(reading, id)
		if err != nil || run.Outcome != "" {
			return run, err
		}
		if project.WorkerDead(p, run) {
			if run, err = db.Run(reading, id); err == nil && run.Outcome == "" {
				run.Outcome, run.ErrorCode, run.ErrorText = reconcile.Lost, reconcile.CodeWorkerLost, "its worker died"
			}
			return run, err
		}
		if !project.Sleep(ctx, project.WaitStep) {
			return run, &reconcile.Error{
				Code: "canceled", Message: "ended by a signal; the run of " + run.Identifier + " goes on",
				Hint: "symphony logs -f " + run.Identifier + " follows it, symphony stop " + run.Identifier + " ends it", Err: ctx.Err(),
			}
		}
	}
}

// Tick runs one pass, or with the option loop one after the other.
func Tick(ctx context.Context, w *term.Env, p *project.Project, o TickOptions) error {
	if o.Log.wanted() {
		w.Log = o.logger(w) // the log replaces the lines on stderr
	}
	if o.Loop {
		return loop(ctx, w, p, o)
	}
	o.Stays = o.Wait
	return tick(ctx, w, p, o)
}
