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
		UsageText:   usageText("logs", "ISSUE"),
		Description: helpText("logs", "symphony logs -f ABC-7", "symphony logs ABC-7 --last command"),
		Flags: workflowFlags(
			&cli.BoolFlag{
				Name:    "follow",
				Aliases: []string{"f"},
				Usage:   "print new events, also of later runs, until Ctrl-C",
			},
			&cli.StringFlag{
				Name:  "run",
				Usage: "the run whose id begins with `ID`; symphony show lists them",
			},
			&cli.BoolFlag{Name: "all", Usage: "all stored runs, one after another"},
			&cli.StringFlag{
				Name:  "since",
				Usage: "only events since `TIME`, in all runs: 10m, 7d, 2026-01-31 or 2026-01-31T18:00:00Z",
			},
			&cli.IntFlag{
				Name:        "tail",
				Aliases:     []string{"n"},
				Usage:       "only the last `N` entries of the run",
				DefaultText: "all",
			},
			&cli.StringFlag{
				Name:  "last",
				Usage: "only the last event of `KIND`, in full: " + strings.Join(eventlog.Kinds(), ", "),
			},
			&cli.BoolFlag{
				Name:    "verbose",
				Aliases: []string{"v"},
				Usage:   "print everything, also whole prompts, outputs and diffs",
			},
			&cli.BoolFlag{
				Name:  "raw",
				Usage: "print the events as they are stored, as JSON",
			},
			&cli.BoolFlag{Name: "stderr", Usage: "print the agent's stderr instead"},
			&cli.BoolFlag{Name: "worker", Usage: "print the log of the worker instead"},
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
	for flag, file := range map[string]string{"stderr": "agent.stderr", "worker": "worker.log", "hooks": "hooks.log"} {
		if c.Bool(flag) {
			o.File = file
		}
	}
	err = firstError(
		onlyOne(c, "verbose", "raw", "stderr", "worker", "hooks"),
		onlyOne(c, "run", "all"),
		onlyOne(c, "since", "stderr", "worker", "hooks"), // their lines have no time
		alone(c, "tail", "all", "since"),                 // they print several runs
		alone(c, "last", "follow", "all", "verbose", "tail", "since", "stderr", "worker", "hooks"),
		positive(c, "tail"),
	)
	if err != nil {
		return o, err
	}
	if c.IsSet("since") {
		o.Since, err = report.ParseTime("logs", "since", c.String("since"), now, 0)
		if err != nil {
			return o, err
		}
	}
	if c.IsSet("last") && !slices.Contains(eventlog.Kinds(), o.Last) {
		return o, exit.Usage("logs: --last must be one of %s, not %q", strings.Join(eventlog.Kinds(), ", "), o.Last)
	}
	return o, nil
}
