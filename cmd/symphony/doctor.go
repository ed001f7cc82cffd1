package main

import (
	"github.com/symphony-cron/symphony/cmd/symphony/internal/doctor"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/urfave/cli/v2"
)

func doctorCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "check everything that a run needs, and print the next step for each problem",
		UsageText: usageText("doctor", "[WORKFLOW]"),
		Description: `Each result is one line: + is fine, ! works but needs your attention, x does not work.
Each check runs in two environments: yours and that of cron, which has HOME, USER, LOGNAME,
SHELL and PATH=/usr/bin:/bin, the environment file, and the variables that bash -lc adds.
It changes nothing: it starts codex and tries its sandbox in a folder that it removes.

Exit code 0: no check fails; 1: a check fails; 3: WORKFLOW.md or the key is wrong.

Example:

    symphony doctor -w ~/web-shop/WORKFLOW.md
    symphony doctor --json | jq '.[] | select(.status == "fail")'`,
		Flags: workflowFlags(jsonFlags[doctor.JSON]()...),
		Action: onProject(w, nil, func(c *cli.Context, p *project.Project, _ []string) error {
			return doctor.Examine(c.Context, p, c.String("state-dir"))
		}),
	}
}
