package main

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/cleanup"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
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

// projectVerbs map other tools' names of subcommands to ours.
var projectVerbs = map[string]string{
	"del":        "remove",
	"delete":     "remove",
	"mv":         "move",
	"prune":      "remove",
	"rename":     "move",
	"rm":         "remove",
	"unregister": "remove",
}

// projectTasks are other subcommands of other tools.
var projectTasks = []foreignWord{
	{"list ls all", "symphony projects lists them without a word"},
	{
		"add create new import register init link clone",
		"symphony init writes the WORKFLOW.md of a project, and its first pass adds it to the list",
	},
	{
		"use switch select set default set-default current activate checkout",
		"no project is the current one: a command is about the WORKFLOW.md of its folder or of a folder above, or with " +
			"-w FILE about another one",
	},
}

// unknownProjectWord is the error for a word behind projects: the subcommand of another tool, a
// command of ours, or the name of a project.
func unknownProjectWord(ctx context.Context, w *term.Env, words []string) error {
	word := words[0]
	if meant := meantBy(projectTasks, word); meant != "" {
		return exit.Usage("projects: unknown subcommand %q: %s", word, meant)
	}
	meant := didYouMean(word, projectVerbs, []string{"move", "remove"}, "%s")
	verb := "ps"
	if slices.Contains([]string{"pause", "resume", "doctor", "check", "schedule", "status"}, word) {
		verb = word
	}
	path := workflowCalled(ctx, w, words[len(words)-1])
	switch {
	case path != "" && meant == "":
		const message = "projects: unknown subcommand %q: symphony %s -w %s is about that project"
		return exit.Usage(message, word, verb, text.ShellQuote(path))
	case verb != "ps":
		return exit.Usage("projects: unknown subcommand %q: symphony %s -w FILE is about one project", word, verb)
	}
	const message = "projects: unknown subcommand %q%s; without one it lists the projects, and there are " +
		"move OLD NEW and remove PATH; a project is in the list from its first pass on"
	return exit.Usage(message, word, meant)
}

// workflowCalled returns the workflow of the project with a name, or of the one in a folder; empty
// if no project of the account has it.
func workflowCalled(ctx context.Context, w *term.Env, name string) string {
	projects, err := wiring.AllProjects(w.Environment())
	if err != nil {
		return "" // the name then counts as unknown
	}
	dir := w.Absolute(name)
	for _, p := range view.Name(ctx, projects) {
		if p.Path != "" && (p.Name == name || filepath.Dir(p.Path) == dir) {
			return p.Path
		}
	}
	return ""
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
		return unknownProjectWord(c.Context, w, append([]string{verb}, args...))
	case len(args) < len(names):
		return exit.Usage("projects: %s: %s is missing; symphony projects lists the projects", verb, names[len(args)])
	case len(args) > len(names):
		return exit.Usage("projects: unexpected argument %q", args[len(names)])
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
