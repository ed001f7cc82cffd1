package main

import (
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/tick"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/urfave/cli/v2"
)

func tickCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "tick",
		Usage:     "run one pass, which starts and stops agents, and exit; or repeat passes",
		UsageText: usageText("tick", "[WORKFLOW]") + "\n" + usageText("tick --loop", "[WORKFLOW...]"),
		Description: helpText(
			"tick",
			"symphony tick --dry-run",
			"symphony tick --loop --quiet --log-format json",
			"symphony tick --loop web-shop/WORKFLOW.md api/WORKFLOW.md",
		),
		Flags: workflowFlags(jsonFlags[pass.ResultJSON](append(serverFlags("server.port, else no server"),
			&cli.BoolFlag{
				Name:  "loop",
				Usage: "repeat every polling.interval_ms until SIGINT (Ctrl-C) or SIGTERM",
			},
			&cli.BoolFlag{
				Name:  "stop-on-exit",
				Usage: "with --loop, in containers: end the workers too; the next loop starts their issues again",
			},
			&cli.BoolFlag{Name: "dry-run", Usage: "print what a pass would do, and change nothing"},
			fieldsFlag(),
			&cli.BoolFlag{
				Name:  "quiet",
				Usage: "for schedules: print only errors; one that stays is printed once an hour, and its end, too",
			},
			&cli.BoolFlag{
				Name:  "wait",
				Usage: "wait until the runs that this pass started have ended",
			},
			&cli.DurationFlag{
				Name:        "lock-timeout",
				Usage:       "if another pass is running, wait up to `TIME`, such as 10s, for its end; after that exit with 4",
				DefaultText: "do not wait, do nothing, and exit with 0",
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
				Usage: "record `NAME` as what started the pass: cron, timer, manual, worker or command. Write cron or timer " +
					"in a schedule of your own: otherwise ps says NOT TICKING",
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
	if w.Verbose && (o.JSON || o.Quiet) {
		return exit.Usage("tick: -v cannot be combined with --json or --quiet")
	}
	if err := o.Check(c.IsSet("trigger")); err != nil {
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
	for _, name := range []string{"port", "listen", "allow-host", "token-file"} {
		if c.IsSet(name) {
			return exit.Usage("tick: --%s works only with --loop; symphony serve needs no loop", name)
		}
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
		Usage:   "print fields such as reason=operator instead of sentences, for scripts that do not read JSON",
	}
}
