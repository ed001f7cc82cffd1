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
		),
		Flags: workflowFlags(jsonFlags[doctor.JSON](
			&cli.BoolFlag{
				Name:  "deep",
				Usage: "also let the agent answer once, which uses a few tokens",
			},
			&cli.BoolFlag{
				Name:  "all",
				Usage: "print each finding on a line of its own",
			})...),
		Action: onProject(w, nil, func(c *cli.Context, p *wiring.Project, _ []string) error {
			named := c.IsSet("workflow") || c.NArg() > 0 || w.Getenv("SYMPHONY_WORKFLOW") != ""
			return doctor.Examine(c.Context, w, p, doctor.Options{
				StateDir: c.String("state-dir"),
				Named:    named,
				Verbose:  c.Bool("all"),
				Deep:     c.Bool("deep"),
			})
		}),
	}
}
