package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/logs"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
	"github.com/urfave/cli/v2"
)

// tickOptions are the flags of tick.
type tickOptions struct {
	passOptions
	loop, json, quiet, wait bool
	log                     logChoice
}

func tickCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "tick", Usage: "run one pass: reconcile the tracker with the running work, and exit",
		UsageText: usageText("tick", "[WORKFLOW]"),
		Description: "A pass settles runs that have ended, stops those that no longer should run, starts those that should,\n" +
			"and exits. Run it from cron or a systemd timer, by hand, or with --loop.\n\n" +
			"SYMPHONY_MAX_AGENTS bounds the live runs of one codex home, over all projects.\n\n" +
			"A pass says on stdout what it did, and on stderr what is wrong. With --log-level or --log-format stderr is a log of\n" +
			"both: a line with level and keys for each action, warning and error, and one for the pass. --quiet leaves the log as\n" +
			"it is, but for errors: those are logged when they change. Where stderr goes to systemd's journal, what is wrong and\n" +
			"the log carry their priorities.\n\n" +
			exampleText("symphony tick --dry-run", "symphony tick --loop --quiet --log-format json"),
		Flags: workflowFlags(
			&cli.BoolFlag{Name: "loop", Usage: "repeat at polling.interval_ms until SIGINT or SIGTERM"},
			&cli.BoolFlag{Name: "dry-run", Usage: "print what a pass would do; changes nothing and takes no lock"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object per pass"},
			&cli.BoolFlag{Name: "quiet", Usage: "for schedules: print only errors, and those only when they change"},
			&cli.BoolFlag{Name: "wait", Usage: "wait until the runs that this pass started have ended"},
			&cli.DurationFlag{Name: "lock-timeout", Usage: "wait for another pass, for a `TIME` such as 10s", DefaultText: "do not wait"},
			&cli.StringFlag{Name: "log-level", Usage: "log the pass on stderr, at `LEVEL`: debug, info, warn or error", DefaultText: "info with --log-format, else no log"},
			&cli.StringFlag{Name: "log-format", Usage: "log the pass on stderr, in `FORMAT`: text or json", DefaultText: "text with --log-level, else no log"},
			&cli.StringFlag{Name: "trigger", Usage: "`WHO` runs the pass: cron, timer, manual, worker or command", Value: project.TriggerManual},
		),
		Action: func(c *cli.Context) error { return tickAction(c, w) },
	}
}

func tickAction(c *cli.Context, w *term.Env) error {
	o := tickOptions{
		passOptions: passOptions{trigger: c.String("trigger"), dryRun: c.Bool("dry-run"), lockTimeout: c.Duration("lock-timeout")},
		loop:        c.Bool("loop"), json: c.Bool("json"), quiet: c.Bool("quiet"), wait: c.Bool("wait"),
		log: logChoice{c.String("log-level"), c.String("log-format")},
	}
	w.JSON, w.JSONLines = o.json, o.loop
	_, positional, err := arguments(c)
	if err != nil {
		return err
	}
	if err := o.check(c.IsSet("trigger")); err != nil {
		return err
	}
	if o.log.wanted() {
		w.Log = o.logger(w) // it says what lines for a person would say
	}
	p, err := openProject(w, c, positional)
	if err != nil {
		return err
	}
	if o.loop {
		return loop(c.Context, w, p, o)
	}
	o.stays = o.wait
	return tick(c.Context, w, p, o)
}

func (o *tickOptions) check(triggerSet bool) error {
	switch o.trigger {
	case project.TriggerCron, project.TriggerTimer, project.TriggerManual, project.TriggerWorker, project.TriggerCommand:
	default:
		return exit.Usage("tick: --trigger is one of cron, timer, manual, worker, command, not %q", o.trigger)
	}
	if err := o.log.check(); err != nil {
		return err
	}
	switch {
	case o.loop && (o.dryRun || o.wait):
		return exit.Usage("tick: --loop goes with neither --dry-run nor --wait")
	case o.loop && triggerSet:
		return exit.Usage("tick: --loop has its own trigger")
	case o.lockTimeout < 0:
		return exit.Usage("tick: --lock-timeout is not negative")
	}
	if o.loop {
		o.trigger = project.TriggerLoop
	}
	return nil
}

// soon is how far ahead a worker's own pass waits for what its run left due: a continuation is due a
// second after the end of the run before.
const soon = 3 * time.Second

func tick(ctx context.Context, w *term.Env, p *project.Project, o tickOptions) error {
	log := o.logger(w)
	r, err := runPass(ctx, p, o.passOptions, log)
	if err != nil && o.trigger != project.TriggerWorker {
		return quietly(ctx, p, o, err)
	}
	if err != nil {
		return err
	}
	switch {
	case r.holder != nil && o.lockTimeout > 0 && o.quiet:
		return exit.Only(exit.Lock) // a held lock is no news
	case r.holder != nil && o.lockTimeout > 0:
		return project.LockedError(r.holder)
	}
	if o.trigger == project.TriggerWorker {
		return followUp(ctx, p, w, o, r, log) // nobody reads what it says; the errors are in the pass's row
	}
	reportPass(ctx, p, w, o, r)
	if o.wait && !o.dryRun {
		failed, err := waitForRuns(ctx, p, r, o)
		if err != nil {
			return err
		}
		if failed {
			return exit.Only(exit.Failed)
		}
	}
	return r.code()
}

// followUp waits for a continuation that is about to fall due, so that it does not wait for the schedule.
func followUp(ctx context.Context, p *project.Project, w *term.Env, o tickOptions, r passResult, log *slog.Logger) error {
	wait := r.NextWake.Sub(w.Now())
	if r.NextWake.IsZero() || wait > soon {
		return r.code()
	}
	if !project.Sleep(ctx, max(wait, 0)) {
		return nil
	}
	p = project.New(w, p.Path, p.StateDir)
	r, err := runPass(ctx, p, o.passOptions, log)
	if err != nil {
		return err
	}
	return r.code()
}

// code is the exit code of a pass: a run that failed is no error of the pass. The errors have been said.
func (r passResult) code() error {
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
func waitForRuns(ctx context.Context, p *project.Project, r passResult, o tickOptions) (failed bool, err error) {
	db, err := state.Open(ctx, p.StateDir)
	if err != nil {
		return false, err
	}
	defer db.Close()
	for _, a := range r.Applied {
		if a.Kind != reconcile.ActDispatch || a.Err != nil {
			continue
		}
		run, err := waitForRun(ctx, p, db, a.RunID)
		if err != nil {
			return false, err
		}
		if !o.json && !o.quiet { // of JSON there is one object, and it has been printed
			fmt.Fprintln(p.Env.Stdout, logs.EndLine(run))
		}
		failed = failed || run.Outcome != reconcile.Succeeded
	}
	return failed, nil
}

// waitForRun waits for the outcome of a run, or for the death of a worker that recorded none.
func waitForRun(ctx context.Context, p *project.Project, db *state.DB, id string) (reconcile.Run, error) {
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
