package main

import (
	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
)

func showCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "show", Usage: "show why one issue runs or does not, and what happens next",
		UsageText: usageText("show", "ISSUE [WORKFLOW]"),
		Description: "It asks the tracker only about issues without a claim, and changes nothing.\n\n" +
			exampleText("symphony show ABC-7"),
		Flags: workflowFlags(jsonFlags[detail.Issue](
			&cli.BoolFlag{Name: "offline", Usage: "do not ask the tracker"},
			&cli.BoolFlag{Name: "no-pager", Usage: "print without a pager"},
		)...),
		Action: onProject(w, []string{"ISSUE"}, func(c *cli.Context, p *project.Project, args []string) error {
			v, err := detail.Read(c.Context, p, args[0], detail.Options{Offline: c.Bool("offline")})
			if err != nil {
				return err
			}
			return w.Paged(c.Context, !c.Bool("no-pager"), func() error {
				render.Issue(w, v)
				return nil
			})
		}),
	}
}

func diffCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "diff", Usage: "show what has changed in an issue's workspace",
		UsageText: usageText("diff", "ISSUE [WORKFLOW]"),
		Description: "It prints the changes since the workspace's base commit, committed or not, and files that are new to git.\n" +
			"It also takes the id of an agent that works without an issue.\n\n" +
			exampleText("symphony diff ABC-7", "symphony diff ABC-7 --raw | git apply"),
		Flags: workflowFlags(
			&cli.BoolFlag{Name: "raw", Usage: "print the diff exactly as git does, for git apply, without escaping control characters"},
			&cli.BoolFlag{Name: "no-pager", Usage: "print the diff without a pager"},
		),
		Action: onProject(w, []string{"ISSUE"}, func(c *cli.Context, p *project.Project, args []string) error {
			p, _ = agents.ProjectOf(c.Context, p, args[0])
			return w.Paged(c.Context, !c.Bool("no-pager"), func() error { return render.Diff(c.Context, w, p, args[0], c.Bool("raw")) })
		}),
	}
}
