package main

import (
	"cmp"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/export"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/report"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
)

func exportCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "export",
		Usage:     "send finished runs to OpenTelemetry",
		UsageText: usageText("export", "--otlp TARGET [WORKFLOW]"),
		Description: helpText(
			"export",
			"symphony export --otlp http://127.0.0.1:4318",
			"symphony export --otlp runs.jsonl --since 7d --content",
		),
		Flags: workflowFlags(
			&cli.StringFlag{Name: "otlp", Usage: "write spans to `TARGET`: a file, - or a URL"},
			&cli.StringFlag{
				Name:        "since",
				Usage:       "runs that ended since `TIME`: 12h or 7d (ago), a date such as 2026-01-31, or 2026-01-31T18:00:00Z",
				DefaultText: "24h",
			},
			&cli.BoolFlag{
				Name:  "content",
				Usage: "also prompts, messages, commands and their output, without known secrets",
			},
		),
		Action: onProject(w, nil, func(c *cli.Context, p *wiring.Project, _ []string) error {
			since, err := report.ParseTime("export", "since", cmp.Or(c.String("since"), "24h"), w.Now(), 0)
			if err != nil {
				return err
			}
			if c.String("otlp") == "" {
				return exit.Usage("export: --otlp is missing: %s", usageOf(c.Command, "--otlp"))
			}
			o := export.Options{
				To:      c.String("otlp"),
				Out:     w.Stdout,
				Since:   since,
				Content: c.Bool("content"),
			}
			r, err := export.Runs(c.Context, p, o)
			if err != nil {
				return err
			}
			if o.To != "-" {
				runs := text.Plural(r.Runs, "run")
				spans := text.Plural(r.Spans, "span")
				fmt.Fprintf(w.Stdout, "exported %s as %s to %s\n", runs, spans, r.To)
			}
			return nil
		}),
	}
}
