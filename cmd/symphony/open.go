package main

import (
	"fmt"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/urfave/cli/v2"
)

func openCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:        "open",
		Usage:       "open an issue in the web browser",
		UsageText:   usageText("open", "ISSUE [WORKFLOW]"),
		Description: helpText("open", "symphony open ABC-7", "symphony open ABC-7 --pr"),
		Flags: workflowFlags(
			&cli.BoolFlag{Name: "pr", Usage: "open the pull request of the issue"},
		),
		Action: onProject(
			w,
			[]string{"ISSUE"},
			func(c *cli.Context, p *wiring.Project, args []string) error {
				find := operate.IssueAddress
				if c.Bool("pr") {
					find = operate.PullRequestAddress
				}
				address, err := find(c.Context, p, args[0])
				if err != nil {
					return err
				}
				fmt.Fprintln(w.Stdout, text.Visible(address))
				opened, err := w.OpenPage(c.Context, address)
				if err != nil {
					return err
				}
				if !opened {
					fmt.Fprintln(w.Stderr, "symphony: "+term.NoDisplay)
				}
				return nil
			},
		),
	}
}
