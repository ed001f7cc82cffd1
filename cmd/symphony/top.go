package main

import (
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/top"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/urfave/cli/v2"
)

func topCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:        "top",
		Usage:       "show all issues of all projects on one screen",
		UsageText:   usageText("top", "[WORKFLOW]"),
		Description: helpPart("top") + "\n\nKeys:\n\n" + top.Keys() + "\n" + exampleText("symphony top"),
		Flags:       workflowFlags(),
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
