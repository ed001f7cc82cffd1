package main

import (
	"context"
	"fmt"
	"reflect"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/cleanup"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/urfave/cli/v2"
)

func projectsCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:  "projects",
		Usage: "list, move or remove the projects of your account",
		UsageText: "symphony projects [flags]\n   symphony projects move [flags] OLD NEW\n   symphony " +
			"projects remove [flags] PATH",
		Description: helpPart("projects"),
		Flags: jsonFlagsOf(
			[]jsonDocument{
				{"", reflect.TypeFor[[]cleanup.ProjectRow]()},
				{"move", reflect.TypeFor[cleanup.MovedJSON]()},
				{"remove", reflect.TypeFor[cleanup.RemovedJSON]()},
			},
			&cli.BoolFlag{Name: "workspaces", Usage: "remove: also the workspaces"},
			&cli.BoolFlag{Name: "force", Usage: "remove: destroy work that exists nowhere else"},
			&cli.BoolFlag{Name: "yes", Usage: "remove: do not ask"},
		),
		Action: func(c *cli.Context) error { return projectsAction(c, w) },
	}
}

func projectsAction(c *cli.Context, w *term.Env) error {
	args := c.Args().Slice()
	verb := ""
	if len(args) > 0 {
		verb = args[0]
		args = args[1:]
	}
	names := map[string][]string{"": {}, "move": {"OLD", "NEW"}, "remove": {"PATH"}}[verb]
	switch {
	case names == nil:
		return unknownSubcommand("projects", verb, []string{"move", "remove"})
	case len(args) < len(names):
		return argumentMissing(c, names[len(args)])
	case len(args) > len(names):
		return unexpected(c, args[len(names)])
	}
	for _, name := range []string{"workspaces", "force", "yes"} {
		if c.Bool(name) && verb != "remove" {
			return exit.Usage("projects: --%s works only with projects remove PATH", name)
		}
	}
	switch verb {
	case "move":
		moved, err := cleanup.MoveProject(c.Context, w.Environment(), args[0], args[1])
		if moved.StateDir != "" {
			render.Moved(w, moved)
		}
		besides := *w
		besides.Stdout = w.Stderr // the only JSON document is the move
		return render.ScheduleError(&besides, err)
	case "remove":
		return removeProject(c, w, args[0])
	}
	rows, err := cleanup.Projects(c.Context, w.Environment())
	if err != nil {
		return err
	}
	render.Projects(w, rows)
	return nil
}

// removeProject removes a project. It first lists everything to remove, and asks the operator
// unless --yes is set.
func removeProject(c *cli.Context, w *term.Env, path string) error {
	confirm := func(ctx context.Context, lines []string) error {
		out := w.Stdout
		if w.JSON {
			out = w.Stderr
		}
		for _, line := range lines {
			fmt.Fprintln(out, text.Visible(line))
		}
		if c.Bool("yes") {
			return nil
		}
		return term.Confirm(ctx, w, "Remove? [y]es, [N]o: ")
	}
	removed, err := cleanup.RemoveProject(c.Context, w.Environment(), path, cleanup.RemoveOptions{
		Workspaces: c.Bool("workspaces"),
		Force:      c.Bool("force"),
		Confirm:    confirm,
	})
	if err != nil {
		return err
	}
	render.Removed(w, removed)
	return nil
}
