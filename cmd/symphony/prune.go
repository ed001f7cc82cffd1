package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/cleanup"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/urfave/cli/v2"
)

func pruneCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "prune",
		Usage:     "remove workspaces and records of finished issues",
		UsageText: usageText("prune", "[ISSUE...]"),
		Description: helpText(
			"prune",
			"symphony prune --dry-run",
			"symphony prune --force ABC-7",
		),
		Flags: workflowFlags(jsonFlags[cleanup.PruneJSON](
			&cli.BoolFlag{
				Name:  "dry-run",
				Usage: "print what would be removed, and remove nothing",
			},
			&cli.BoolFlag{Name: "yes", Usage: "do not ask"},
			&cli.BoolFlag{Name: "force", Usage: "discard work of ISSUE that exists nowhere else"},
			&cli.DurationFlag{
				Name:        "older-than",
				Usage:       "keep runs that began or ended less than `TIME` ago",
				Value:       cleanup.KeepRuns,
				DefaultText: "168h",
			},
		)...),
		Action: func(c *cli.Context) error { return pruneAction(c, w) },
	}
}

func pruneAction(c *cli.Context, w *term.Env) error {
	issues := c.Args().Slice()
	switch {
	case c.Duration("older-than") < 0:
		return exit.Usage("prune: --older-than must not be negative")
	case c.Bool("force") && len(issues) == 0:
		return exit.Usage("prune: --force needs the ISSUE whose work it discards; --dry-run lists what is kept")
	}
	p, err := openProject(w, c, "")
	if err != nil {
		return err
	}
	pruned, err := pruneAgents(c, w, p, issues)
	if err != nil || pruned {
		return err
	}
	tellElsewhere(w, p)
	o := cleanup.PruneOptions{
		DryRun:    c.Bool("dry-run"),
		Force:     c.Bool("force"),
		OlderThan: c.Duration("older-than"),
		Issues:    issues,
		Log:       w.NewLog(slog.LevelWarn, term.TextLog),
	}
	if !c.Bool("yes") {
		o.Confirm = func(ctx context.Context, found *cleanup.PruneJSON) error {
			render.PrunePlan(w, found)
			return term.Confirm(ctx, w, "Remove? [y]es, [N]o: ")
		}
	}
	removed, err := cleanup.Prune(c.Context, p, o)
	if err != nil {
		return err
	}
	render.Pruned(w, removed)
	return nil
}

// pruneAgents removes ended agents with their worktrees, if agents have these names.
func pruneAgents(c *cli.Context, w *term.Env, p *wiring.Project, names []string) (pruned bool, err error) {
	for _, name := range names {
		if _, isAgent := agents.ProjectOf(c.Context, p, name); !isAgent {
			continue
		}
		if len(names) > 1 || c.Bool("dry-run") || w.JSON {
			return false, exit.Usage(
				"prune: %s is an agent: name it alone, without --dry-run and --json",
				name,
			)
		}
		if err := agents.Prune(c.Context, w.Environment(), name, c.Bool("force")); err != nil {
			return false, err
		}
		fmt.Fprintln(w.Stdout, text.Visible("removed agent "+name))
		return true, nil
	}
	return false, nil
}
