package main

import (
	"os"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/urfave/cli/v2"
)

func psCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "ps", Usage: "what runs, what waits, what is held, and why",
		UsageText: usageText("ps", "[ISSUE...] [WORKFLOW]"),
		Description: "With ISSUE it shows only these issues. With --watch it prints again every second until\n" +
			"Ctrl-C. In a pipe each row is a line of exact values, separated by tabs. The JSON of\n" +
			"--json is that of section 13.7 of the specification.\n\n" +
			exampleText("symphony ps --watch", "symphony ps --all -n 50 ABC-7"),
		Flags: workflowFlags(jsonFlags[view.Overview](
			&cli.BoolFlag{Name: "all", Usage: "also the skipped issues and the runs that have ended"},
			&cli.IntFlag{Name: "n", Value: project.PastRuns, Usage: "with --all: the newest `N` of the ended runs"},
			&cli.BoolFlag{Name: "watch", Usage: "print again every second until Ctrl-C"},
		)...),
		Action: func(c *cli.Context) error {
			w.JSONLines = c.Bool("watch")
			issues, positional := issuesAndWorkflow(w, c.Args().Slice())
			o := view.Options{All: c.Bool("all"), Ended: c.Int("n"), Issues: issues}
			switch {
			case c.IsSet("n") && !o.All:
				return exit.Usage("ps: -n, the number of ended runs, works only with --all")
			case o.Ended < 1:
				return exit.Usage("ps: -n must be at least 1, not %d", o.Ended)
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

// issuesAndWorkflow separates the issues from the workflow, which may come last. The workflow is a path that exists, or anything
// with a slash or a dot, which only the web address of an issue has.
func issuesAndWorkflow(w *term.Env, args []string) (issues []string, workflow string) {
	if len(args) == 0 {
		return nil, ""
	}
	last := args[len(args)-1]
	if _, isAddress := text.IssueAddress(last); isAddress {
		return args, ""
	}
	if _, err := os.Stat(w.Absolute(last)); err == nil && !issueShaped(last) || strings.ContainsAny(last, "/.") {
		return args[:len(args)-1], last
	}
	return args, ""
}

// issueShaped reports whether a name looks like ABC-7: then it names the issue, not a folder of that name such as a workspace.
func issueShaped(name string) bool {
	team, number, ok := strings.Cut(name, "-")
	return ok && team != "" && number != "" && strings.Trim(number, "0123456789") == ""
}
