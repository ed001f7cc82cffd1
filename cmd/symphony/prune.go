package main

import (
	"github.com/symphony-cron/symphony/cmd/symphony/internal/cleanup"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/urfave/cli/v2"
)

func pruneCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "prune", Usage: "remove what is left of issues that are done or deleted",
		UsageText: usageText("prune", "[WORKFLOW]"),
		Description: `Goes: the trash; workspaces of issues without a claim that are in a terminal state or that the tracker no
longer shows; what the state directory keeps of the runs of such issues; run directories without a row in the database. A
workspace goes into the trash as after a run, and is deleted after workspace.keep_removed_ms or by the next prune.

Stays: what is claimed or in use, and, unless --force is given, what has commits that no remote has or changes that
no commit has.

Example:

    symphony prune --dry-run
    symphony prune --yes --older-than 24h`,
		Flags: workflowFlags(
			&cli.BoolFlag{Name: "dry-run", Usage: "only say what would go"},
			&cli.BoolFlag{Name: "yes", Usage: "do not ask"},
			&cli.BoolFlag{Name: "force", Usage: "also workspaces with work that is nowhere else"},
			&cli.DurationFlag{Name: "older-than", Usage: "keep runs that began or ended within this `TIME`", Value: cleanup.KeepRuns, DefaultText: "168h"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		),
		Action: onProject(w, nil, func(c *cli.Context, p *project.Project, _ []string) error {
			if c.Duration("older-than") < 0 {
				return exit.Usage("prune: --older-than is not negative")
			}
			return cleanup.Prune(c.Context, p, cleanup.PruneOptions{
				DryRun: c.Bool("dry-run"), Yes: c.Bool("yes"), Force: c.Bool("force"), OlderThan: c.Duration("older-than"),
			})
		}),
	}
}
