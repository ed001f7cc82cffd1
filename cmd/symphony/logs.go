package main

import (
	"context"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/state"
	"github.com/urfave/cli/v2"
)

// logOptions say which logs of which runs, and how.
type logOptions struct {
	follow, raw, all bool
	// file is another log than the events: agent.stderr, worker.log, hooks.log.
	file string
	// run is the beginning of a run's id, empty for the newest.
	run string
	// since is zero where the time of an event does not matter.
	since time.Time
	// last names the only thing that is wanted, whole; see lastKinds.
	last string
}

func logsCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "logs", Usage: "what the agent of an issue did, in its newest run",
		UsageText: usageText("logs", "ISSUE [WORKFLOW]"),
		Description: "Each event has its time, its kind and its text. On a terminal that is the time of day here, and the log comes in a\n" +
			"pager: $PAGER, else less; in a pipe it is the whole time, in UTC.\n\n" +
			exampleText("symphony logs -f ABC-7", "symphony logs ABC-7 --last command"),
		Flags: workflowFlags(
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on as it is written, also into the next runs, until SIGINT; with --run until that run ends"},
			&cli.StringFlag{Name: "run", Usage: "another run than the newest: the beginning of its `ID`, see symphony show"},
			&cli.BoolFlag{Name: "all", Usage: "all runs that are kept, one after another"},
			&cli.StringFlag{Name: "since", Usage: "only what came after that `TIME`, in whichever run: 10m or 7d ago, a day, or 2026-01-31T18:00:00Z"},
			&cli.StringFlag{Name: "last", Usage: "only the last of that `KIND`, whole: " + strings.Join(lastNames(), ", ")},
			&cli.BoolFlag{Name: "raw", Usage: "print the events as they are stored, one JSON object per line"},
			&cli.BoolFlag{Name: "stderr", Usage: "the agent's stderr"},
			&cli.BoolFlag{Name: "worker", Usage: "the worker's own log"},
			&cli.BoolFlag{Name: "hooks", Usage: "the output of hooks"},
			&cli.BoolFlag{Name: "no-pager", Usage: "print at once, also on a terminal"},
		),
		Action: func(c *cli.Context) error {
			args, positional, err := arguments(c, "ISSUE")
			if err != nil {
				return err
			}
			o, err := newLogOptions(c, w.Now())
			if err != nil {
				return err
			}
			p, err := openProject(w, c, positional)
			if err != nil {
				return err
			}
			return w.Paged(c.Context, !o.follow && !c.Bool("no-pager"), func() error { return showLogs(c.Context, p, args[0], o) })
		},
	}
}

// newLogOptions refuses what does not go together: each flag that is accepted has an effect.
func newLogOptions(c *cli.Context, now time.Time) (o logOptions, err error) {
	o = logOptions{follow: c.Bool("follow"), raw: c.Bool("raw"), all: c.Bool("all"), run: c.String("run"), last: c.String("last")}
	for flag, file := range map[string]string{"stderr": "agent.stderr", "worker": "worker.log", "hooks": "hooks.log"} {
		if !c.Bool(flag) {
			continue
		}
		if o.file != "" || o.raw {
			return o, exit.Usage("logs: one of --raw, --stderr, --worker, --hooks")
		}
		o.file = file
	}
	if c.IsSet("since") {
		if o.since, err = momentOf("logs", "since", c.String("since"), now, 0); err != nil {
			return o, err
		}
	}
	switch {
	case c.IsSet("run") && o.run == "":
		return o, exit.Usage("logs: --run wants the beginning of a run's id")
	case o.run != "" && o.all:
		return o, exit.Usage("logs: --run or --all, not both")
	case o.file != "" && !o.since.IsZero():
		return o, exit.Usage("logs: --since is for the events: the lines of --stderr, --worker and --hooks are not told apart by time")
	case c.IsSet("last") && lastKinds()[o.last] == nil:
		return o, exit.Usage("logs: --last wants one of %s, not %q", strings.Join(lastNames(), ", "), o.last)
	case o.last != "" && (o.follow || o.all || o.file != "" || !o.since.IsZero()):
		return o, exit.Usage("logs: --last stands alone, or with --run or --raw")
	}
	return o, nil
}

// logs prints what is there of the runs that are asked for, and follows.
func showLogs(ctx context.Context, p *project.Project, ref string, o logOptions) error {
	reading := context.WithoutCancel(ctx) // a signal ends the following, not the reading
	db, err := project.OpenForReading(reading, p)
	if err != nil {
		return err
	}
	defer db.Close()
	issue, err := logIssue(ctx, p, db, ref, o)
	if err != nil {
		return err
	}
	runs, err := issue.runs(reading, db, o)
	if err != nil {
		return err
	}
	if o.last != "" {
		return printLast(p, runs, o)
	}
	last := ""
	for _, run := range runs {
		if p.Env.Unread() {
			return nil
		}
		if o.all || len(runs) > 1 {
			printHeadline(p, run, o)
		}
		if err := printRun(ctx, p, db, run.ID, o); err != nil {
			return err
		}
		last = run.ID
	}
	if o.follow && o.run == "" {
		return followIssue(ctx, p, db, issue, last, o)
	}
	return nil
}

// printRun is the log of one run, to its end where that is known.
func printRun(ctx context.Context, p *project.Project, db *state.DB, runID string, o logOptions) error {
	if err := printLogFrom(ctx, p, db, runID, o); err != nil {
		return err
	}
	return printEnd(ctx, p, db, runID, o)
}
