package main

import (
	"math"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/report"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
)

func reportCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "report",
		Usage:     "show what was done, what failed, and what it cost",
		UsageText: usageText("report", "[WORKFLOW]"),
		Description: helpText(
			"report",
			"symphony report --since 2026-01-31",
			"symphony report --by label --since 30d",
			"symphony report --list --since 7d --filter label=bug --filter outcome=merged",
			"symphony report --project all --since 3d",
		),
		Flags: workflowFlags(jsonFlagsOf(
			[]jsonDocument{
				{"", reflect.TypeFor[report.Report]()},
				{"--list", reflect.TypeFor[report.ResultList]()},
				{allProjectsName, reflect.TypeFor[[]report.OfProject]()},
			},
			projectFlag(),
			&cli.StringFlag{
				Name:        "since",
				Usage:       "from `TIME` on: 12h or 7d (ago), a date such as 2026-01-31, friday, or 2026-01-31T18:00:00Z",
				DefaultText: "12h",
			},
			&cli.StringFlag{
				Name:        "until",
				Usage:       "up to `TIME`; a date counts to the end of that day",
				DefaultText: "now",
			},
			&cli.StringFlag{Name: "by", Usage: "only the usage, by `WHAT`: issue, label or day"},
			&cli.BoolFlag{Name: "list", Usage: "list the results of issues"},
			&cli.StringSliceFlag{
				Name:  "filter",
				Usage: "with --list: only results with `KEY=VALUE`; keys: outcome, label, text",
			},
			&cli.IntFlag{
				Name:        "n",
				Usage:       "at most `N` rows of each table",
				DefaultText: "10 on a terminal",
			},
			&cli.BoolFlag{Name: "all", Usage: "every row"},
			&cli.BoolFlag{Name: "no-pager", Usage: "print without a pager"},
		)...),
		Action: func(c *cli.Context) error {
			_, positional, err := arguments(w, c)
			if err != nil {
				return err
			}
			o, err := newReportOptions(w, c)
			if err != nil {
				return err
			}
			projects, err := chosenProjects(w, c, positional)
			if err != nil {
				return err
			}
			if c.Bool("list") {
				return listResults(w, c, projects, o)
			}
			return printReports(w, c, projects, o)
		},
	}
}

// printReports prints the report of a project, or of several, one below the other.
func printReports(w *term.Env, c *cli.Context, projects []view.Named, o render.ReportOptions) error {
	period, err := report.ParsePeriod(c.String("since"), c.String("until"), w.Now())
	if err != nil {
		return err
	}
	if namesSeveral(c) {
		all, err := report.ReadEach(c.Context, projects, period)
		if err != nil {
			return err
		}
		return w.Paged(c.Context, !c.Bool("no-pager"), func() error { return render.Reports(w, all, o) })
	}
	r, err := report.Read(c.Context, projects[0].Project, period)
	if err != nil {
		return err
	}
	return w.Paged(c.Context, !c.Bool("no-pager"), func() error { return render.Report(w, r, o) })
}

// listResults prints the results that the flags choose.
func listResults(w *term.Env, c *cli.Context, projects []view.Named, o render.ReportOptions) error {
	values := url.Values{"since": {c.String("since")}, "until": {c.String("until")}}
	for _, filter := range c.StringSlice("filter") {
		key, value, _ := strings.Cut(filter, "=")
		if value == "" || !slices.Contains([]string{"outcome", "label", "text"}, key) {
			return exit.Usage(
				"report: --filter needs KEY=VALUE with one of the keys outcome, label, text, not %q",
				filter,
			)
		}
		values.Add(key, value)
	}
	q, err := report.ParseQuery(values, w.Now())
	if err != nil {
		return err
	}
	q.Limit = o.Rows
	if o.Rows == 0 {
		q.Limit = math.MaxInt32
	}
	r, err := report.List(c.Context, projects, q)
	if err != nil {
		return err
	}
	return w.Paged(c.Context, !c.Bool("no-pager"), func() error {
		render.Results(w, r, o)
		return nil
	})
}

// newReportOptions refuses flags that would have no effect.
func newReportOptions(w *term.Env, c *cli.Context) (o render.ReportOptions, err error) {
	o = render.ReportOptions{By: c.String("by"), Rows: c.Int("n"), Projects: namesSeveral(c)}
	list := c.Bool("list")
	all := c.Bool("all")
	choosesBy := c.IsSet("by")
	choosesRows := c.IsSet("n")
	switch {
	case c.IsSet("filter") && !list:
		return o, exit.Usage("report: --filter works only with --list")
	case choosesBy && list:
		return o, exit.Usage("report: --by and --list cannot be combined")
	case w.JSON && !list && (choosesBy || choosesRows || all):
		return o, exit.Usage(
			"report: --by, -n and --all are for tables: --json has all rows, by issue, label and day",
		)
	case choosesBy && !slices.Contains([]string{render.ByIssue, render.ByLabel, render.ByDay}, o.By):
		return o, exit.Usage("report: --by must be issue, label or day, not %q", o.By)
	case choosesRows && all:
		return o, exit.Usage("report: -n and --all cannot be combined")
	case choosesRows && o.Rows < 1:
		return o, exit.Usage("report: -n must be at least 1, not %d", o.Rows)
	}
	if !choosesRows && !all && !w.Piped() {
		o.Rows = render.ReportRows
	}
	return o, nil
}
