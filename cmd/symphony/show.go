package main

import (
	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/urfave/cli/v2"
)

func showCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "show", Usage: "everything about one issue: why it runs or does not, what happens next, its runs and its workspace",
		UsageText: usageText("show", "ISSUE [WORKFLOW]"),
		Description: "It changes nothing. The tracker is asked only about an issue without a claim.\n\n" +
			exampleText("symphony show ABC-7", "symphony show ABC-7 --diff", "symphony show ABC-7 --diff --raw | git apply"),
		Flags: workflowFlags(
			&cli.BoolFlag{Name: "diff", Usage: "the changes in the workspace since its base commit, as a diff"},
			&cli.BoolFlag{Name: "raw", Usage: "print a diff exactly as git does, for git apply, without escaping control characters"},
			&cli.BoolFlag{Name: "offline", Usage: "do not ask the tracker"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
			&cli.BoolFlag{Name: "no-pager", Usage: "print a diff without a pager"},
		),
		Action: onProject(w, []string{"ISSUE"}, func(c *cli.Context, p *project.Project, args []string) error {
			switch {
			case c.Bool("diff") && w.JSON:
				return exit.Usage("show: --diff and --json cannot be combined")
			case c.Bool("raw") && !c.Bool("diff"):
				return exit.Usage("show: --raw works only with --diff")
			case c.Bool("no-pager") && !c.Bool("diff"):
				return exit.Usage("show: --no-pager works only with --diff, because nothing else is paged")
			case c.Bool("diff"):
				return w.Paged(c.Context, !c.Bool("no-pager"), func() error { return render.Diff(c.Context, p, args[0], c.Bool("raw")) })
			}
			v, err := view.ReadIssue(c.Context, p, args[0], c.Bool("offline"))
			if err != nil {
				return err
			}
			render.Issue(w, v)
			return nil
		}),
	}
}
