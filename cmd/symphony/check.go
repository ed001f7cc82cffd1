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
		Description: helpText("check", "symphony check WORKFLOW.md"),
		Flags:       workflowFlags(jsonFlags[wiring.CheckReport]()...),
		Action: onProject(w, nil, func(c *cli.Context, p *wiring.Project, _ []string) error {
			out := wiring.CheckFile(c.Context, p)
			render.Check(w, p, out)
			return out.Err()
		}),
	}
}
