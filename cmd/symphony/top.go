package main

import (
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/top"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/urfave/cli/v2"
)

func topCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "top",
		Usage:     "show all issues of all projects on one screen",
		UsageText: usageText("top", "[WORKFLOW]"),
		Description: "With a workflow it shows only that project. The first line tells whether a " +
			"project needs you. Each key that acts on an\n" +
			"issue does the same as the command that the bottom of the screen names. In 140 columns or " +
			"more, the log of the selected\n" +
			"issue is beside the list.\n\n" +
			"Keys:\n\n" + top.Keys() + "\n" + exampleText("symphony top"),
		Flags: workflowFlags(),
		Action: func(c *cli.Context) error {
			_, positional, err := arguments(w, c)
			if err != nil {
				return err
			}
			var p *wiring.Project
			if positional != "" || c.IsSet("workflow") || c.IsSet("state-dir") {
				p, err = openProject(w, c, positional)
				if err != nil {
					return err
				}
			}
			return top.Run(c.Context, w, p, run)
		},
	}
}
