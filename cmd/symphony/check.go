package main

import (
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/urfave/cli/v2"
)

func checkCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:        "check",
		Usage:       "check WORKFLOW.md for mistakes",
		UsageText:   usageText("check", "[WORKFLOW]"),
		Description: helpText("check", "symphony check WORKFLOW.md", "symphony check --tracker"),
		Flags: workflowFlags(jsonFlags[wiring.CheckReport](
			&cli.BoolFlag{
				Name:  "tracker",
				Usage: "also ask the tracker, and check a tracker program of your own",
			})...),
		Action: onProject(w, nil, func(c *cli.Context, p *wiring.Project, _ []string) error {
			out := wiring.CheckFile(c.Context, p)
			if c.Bool("tracker") && out.OK {
				var err error
				out.Tracker, err = wiring.CheckTracker(c.Context, p)
				if err != nil {
					return err
				}
			}
			render.Check(w, p, out)
			return out.Err()
		}),
	}
}
