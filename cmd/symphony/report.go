package main

import (
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/urfave/cli/v2"
)

func reportCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "report", Usage: "what was done, what failed, what is stuck, and what it cost",
		UsageText: usageText("report", "[WORKFLOW]"),
		Description: `The report lists the issues that were handed over, failed, are held or wait; the times in which nothing could
run; missed passes of the schedule; and the tokens by day and by issue. Runs, time and tokens of an issue that
was handed over are counted since it was claimed, all others from the runs that ended in the period.

Handed over issues, outages and the tokens by day are kept for ever; runs and passes are kept for 30 days, and
at least 20 runs of each issue. A report that reaches further back says since when its runs are complete.

With agent.prices in WORKFLOW.md the report has an estimated cost: the price of the model of each run's thread.

Example: symphony report --since 2026-01-31`,
		Flags: workflowFlags(jsonFlags[view.Report](
			&cli.StringFlag{Name: "since", Usage: "from this `TIME` on: 12h or 7d ago, a day, or 2026-01-31T18:00:00Z", DefaultText: "12h"},
			&cli.StringFlag{Name: "until", Usage: "up to this `TIME`; of a day up to its end", DefaultText: "now"},
		)...),
		Action: onProject(w, nil, func(c *cli.Context, p *project.Project, _ []string) error {
			period, err := view.ParsePeriod(c.String("since"), c.String("until"), w.Now())
			if err != nil {
				return err
			}
			r, err := view.ReadReport(c.Context, p, period)
			if err != nil {
				return err
			}
			return render.Report(w, r)
		}),
	}
}
