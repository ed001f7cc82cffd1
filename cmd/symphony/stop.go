package main

import (
	"os"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/urfave/cli/v2"
)

func stopCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "stop", Usage: "hold an issue and end its present run, or end every run",
		UsageText: usageText("stop", "ISSUE|--all [WORKFLOW]"),
		Description: `The command waits until the run has ended and prints the outcome. A worker has ten seconds to end its
agent, and hooks.timeout_ms more for after_run. The workspace stays. --all first pauses the
project, so that nothing new is started until symphony resume.

Exit code 1: something has not ended; it is named. 4: another pass has the lock; the command is kept.

Example:

    symphony stop ABC-7
    symphony stop --all`,
		Flags: workflowFlags(
			&cli.BoolFlag{Name: "all", Usage: "pause the project and end every run"},
			&cli.BoolFlag{Name: "no-wait", Usage: "do not wait for the end"},
			&cli.BoolFlag{Name: "json", Usage: "print the pass as JSON, with what was stopped"},
		),
		Action: func(c *cli.Context) error { return stopAction(c, w) },
	}
}

func stopAction(c *cli.Context, w *term.Env) error {
	var names []string
	if !c.Bool("all") {
		names = []string{"ISSUE"}
	} else if name := c.Args().First(); name != "" {
		// With --all the only argument is a workflow. An issue beside it is a mistake.
		if _, err := os.Stat(w.Absolute(name)); err != nil {
			return exit.Usage("stop: ISSUE or --all, not both: there is no workflow %q", name)
		}
	}
	return onProject(w, names, func(c *cli.Context, p *project.Project, args []string) error {
		return operate.Stop(c.Context, p, strings.Join(args, ""), c.Bool("no-wait"))
	})(c)
}
