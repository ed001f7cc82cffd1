package render

import (
	"fmt"
	"log/slog"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
)

// Check prints the result of a check.
func Check(w *term.Env, p *wiring.Project, out wiring.CheckReport) {
	for _, e := range out.Errors {
		w.PrintError(e)
	}
	for _, warning := range out.Warnings {
		w.Note(slog.LevelWarn, warning)
	}
	if w.JSON {
		w.PrintJSON(out)
		return
	}
	if out.OK {
		line := fmt.Sprintf("%s is valid; its environment file is %s", out.Workflow, p.EnvPath())
		fmt.Fprintln(w.Stdout, text.Visible(line))
	}
}
