package main

import (
	"bytes"
	"fmt"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/urfave/cli/v2"
)

func editCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:        "edit",
		Usage:       "open WORKFLOW.md in your editor, then check it",
		UsageText:   usageText("edit", "[WORKFLOW]"),
		Description: helpText("edit", "EDITOR=nano symphony edit"),
		Flags:       workflowFlags(),
		Action: onProject(w, nil, func(c *cli.Context, p *wiring.Project, _ []string) error {
			if !wiring.Exists(p.Path) {
				return p.SourceErr
			}
			if err := w.Edit(c.Context, p.Path); err != nil {
				return err
			}
			edited := wiring.NewProject(p.Env, p.Path, p.StateDir)
			changed := !bytes.Equal(p.Source.Data, edited.Source.Data)
			out := wiring.CheckFile(c.Context, edited)
			render.Check(w, edited, out)
			if !out.OK {
				fmt.Fprintln(w.Stderr, "symphony: passes start no run until you correct it: symphony edit")
				return out.Err()
			}
			said := "nothing was changed"
			if changed {
				said = "the change takes effect at the next pass; running agents keep their settings"
			}
			fmt.Fprintln(w.Stdout, said)
			return nil
		}),
	}
}
