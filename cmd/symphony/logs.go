package main

import (
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/report"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/logs"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
)

func logsCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:        "logs",
		Usage:       "show what the agent did in the newest run of an issue",
		UsageText:   usageText("logs", "ISSUE [WORKFLOW]"),
		Description: helpText("logs", "symphony logs -f ABC-7", "symphony logs ABC-7 --last command"),
		Flags: workflowFlags(
			&cli.BoolFlag{
				Name:    "follow",
				Aliases: []string{"f"},
				Usage: "print new events, also of later runs, until Ctrl-C; " +
					"with --run until that run ends",
			},
			&cli.StringFlag{
				Name:  "run",
				Usage: "the run whose ID is or begins with `ID`, instead of the newest; symphony show lists them",
			},
			&cli.BoolFlag{Name: "all", Usage: "all stored runs, one after another"},
			&cli.StringFlag{
				Name: "since",
				Usage: "only events since `TIME`, in all runs: 10m or 7d (ago), a date such as 2026-01-31, or " +
					"2026-01-31T18:00:00Z",
			},
			&cli.IntFlag{
				Name:    "tail",
				Aliases: []string{"n"},
				Usage: "only the last `N` entries of the run: messages, commands, changes and calls; " +
					"lines below an entry do not count",
				DefaultText: "all",
			},
			&cli.StringFlag{
				Name:  "last",
				Usage: "only the last event of `KIND`, in full: " + strings.Join(eventlog.Kinds(), ", "),
			},
			&cli.BoolFlag{
				Name:    "verbose",
				Aliases: []string{"v"},
				Usage:   "everything: whole prompts, outputs and diffs, tokens, sessions",
			},
			&cli.BoolFlag{
				Name:  "raw",
				Usage: "print the events as they are stored, one JSON object per line",
			},
			&cli.BoolFlag{Name: "stderr", Usage: "print the agent's stderr instead"},
			&cli.BoolFlag{Name: "worker", Usage: "print instead the log of the worker, Symphony's process beside the agent"},
			&cli.BoolFlag{Name: "hooks", Usage: "print the output of hooks instead"},
			&cli.BoolFlag{Name: "no-pager", Usage: "print without a pager"},
		),
		Action: onProject(
			w,
			[]string{"ISSUE"},
			func(c *cli.Context, p *wiring.Project, args []string) error {
				o, err := newLogOptions(c, w.Now())
				if err != nil {
					return err
				}
				p, _ = agents.ProjectOf(c.Context, p, args[0])
				return w.Paged(
					c.Context,
					!o.Follow && !c.Bool("no-pager"),
					func() error { return logs.Print(c.Context, w, p, args[0], o) },
				)
			},
		),
	}
}

// newLogOptions refuses flags that can't be combined, so that each accepted flag takes effect.
func newLogOptions(c *cli.Context, now time.Time) (o logs.Options, err error) {
	o = logs.Options{
		Follow: c.Bool("follow"),
		Raw:    c.Bool("raw"),
		Whole:  c.Bool("verbose"),
		All:    c.Bool("all"),
		Run:    c.String("run"),
		Last:   c.String("last"),
		Tail:   c.Int("tail"),
	}
	kinds := 0
	files := map[string]string{
		"verbose": "",
		"raw":     "",
		"stderr":  "agent.stderr",
		"worker":  "worker.log",
		"hooks":   "hooks.log",
	}
	for flag, file := range files {
		if c.Bool(flag) {
			kinds++
			o.File = file
		}
	}
	if kinds > 1 {
		return o, exit.Usage("logs: --verbose, --raw, --stderr, --worker and --hooks cannot be combined")
	}
	if c.IsSet("since") {
		o.Since, err = report.ParseTime("logs", "since", c.String("since"), now, 0)
		if err != nil {
			return o, err
		}
	}
	switch {
	case o.Run != "" && o.All:
		return o, exit.Usage("logs: --run and --all cannot be combined")
	case o.File != "" && !o.Since.IsZero():
		return o, exit.Usage(
			"logs: --since works only for events: the lines of --stderr, --worker and --hooks have no time",
		)
	case c.IsSet("last") && !slices.Contains(eventlog.Kinds(), o.Last):
		return o, exit.Usage(
			"logs: --last must be one of %s, not %q",
			strings.Join(eventlog.Kinds(), ", "),
			o.Last,
		)
	case c.IsSet("tail") && o.Tail < 1:
		return o, exit.Usage("logs: --tail (-n) needs a number of lines, 1 or more")
	case o.Tail > 0 && (o.All || !o.Since.IsZero()):
		return o, exit.Usage(
			"logs: --tail cannot be combined with --all and --since, which print several runs",
		)
	case o.Last != "" && (o.Follow || o.All || o.Whole || o.Tail > 0 || o.File != "" || !o.Since.IsZero()):
		return o, exit.Usage("logs: --last can be combined only with --run and --raw")
	}
	return o, nil
}
