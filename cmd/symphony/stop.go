package main

import (
	"cmp"
	"context"
	"os"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/state"
	"github.com/urfave/cli/v2"
)

func stopCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "stop", Usage: "hold an issue and end its present run, or end every run",
		UsageText: usageText("stop", "ISSUE|--all [WORKFLOW]"),
		Description: `Waits until the run has ended, and says what became of it: a worker gets ten seconds to end its agent, and
hooks.timeout_ms more where there is an after_run. The workspace stays. With --all the project is paused
before, so that nothing new is started until symphony resume.

Exit code 1: something has not ended; it is named. 4: another pass has the lock; the command is kept.

Example:

    symphony stop ABC-7
    symphony stop --all`,
		Flags: workflowFlags(
			&cli.BoolFlag{Name: "all", Usage: "pause the project and end every run"},
			&cli.BoolFlag{Name: "no-wait", Usage: "do not wait for the end"},
			&cli.BoolFlag{Name: "json", Usage: "print the pass as JSON, with what was stopped"},
		),
		Action: func(c *cli.Context) error { return stopAction(c, w) },
	}
}

func stopAction(c *cli.Context, w *term.Env) error {
	w.JSON = c.Bool("json")
	s := stopping{noWait: c.Bool("no-wait")}
	if c.Bool("all") {
		if name := c.Args().First(); name != "" {
			// With --all the only argument is a workflow; somebody who names an issue means something else.
			if _, err := os.Stat(w.Absolute(name)); err != nil {
				return exit.Usage("stop: ISSUE or --all, not both: there is no workflow %q", name)
			}
		}
		_, positional, err := arguments(c)
		if err != nil {
			return err
		}
		if s.p, err = openProject(w, c, positional); err != nil {
			return err
		}
		s.cmd.Verb = reconcile.VerbStopAll // it concerns every run, so only stays empty
		return s.run(c.Context)
	}
	args, positional, err := arguments(c, "ISSUE")
	if err != nil {
		return err
	}
	if s.p, err = openProject(w, c, positional); err != nil {
		return err
	}
	id, identifier, err := project.FindIssue(c.Context, s.p, args[0])
	if err != nil {
		return err
	}
	s.cmd, s.only = reconcile.Command{Verb: reconcile.VerbStop, IssueID: id, Identifier: identifier}, id
	return s.run(c.Context)
}

// stopping is one stop of an issue's run, or of all.
type stopping struct {
	p      *project.Project
	cmd    reconcile.Command
	only   string // the issue, empty for all
	noWait bool
	// takingOver: a takeover that somebody else is at is met with at the workspace's lease.
	takingOver bool
	// stopped is what became of the runs, filled by run.
	stopped []stoppedRow
}

// run writes the command down, runs a pass, and waits for what that has asked to end.
func (s *stopping) run(ctx context.Context) error {
	return atDesk(ctx, s.p, s.cmd.Verb, func(db *state.DB) error { return s.at(ctx, db) })
}

func (s *stopping) at(ctx context.Context, db *state.DB) error {
	began := proc.Monotonic()
	before, _ := s.unsettled(ctx) // what is wrong with the database is said by what writes to it
	r, done, err := applyCommand(ctx, s.p, db, s.cmd, s.only)
	if err != nil || r == nil {
		return err // without the database its workers have been ended as well as can be
	}
	if !s.p.Env.JSON {
		if err := sayPass(ctx, s.p, db, s.cmd, *r, done); err != nil {
			return err
		}
	}
	var waited error
	if done && !s.noWait {
		waited = s.await(context.WithoutCancel(ctx), ctx.Done(), *r, before, began)
	}
	if s.p.Env.JSON {
		s.p.Env.PrintJSON(stopJSON{r.Json(false), append([]stoppedRow{}, s.stopped...)})
	}
	return cmp.Or(waited, noteUndone(ctx, s.p, db, s.cmd, *r, done))
}

// stopJSON is the pass, as tick --json has it, and what was stopped.
type stopJSON struct {
	pass.TickJSON
	Stopped []stoppedRow `json:"stopped"`
}
