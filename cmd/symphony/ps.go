package main

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
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
		UsageText: usageText("ps", "[ISSUE...]"),
		Description: helpText(
			"ps",
			"symphony ps --watch",
			"symphony retry $(symphony ps -q --filter status=held --limit 1)",
		),
		Flags: workflowFlags(jsonFlagsOf(
			[]jsonDocument{
				{"", reflect.TypeFor[view.Overview]()},
				{"--project all", reflect.TypeFor[[]view.Overview]()},
				{"--agents", reflect.TypeFor[AgentsJSON]()},
			},
			&cli.BoolFlag{
				Name:  "all",
				Usage: "also show what was not started or has ended",
			},
			&cli.IntFlag{
				Name:  "n",
				Value: wiring.PastRuns,
				Usage: "with --all: only the newest `N` ended runs",
			},
			&cli.BoolFlag{
				Name:  "agents",
				Usage: "show only the agents without an issue, with --all also ended ones",
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
			&cli.BoolFlag{Name: "q", Usage: "print only identifiers, one a line"},
			&cli.BoolFlag{Name: "watch", Usage: "print again every second until Ctrl-C"},
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
			if err := render.Overviews(c.Context, w, all, out); err != nil {
				return err
			}
			if c.IsSet("filter") && w.Piped() && !w.JSON {
				noteNoMatch(w, out, all)
			}
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
	return line + "; --all also looks at what was not started or has ended"
}

// newOverviewOptions refuses flags that have no effect together.
func newOverviewOptions(c *cli.Context) (o render.OverviewOptions, err error) {
	err = firstError(onlyWith(c, "all", "n"), positive(c, "n", "limit"), alone(c, "q", "json", "watch"))
	if err != nil {
		return o, err
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
	issues := c.Args().Slice()
	o := view.Options{
		All:    c.Bool("all") || out.Selection.Needs(),
		Ended:  c.Int("n"),
		Search: out.Selection.Search(),
		Issues: issues,
	}
	if out.Projects && len(issues) > 0 {
		return nil, exit.Usage("ps: %q beside several projects: use --filter text=ABC-7", issues[0])
	}
	projects, err := chosenProjects(w, c, "")
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
