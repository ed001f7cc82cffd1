package main

import (
	"github.com/symphony-cron/symphony/cmd/symphony/internal/admin/doctor"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/urfave/cli/v2"
)

func doctorCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "doctor",
		Usage:     "check everything that a run needs",
		UsageText: usageText("doctor", "[WORKFLOW]"),
		Description: helpText(
			"doctor",
			"symphony doctor -w ~/web-shop/WORKFLOW.md",
			"symphony doctor --json | jq '.[] | select(.status == \"fail\").message'",
		),
		Flags: workflowFlags(jsonFlags[doctor.JSON](
			&cli.BoolFlag{
				Name:  "engine",
				Usage: "also run a trial job of worker.engine, which makes and removes a workspace in worker.root there",
			},
			&cli.BoolFlag{
				Name:  "deep",
				Usage: "also let the agent answer once with each set of variables, which uses a few tokens",
			},
			&cli.BoolFlag{
				Name:  "all",
				Usage: "print each finding on a line of its own, also what passed in a check that has a warning or a failure",
			})...),
		Action: onProject(w, nil, func(c *cli.Context, p *wiring.Project, _ []string) error {
			named := c.IsSet("workflow") || c.NArg() > 0 || w.Getenv("SYMPHONY_WORKFLOW") != ""
			return doctor.Examine(c.Context, w, p, doctor.Options{
				StateDir: c.String("state-dir"),
				Named:    named,
				Verbose:  c.Bool("all"),
				Engine:   c.Bool("engine"),
				Deep:     c.Bool("deep"),
			})
		}),
	}
}
