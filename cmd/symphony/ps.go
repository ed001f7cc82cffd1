package main

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/claims"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/urfave/cli/v2"
)

func psCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "ps",
		Usage:     "show the issues that need you, run, wait or are held, and why",
		UsageText: usageText("ps", "[ISSUE...] [WORKFLOW]"),
		Description: helpText(
			"ps",
			"symphony ps --watch",
			"symphony ps --all -n 50 ABC-7",
			"symphony ps --filter status=handed_over",
			"symphony ps --project all --filter status=held --sort -time",
			"symphony retry $(symphony ps -q --filter status=held --limit 1)",
			"symphony ps --agents",
		),
		Flags: workflowFlags(jsonFlagsOf(
			[]jsonDocument{
				{"", reflect.TypeFor[view.Overview]()},
				{allProjectsName, reflect.TypeFor[[]view.Overview]()},
				{"--agents", reflect.TypeFor[AgentsJSON]()},
			},
			&cli.BoolFlag{
				Name:  "all",
				Usage: "also show issues that were not started, and ended runs",
			},
			&cli.IntFlag{
				Name:  "n",
				Value: wiring.PastRuns,
				Usage: "with --all: only the newest `N` ended runs",
			},
			&cli.BoolFlag{
				Name:  "team",
				Usage: "also show on which issues other machines work: looks at the git remote (repository.claims)",
			},
			&cli.BoolFlag{
				Name:  "agents",
				Usage: "show only the agents that work without an issue; with --all also those that have ended",
			},
			projectFlag(),
			&cli.StringSliceFlag{
				Name:  "filter",
				Usage: "only issues with `KEY=VALUE`; keys: " + strings.Join(view.FilterKeys, ", "),
			},
			&cli.StringFlag{
				Name:  "sort",
				Usage: "sort by `KEY`: " + strings.Join(view.SortKeys, ", "),
			},
			&cli.IntFlag{
				Name:        "limit",
				Aliases:     []string{"L"},
				Usage:       "only the first `N` issues",
				DefaultText: "all",
			},
			&cli.BoolFlag{Name: "q", Usage: "print only the identifiers of the issues, one a line"},
			&cli.BoolFlag{Name: "watch", Usage: "print again every second until Ctrl-C (kubectl's -w; here -w is the workflow)"},
			&cli.BoolFlag{Name: "no-pager", Usage: "print without a pager"},
		)...),
		Action: func(c *cli.Context) error {
			if c.Bool("agents") {
				return listAgents(c, w)
			}
			w.JSONLines = c.Bool("watch")
			out, err := newOverviewOptions(c)
			if err != nil {
				return err
			}
			shown, err := showAgent(c, w)
			if err != nil || shown {
				return err
			}
			read, err := overviewReader(w, c, out)
			if err != nil {
				return err
			}
			if c.Bool("watch") {
				return render.Watch(c.Context, w, out, read)
			}
			all, err := read()
			if err != nil {
				return err
			}
			if err := out.Selection.CheckProjects(all); err != nil {
				return err
			}
			if c.Bool("team") {
				if err := addTeam(c, w, all); err != nil {
					return err
				}
			}
			if err := render.Overviews(c.Context, w, all, out); err != nil {
				return err
			}
			if c.IsSet("filter") && w.Piped() && !w.JSON {
				noteNoMatch(w, out, all)
			}
			printTeam(w, all)
			selected := c.NArg() > 0 || c.IsSet("filter") || c.IsSet("limit")
			if w.JSON || c.Bool("q") || selected {
				return nil
			}
			rows, err := agents.Rows(c.Context, w.Environment(), false)
			printAgents(w, rows)
			return err
		},
	}
}

// addTeam adds the claims of other machines, as the remote has them now, to the projects that have
// repository.claims. A remote of several projects that does not answer is told, and hides no other.
func addTeam(c *cli.Context, w *term.Env, all []view.Overview) error {
	for i := range all {
		v := &all[i]
		p := wiring.NewProject(w.Environment(), v.Project.WorkflowPath, v.Project.StateDir)
		rows, err := claims.OfOthers(c.Context, p)
		switch {
		case err == nil:
			v.Team = rows
		case len(all) == 1:
			return err
		case exit.From(err).Code != wiring.CodeClaimsOff:
			w.Note(slog.LevelWarn, v.Project.Name+": "+exit.From(err).Message)
		}
	}
	return nil
}

// printTeam prints the claims of other machines.
func printTeam(w *term.Env, all []view.Overview) {
	var rows []claims.TeamRow
	for _, v := range all {
		rows = append(rows, v.Team...)
	}
	if !w.JSON {
		w.PrintTable("TEAM", claimsTable(w, rows))
	}
}

// noteNoMatch says that a filter keeps no issue. On a terminal the page does.
func noteNoMatch(w *term.Env, out render.OverviewOptions, all []view.Overview) {
	_, rows, _ := out.Selection.Select(all)
	if len(rows) == 0 {
		fmt.Fprintln(w.Stderr, "symphony: "+out.NoMatch)
	}
}

// noMatch says that a filter keeps no issue, and what it has not looked at.
func noMatch(all bool) string {
	line := "no issue matches the filter"
	if all {
		return line
	}
	return line + "; --all also looks at issues that were not started, and at ended runs"
}

// showAgent prints the row of an agent if the only argument is its id.
func showAgent(c *cli.Context, w *term.Env) (shown bool, err error) {
	if c.NArg() != 1 || w.JSON || c.Bool("q") || c.Bool("watch") || namesSeveral(c) {
		return false, nil
	}
	id := c.Args().First()
	rows, err := agents.Rows(c.Context, w.Environment(), true)
	rows = slices.DeleteFunc(rows, func(r agents.Row) bool { return r.ID != id })
	if err != nil || len(rows) == 0 {
		return false, nil //nolint:nilerr // then it is looked for among the issues
	}
	p, err := openProject(w, c, "")
	if err != nil {
		return false, err
	}
	_, isAgent := agents.ProjectOf(c.Context, p, id)
	if !isAgent {
		return false, nil
	}
	printAgents(w, rows)
	return true, nil
}

// newOverviewOptions refuses flags that have no effect together.
func newOverviewOptions(c *cli.Context) (o render.OverviewOptions, err error) {
	switch {
	case c.IsSet("n") && !c.Bool("all"):
		return o, exit.Usage("ps: -n, the number of ended runs, works only with --all")
	case c.Int("n") < 1:
		return o, exit.Usage("ps: -n must be at least 1, not %d", c.Int("n"))
	case c.IsSet("limit") && c.Int("limit") < 1:
		return o, exit.Usage("ps: --limit must be at least 1, not %d", c.Int("limit"))
	case c.Bool("q") && c.IsSet("json"):
		return o, exit.Usage("ps: -q and --json cannot be combined")
	case c.Bool("team") && (c.Bool("q") || c.Bool("watch")):
		return o, exit.Usage("ps: --team can't be combined with -q or --watch; symphony machines -q lists its issues")
	case c.Bool("q") && c.Bool("watch"):
		return o, exit.Usage("ps: -q and --watch cannot be combined")
	}
	o = render.OverviewOptions{
		Projects: namesSeveral(c),
		Quiet:    c.Bool("q"),
		Pager:    !c.Bool("no-pager") && !c.Bool("watch"),
	}
	o.Selection, err = view.NewSelection(c.StringSlice("filter"), c.String("sort"), c.Int("limit"))
	if c.IsSet("filter") {
		o.NoMatch = noMatch(c.Bool("all") || o.Selection.Needs())
	}
	return o, err
}

// overviewReader returns a function that reads the overview of the project, or the overviews of
// all projects.
func overviewReader(
	w *term.Env,
	c *cli.Context,
	out render.OverviewOptions,
) (func() ([]view.Overview, error), error) {
	issues, positional := issuesAndWorkflow(w, c.Args().Slice())
	o := view.Options{
		All:    c.Bool("all") || out.Selection.Needs(),
		Ended:  c.Int("n"),
		Search: out.Selection.Search(),
		Issues: issues,
		Folder: new(view.FolderCache),
	}
	if out.Projects && len(issues) > 0 {
		return nil, exit.Usage("ps: %q beside several projects: --filter text=ABC-7 finds an issue", issues[0])
	}
	projects, err := chosenProjects(w, c, positional)
	switch {
	case err != nil:
		return nil, err
	case c.IsSet(allProjects): // --watch shows a new project
		return func() ([]view.Overview, error) { return view.ReadAll(c.Context, w.Environment(), o) }, nil
	}
	current := func() []view.Named { return projects }
	if c.Bool("watch") {
		current = func() []view.Named { return again(projects) }
	}
	if out.Projects {
		return func() ([]view.Overview, error) { return view.ReadEach(c.Context, current(), o) }, nil
	}
	return func() ([]view.Overview, error) {
		v, err := view.Read(c.Context, current()[0].Project, o)
		return []view.Overview{v}, err
	}, nil
}

// again reads the workflows of projects again: --watch shows a changed workflow.
func again(projects []view.Named) []view.Named {
	return text.Map(projects, func(p view.Named) view.Named {
		return view.Named{Project: wiring.NewProject(p.Env, p.Path, p.StateDir), Name: p.Name}
	})
}

// issuesAndWorkflow separates the issues from the workflow, which may come last. The workflow
// is a path that exists, or anything with a slash or a dot, which only the web address of an
// issue has.
func issuesAndWorkflow(w *term.Env, args []string) (issues []string, workflow string) {
	if len(args) == 0 {
		return nil, ""
	}
	last := args[len(args)-1]
	if _, isAddress := text.IssueAddress(last); isAddress {
		return args, ""
	}
	isPath := wiring.Exists(w.Absolute(last)) || strings.ContainsAny(last, "/.")
	if isPath && !issueShaped(last) {
		return args[:len(args)-1], last
	}
	return args, ""
}

// issueShaped reports whether a name looks like ABC-7 or task-7.1: then it names the issue,
// not a folder of that name such as a workspace.
func issueShaped(name string) bool {
	team, number, ok := strings.Cut(name, "-")
	return ok && team != "" && !strings.Contains(team, "/") && number != "" &&
		strings.Trim(number, "0123456789.") == ""
}
