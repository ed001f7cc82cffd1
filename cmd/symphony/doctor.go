package main

import (
	"github.com/symphony-cron/symphony/cmd/symphony/internal/doctor"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/urfave/cli/v2"
)

func doctorCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "check everything that a run needs, each with the next step",
		UsageText: usageText("doctor", "[WORKFLOW]"),
		Description: `Each check is one line: + is fine, ! works but you should know about it, x does not work.
Checks that depend on the environment run twice, in yours and in that of cron: HOME, USER,
LOGNAME, SHELL and PATH=/usr/bin:/bin, the environment file, and what bash -lc adds to it.
Nothing is changed; codex is started, and its sandbox is tried, in a folder that is removed.

Exit code 0: nothing fails; 1: something does; 3: WORKFLOW.md, or the key, is not right.

Example:

    symphony doctor -w ~/web-shop/WORKFLOW.md
    symphony doctor --json | jq '.[] | select(.status == "fail")'`,
		Flags: workflowFlags(&cli.BoolFlag{Name: "json", Usage: "print JSON"}),
		Action: onProject(w, nil, func(c *cli.Context, p *project.Project, _ []string) error {
			return doctor.Examine(c.Context, p, c.String("state-dir"))
		}),
	}
}
