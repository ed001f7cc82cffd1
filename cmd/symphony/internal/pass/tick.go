package pass

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// TickOptions are the flags of tick.
type TickOptions struct {
	Options
	Loop, StopOnExit, JSON, Quiet, Wait bool
	// LogLevel and LogFormat are empty unless a log was asked for.
	LogLevel, LogFormat string
}

// Check refuses flags that contradict each other.
func (o *TickOptions) Check(triggerSet bool) error {
	for _, flag := range []struct {
		name, value string
		allowed     []string
	}{
		{"trigger", o.Trigger, []string{project.TriggerCron, project.TriggerTimer, project.TriggerManual, project.TriggerWorker, project.TriggerCommand}},
		{"log-level", o.LogLevel, []string{"debug", "info", "warn", "error", ""}},
		{"log-format", o.LogFormat, []string{term.TextLog, term.JSONLog, ""}},
	} {
		if !slices.Contains(flag.allowed, flag.value) {
			return exit.Usage("tick: --%s is one of %s, not %q", flag.name, strings.TrimSuffix(strings.Join(flag.allowed, ", "), ", "), flag.value)
		}
	}
	switch {
	case o.Loop && (o.DryRun || o.Wait):
		return exit.Usage("tick: --loop goes with neither --dry-run nor --wait")
	case o.Loop && triggerSet:
		return exit.Usage("tick: --loop has its own trigger")
	case o.StopOnExit && !o.Loop:
		return exit.Usage("tick: --stop-on-exit goes with --loop only")
	case o.LockTimeout < 0:
		return exit.Usage("tick: --lock-timeout is not negative")
	}
	if o.Loop {
		o.Trigger = project.TriggerLoop
	}
	return nil
}

func (o TickOptions) wantsLog() bool { return o.LogLevel != "" || o.LogFormat != "" }

// logger returns the log of a pass.
func (o TickOptions) logger(w *term.Env) *slog.Logger {
	level := slog.LevelWarn
	switch {
	case o.LogLevel != "":
		if err := level.UnmarshalText([]byte(o.LogLevel)); err != nil {
			level = slog.LevelInfo // Check refuses other names
		}
	case o.wantsLog() || o.Loop && !o.JSON && !o.Quiet:
		level = slog.LevelInfo
	case o.Quiet:
		level = slog.LevelError + 1 // errors are reported when they change, not logged by every pass
	}
	return w.NewLog(level, o.LogFormat)
}

// Tick runs one pass, or with Loop one after the other.
func Tick(ctx context.Context, p *project.Project, o TickOptions) error {
	if o.wantsLog() {
		p.Env.Log = o.logger(p.Env) // the log replaces the lines on stderr
	}
	if o.Loop {
		return loop(ctx, p, o)
	}
	o.Stays = o.Wait
	r, err := Run(ctx, p, o.Options)
	switch {
	case err != nil && o.Trigger == project.TriggerWorker:
		return err
	case err != nil:
		return quietError(ctx, p, o, err)
	case r.Holder != nil && o.LockTimeout > 0 && o.Quiet:
		return exit.Only(exit.Lock) // a lock that is held is nothing to report
	case r.Holder != nil && o.LockTimeout > 0:
		return project.LockedError(r.Holder)
	case o.Trigger == project.TriggerWorker:
		return followUp(ctx, p, o, r) // its output goes nowhere; its errors are in the row of the pass
	}
	report(ctx, p, o, r)
	if o.Wait && !o.DryRun {
		failed, err := waitForRuns(ctx, p, r, o)
		if err != nil {
			return err
		}
		if failed {
			return exit.Only(exit.Failed)
		}
	}
	return r.ExitCode()
}

// followUpWait is how long a worker's own pass waits for a retry that is due soon: a continuation is due one second after
// the end of the run.
const followUpWait = 3 * time.Second

// followUp runs a second pass for a continuation that is due soon, so that it does not wait for the schedule.
func followUp(ctx context.Context, p *project.Project, o TickOptions, r Result) error {
	wait := r.NextWake.Sub(p.Env.Now())
	if r.NextWake.IsZero() || wait > followUpWait {
		return r.ExitCode()
	}
	if !project.Sleep(ctx, max(wait, 0)) {
		return nil
	}
	r, err := Run(ctx, project.New(p.Env, p.Path, p.StateDir), o.Options)
	if err != nil {
		return err
	}
	return r.ExitCode()
}

// waitForRuns waits until every run that this pass started has ended, and prints how.
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
		if !o.JSON && !o.Quiet { // with --json the one object has been printed
			fmt.Fprintln(p.Env.Stdout, render.EndLine(run))
		}
		failed = failed || run.Outcome != reconcile.Succeeded
	}
	return failed, nil
}

// WaitForRun waits for the outcome of a run, or for the death of a worker that has recorded none.
func WaitForRun(ctx context.Context, p *project.Project, db *state.DB, id string) (reconcile.Run, error) {
	reading := context.WithoutCancel(ctx) // after a signal the run is read once more, for the message
	for {
		run, err := db.Views.Run(reading, id)
		if err != nil || run.Outcome != "" {
			return run, err
		}
		if project.WorkerDead(p, run) {
			if run, err = db.Views.Run(reading, id); err == nil && run.Outcome == "" {
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
