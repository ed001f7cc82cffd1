package main

import (
	"reflect"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/cleanup"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/urfave/cli/v2"
)

func projectsCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "projects", Usage: "list the projects of this account, or remove one",
		UsageText: "symphony projects [flags]\n   symphony projects remove [flags] PATH",
		Description: `A project is a WORKFLOW.md and its state directory, usually below ~/.local/state/symphony.

projects remove takes a WORKFLOW.md, its folder or a state directory. It deletes the state directory, the
environment file and the project's entry in the workspace root; with --workspaces also the workspaces and the
trash; with the last project also the threads of agents. It refuses while a worker or a schedule is active.
With --workspaces it also refuses while one of them contains work that exists nowhere else; --force destroys
such work, and names it first.

Examples:

    symphony projects
    symphony projects remove ~/web-shop/WORKFLOW.md --workspaces`,
		Flags: jsonFlagsOf([]jsonDocument{{"", reflect.TypeFor[cleanup.ProjectsJSON]()}, {"remove", reflect.TypeFor[cleanup.RemovedJSON]()}},
			&cli.BoolFlag{Name: "workspaces", Usage: "remove: also the workspaces"},
			&cli.BoolFlag{Name: "force", Usage: "remove: destroy work that exists nowhere else"},
			&cli.BoolFlag{Name: "yes", Usage: "remove: do not ask"},
		),
		Action: func(c *cli.Context) error { return projectsAction(c, w) },
	}
}

func projectsAction(c *cli.Context, w *term.Env) error {
	args := c.Args().Slice()
	if len(args) == 0 {
		for _, name := range []string{"workspaces", "force", "yes"} {
			if c.Bool(name) {
				return exit.Usage("projects: --%s works only with projects remove PATH", name)
			}
		}
		return cleanup.ListProjects(c.Context, w)
	}
	switch {
	case args[0] != "remove":
		return exit.Usage("projects: unexpected argument %q", args[0])
	case len(args) == 1:
		return exit.Usage("projects: remove: PATH is missing")
	case len(args) > 2:
		return exit.Usage("projects: unexpected argument %q", args[2])
	}
	return cleanup.RemoveProject(c.Context, w, args[1], cleanup.RemoveOptions{
		Workspaces: c.Bool("workspaces"), Force: c.Bool("force"), Yes: c.Bool("yes"),
	})
}
