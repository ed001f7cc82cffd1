package main

import (
	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/urfave/cli/v2"
)

func takeoverCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "takeover", Usage: "continue an issue yourself, in codex's own terminal, in its workspace",
		UsageText: usageText("takeover", "ISSUE [WORKFLOW]"),
		Description: `The command holds the issue, ends its run if it has one, and opens codex on the issue's thread, in the workspace
and under the sandbox of a run. No run uses the workspace meanwhile. At the end, changes to git's configuration
and hooks are undone, as after a run, and you are asked whether a run continues your work.

Example:

    symphony takeover ABC-7
    symphony takeover ABC-7 --yes --then retry`,
		Flags: workflowFlags(
			&cli.BoolFlag{Name: "yes", Usage: "do not ask before a run is stopped"},
			&cli.StringFlag{Name: "then", Usage: "do not ask at the end: retry or hold"},
		),
		Action: onProject(w, []string{"ISSUE"}, func(c *cli.Context, p *project.Project, args []string) error {
			then := c.String("then")
			if then != "" && then != "retry" && then != "hold" {
				return exit.Usage("takeover: --then is retry or hold, not %q", then)
			}
			return operate.Takeover(c.Context, p, args[0], c.Bool("yes"), then)
		}),
	}
}
