package main

import (
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/urfave/cli/v2"
)

func checkCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "check", Usage: "check WORKFLOW.md, without key, network or state",
		UsageText:   usageText("check", "[WORKFLOW]"),
		Description: exampleText("symphony check WORKFLOW.md"),
		Flags: workflowFlags(jsonFlags[project.CheckReport](
			&cli.BoolFlag{
				Name: "tracker", Usage: "also read the tracker and check that it keeps the contract of trackers; change nothing in it",
			})...),
		Action: onProject(w, nil, func(c *cli.Context, p *project.Project, _ []string) error {
			out, err := project.CheckFile(c.Context, p, c.Bool("tracker"))
			if err != nil {
				return err
			}
			render.Check(w, p, out)
			return out.Err()
		}),
	}
}
