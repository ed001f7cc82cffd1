package main

import (
	"fmt"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/urfave/cli/v2"
)

func promptCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:        "prompt",
		Usage:       "print the prompt that an issue's run would get",
		UsageText:   usageText("prompt", "ISSUE [WORKFLOW]"),
		Description: helpText("prompt", "symphony prompt ABC-7", "symphony prompt ABC-7 --attempt 2"),
		Flags: workflowFlags(
			&cli.IntFlag{
				Name:        "attempt",
				Usage:       "as retry or continuation `N`",
				DefaultText: "as a first run",
			},
			&cli.BoolFlag{
				Name:  "raw",
				Usage: "print exactly what the agent gets, without escaping control characters",
			},
		),
		Action: onProject(
			w,
			[]string{"ISSUE"},
			func(c *cli.Context, p *wiring.Project, args []string) error {
				if c.Int("attempt") < 0 {
					return exit.Usage("prompt: --attempt must not be negative")
				}
				cfg, err := p.Config()
				if err != nil {
					return err
				}
				issue, err := wiring.FetchIssue(c.Context, p, args[0])
				if err != nil {
					return err
				}
				prompt, err := cfg.Prompt.Render(*issue, c.Int("attempt"))
				if err != nil {
					return err
				}
				if !c.Bool("raw") {
					prompt = text.VisibleLines(prompt)
				}
				fmt.Fprintln(w.Stdout, prompt)
				return nil
			},
		),
	}
}
