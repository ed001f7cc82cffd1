package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile"
)

func waitCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "wait",
		Usage:     "wait until an issue is handed over or needs a person",
		UsageText: usageText("wait", "ISSUE"),
		Description: helpText(
			"wait",
			"symphony wait ABC-7 --timeout 1h",
		),
		Flags: workflowFlags(jsonFlags[detail.Issue](
			&cli.DurationFlag{
				Name:        "timeout",
				Usage:       "wait at most `DURATION`",
				DefaultText: "no limit",
			},
		)...),
		Action: onProject(
			w,
			[]string{"ISSUE"},
			func(c *cli.Context, p *wiring.Project, args []string) error {
				if c.IsSet("timeout") && c.Duration("timeout") <= 0 {
					return exit.Usage("wait: --timeout must be above zero")
				}
				v, err := operate.Wait(c.Context, p, operate.WaitOptions{
					Issue:   args[0],
					Timeout: c.Duration("timeout"),
					Whole:   w.JSON,
					Status:  func(v detail.Issue) { render.WaitStatus(w, v) },
				})
				_, isLate := errors.AsType[exit.Only](err)
				if err != nil && !isLate {
					return err
				}
				render.WaitEnd(w, v)
				if isLate {
					fmt.Fprintln(w.Stderr, "symphony: the time of --timeout is over")
				}
				if v.LacksPass() {
					const note = "symphony: no schedule is active: run %s\n"
					fmt.Fprintf(w.Stderr, note, reconcile.CommandFor("tick", ""))
				}
				if isLate {
					return err
				}
				return waitCode(v)
			},
		),
	}
}

// waitCode returns an exit.Only with the exit code for the end of an issue.
func waitCode(v detail.Issue) error {
	switch {
	case v.Status == reconcile.StatusHandedOver:
		return nil
	case v.Status == reconcile.StatusNeedsHelp:
		return exit.Only(exit.NeedsHelp)
	case v.Status == reconcile.StatusHeld:
		return exit.Only(exit.Held)
	case v.Status == reconcile.StatusNeedsAnswer:
		return exit.Only(exit.Asks)
	case v.Claim != nil && v.Failed() && !v.LacksPass():
		return exit.Only(exit.Failed)
	}
	return exit.Only(exit.NotStarted)
}
