package main

import (
	"github.com/symphony-cron/symphony/cmd/symphony/internal/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/urfave/cli/v2"
)

func runCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "run", Usage: "start one issue now, if every rule but the slots allows it, and follow its run",
		UsageText: usageText("run", "ISSUE [WORKFLOW]"),
		Description: "The command ends with the run and exits 1 if the run did not succeed. Ctrl-C ends the command, not the run.\n\n" +
			exampleText("symphony run ABC-7"),
		Flags: workflowFlags(),
		Action: onProject(w, []string{"ISSUE"}, func(c *cli.Context, p *project.Project, args []string) error {
			return operate.RunIssue(c.Context, p, args[0])
		}),
	}
}
