package main

import (
	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
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
		Description: `What was handed over, what failed, what is held and what waits, when nothing could run, which passes of
the schedule were missed, and what was used by day and by issue. Runs, time and tokens of an issue that was handed over
are those since it was claimed; all others are of the runs that ended in the time.

Issues handed over, outages and what was used by day are kept for ever. Runs are kept for 30 days, of each issue
20 at least, and so are passes: a report that reaches further back says since when its runs are complete.

Money is shown where WORKFLOW.md has agent.prices. It is an estimate: each run counts at the price of its thread's model.

Example: symphony report --since 2026-01-31`,
		Flags: workflowFlags(
			&cli.StringFlag{Name: "since", Usage: "from this `TIME` on: 12h or 7d ago, a day, or 2026-01-31T18:00:00Z", DefaultText: "12h"},
			&cli.StringFlag{Name: "until", Usage: "up to this `TIME`; of a day up to its end", DefaultText: "now"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		),
		Action: onProject(w, nil, func(c *cli.Context, p *project.Project, _ []string) error {
			for _, flag := range []string{"since", "until"} {
				if c.IsSet(flag) && c.String(flag) == "" {
					return exit.Usage("report: --%s needs a time; check the script's variables", flag)
				}
			}
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
