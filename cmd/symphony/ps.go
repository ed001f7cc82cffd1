package main

import (
	"os"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/urfave/cli/v2"
)

func psCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "ps", Usage: "what runs, what waits, what is held, and why",
		UsageText: usageText("ps", "[ISSUE...] [WORKFLOW]"),
		Description: "With ISSUE it shows these issues alone. With --watch it prints again every second until\n" +
			"Ctrl-C. In a pipe each row is a line with exact values, separated by tabs.\n\n" +
			exampleText("symphony ps --watch", "symphony ps --all -n 50 ABC-7"),
		Flags: workflowFlags(
			&cli.BoolFlag{Name: "all", Usage: "also the skipped issues and the runs that have ended"},
			&cli.IntFlag{Name: "n", Value: project.PastRuns, Usage: "with --all: the newest `N` of the ended runs"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON as in section 13.7 of the specification"},
			&cli.BoolFlag{Name: "watch", Usage: "print again every second until Ctrl-C"},
		),
		Action: func(c *cli.Context) error {
			w.JSON, w.JSONLines = c.Bool("json"), c.Bool("watch")
			issues, positional := issuesAndWorkflow(w, c.Args().Slice())
			o := view.Options{All: c.Bool("all"), Ended: c.Int("n"), Issues: issues}
			switch {
			case slices.Contains(c.Args().Slice(), ""):
				return exit.Usage("ps: an argument is empty; check the script's variables")
			case c.IsSet("n") && !o.All:
				return exit.Usage("ps: -n needs --all: it is the number of ended runs")
			case o.Ended < 1:
				return exit.Usage("ps: -n needs a number of at least 1, not %d", o.Ended)
			}
			p, err := openProject(w, c, positional)
			if err != nil {
				return err
			}
			if c.Bool("watch") {
				return render.Watch(c.Context, p, o)
			}
			v, err := view.Read(c.Context, p, o)
			if err != nil {
				return err
			}
			render.Overview(w, v)
			return nil
		},
	}
}

// issuesAndWorkflow separates the issues from the workflow, which may come last: a path that exists, or anything with a
// slash or a dot, which no issue has.
func issuesAndWorkflow(w *term.Env, args []string) (issues []string, workflow string) {
	if len(args) == 0 {
		return nil, ""
	}
	last := args[len(args)-1]
	if _, err := os.Stat(w.Absolute(last)); err == nil && !issueShaped(last) || strings.ContainsAny(last, "/.") {
		return args[:len(args)-1], last
	}
	return args, ""
}

// issueShaped reports a name such as ABC-7. A folder of that name, for instance a workspace, is not meant.
func issueShaped(name string) bool {
	team, number, ok := strings.Cut(name, "-")
	return ok && team != "" && number != "" && strings.Trim(number, "0123456789") == ""
}
