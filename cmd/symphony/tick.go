package main

import (
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/tick"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/urfave/cli/v2"
)

func tickCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "tick",
		Usage:     "run a pass, which starts and stops agents; or repeat passes",
		UsageText: usageText("tick", "[WORKFLOW]") + "\n" + usageText("tick --loop", "[WORKFLOW...]"),
		Description: helpText(
			"tick",
			"symphony tick --dry-run",
			"symphony tick --loop web-shop/WORKFLOW.md api/WORKFLOW.md",
		),
		Flags: workflowFlags(jsonFlags[pass.ResultJSON](append(serverFlags("server.port, else no server"),
			&cli.BoolFlag{
				Name:  "loop",
				Usage: "repeat every polling.interval_ms until Ctrl-C or SIGTERM",
			},
			&cli.BoolFlag{
				Name:  "stop-on-exit",
				Usage: "with --loop: end the workers, too, as a container does",
			},
			&cli.BoolFlag{Name: "dry-run", Usage: "print what a pass would do, and change nothing"},
			fieldsFlag(),
			&cli.BoolFlag{
				Name:  "quiet",
				Usage: "print only errors, and one that stays once an hour",
			},
			&cli.BoolFlag{
				Name:  "wait",
				Usage: "wait until the runs that this pass started have ended",
			},
			&cli.DurationFlag{
				Name:        "lock-timeout",
				Usage:       "wait up to `TIME` for the end of another pass; after that exit with 4",
				DefaultText: "do nothing, and exit with 0",
			},
			&cli.StringFlag{
				Name:        "log-level",
				Usage:       "log the pass on stderr, at `LEVEL`: debug, info, warn or error",
				DefaultText: "info with --log-format, else no log",
			},
			&cli.StringFlag{
				Name:        "log-format",
				Usage:       "the `FORMAT` of the log: text or json",
				DefaultText: "text with --log-level, else no log",
			},
			&cli.StringFlag{
				Name:  "trigger",
				Value: wiring.TriggerManual,
				Usage: "record `NAME` as what started the pass: cron or timer in a schedule of your own",
			},
		)...)...),
		Action: func(c *cli.Context) error { return tickAction(c, w) },
	}
}

func tickAction(c *cli.Context, w *term.Env) error {
	o := tick.Options{
		Options: pass.Options{
			Trigger:     c.String("trigger"),
			DryRun:      c.Bool("dry-run"),
			LockTimeout: c.Duration("lock-timeout"),
		},
		Loop:       c.Bool("loop"),
		StopOnExit: c.Bool("stop-on-exit"),
		JSON:       w.JSON,
		Quiet:      c.Bool("quiet"),
		Wait:       c.Bool("wait"),
		LogLevel:   c.String("log-level"),
		LogFormat:  c.String("log-format"),
	}
	w.JSONLines = o.Loop
	w.Verbose = c.Bool("verbose")
	if err := firstError(alone(c, "verbose", "json", "quiet"), o.Check(c.IsSet("trigger"))); err != nil {
		return err
	}
	if o.Loop {
		for _, word := range c.Args().Slice() {
			if isWord(w, word) {
				return unexpected(c, word)
			}
		}
		projects, err := openProjects(w, c)
		if err != nil {
			return err
		}
		o.Beside, err = newLoopServer(c, w, projects)
		if err != nil {
			return err
		}
		return tick.Loop(c.Context, w, projects, o)
	}
	if err := onlyWith(c, "loop", "port", "listen", "allow-host", "token-file"); err != nil {
		return err
	}
	_, positional, err := arguments(w, c)
	if err != nil {
		return err
	}
	p, err := openProject(w, c, positional)
	if err != nil {
		return err
	}
	return tick.Tick(c.Context, w, p, o)
}

// fieldsFlag is -v of the commands that run a pass.
func fieldsFlag() cli.Flag {
	return &cli.BoolFlag{
		Name:    "verbose",
		Aliases: []string{"v"},
		Usage:   "print fields such as reason=operator instead of sentences",
	}
}
