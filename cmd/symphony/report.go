package main

import (
	"cmp"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/report"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
)

func reportCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "report",
		Usage:     "show what was done, and what it cost",
		UsageText: usageText("report", "[WORKFLOW]"),
		Description: helpText(
			"report",
			"symphony report --since 2026-01-31",
			"symphony report --by agent --since 30d",
		),
		Flags: workflowFlags(jsonFlags[report.ResultList](
			projectFlag(),
			&cli.StringFlag{
				Name:        "since",
				Usage:       "from `TIME` on: 12h, 7d, friday, 2026-01-31 or 2026-01-31T18:00:00Z",
				DefaultText: "12h",
			},
			&cli.StringFlag{
				Name:        "until",
				Usage:       "up to `TIME`; a date counts to the end of that day",
				DefaultText: "now",
			},
			&cli.StringFlag{
				Name:        "by",
				Usage:       "a row for each `WHAT`: issue, project, agent or day",
				DefaultText: report.ByIssue,
			},
			&cli.StringSliceFlag{
				Name:  "filter",
				Usage: "only results with `KEY=VALUE`; keys: outcome, label, text",
			},
			&cli.IntFlag{
				Name:        "n",
				Usage:       "at most `N` results",
				DefaultText: "10 on a terminal",
			},
			&cli.BoolFlag{Name: "all", Usage: "every result"},
			&cli.BoolFlag{Name: "no-pager", Usage: "print without a pager"},
		)...),
		Action: func(c *cli.Context) error {
			_, positional, err := arguments(w, c)
			if err != nil {
				return err
			}
			q, err := reportQuery(w, c)
			if err != nil {
				return err
			}
			projects, err := chosenProjects(w, c, positional)
			if err != nil {
				return err
			}
			r, err := report.List(c.Context, projects, q)
			if err != nil {
				return err
			}
			o := render.ReportOptions{
				Period:   report.Period{Since: q.Since, Until: cmp.Or(q.Until, r.GeneratedAt)},
				By:       q.By,
				Projects: namesSeveral(c),
			}
			return w.Paged(c.Context, !c.Bool("no-pager"), func() error {
				render.Report(w, r, o)
				return nil
			})
		},
	}
}

// reportQuery reads the flags, and refuses those that would have no effect.
func reportQuery(w *term.Env, c *cli.Context) (q report.Query, err error) {
	period, err := report.ParsePeriod(c.String("since"), c.String("until"), w.Now())
	if err != nil {
		return q, err
	}
	by := cmp.Or(c.String("by"), report.ByIssue)
	values := url.Values{"by": {by}}
	for _, filter := range c.StringSlice("filter") {
		key, value, _ := strings.Cut(filter, "=")
		if value == "" || !slices.Contains([]string{"outcome", "label", "text"}, key) {
			return q, exit.Usage(
				"report: --filter needs KEY=VALUE with the key outcome, label or text, not %q",
				filter,
			)
		}
		values.Add(key, value)
	}
	q, err = report.ParseQuery(values, w.Now())
	err = firstError(onlyOne(c, "n", "all"), positive(c, "n"), err)
	if err != nil {
		return q, err
	}
	q.Since = period.Since
	if c.IsSet("until") {
		q.Until = period.Until
	}
	switch {
	case c.IsSet("n"):
		q.Limit = c.Int("n")
	case c.Bool("all") || w.JSON || w.Piped():
		q.Limit = math.MaxInt32
	default:
		q.Limit = render.ReportRows
	}
	return q, nil
}
