package render

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/words"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// RunEnd prints how a run ended, and on stderr the next step after a failure. A hook that failed is shown with the end of its output.
func RunEnd(w *term.Env, p *project.Project, run reconcile.Run) {
	fmt.Fprintln(w.Stdout, EndLine(w, run))
	code := run.ErrorCode
	for _, f := range detail.HookFailures(p, run) {
		code = cmp.Or(code, "hook_failed") // after_run does not change the outcome
		for _, line := range f.Output {
			fmt.Fprintln(w.Stdout, text.Visible("  "+f.Hook+"| "+line))
		}
	}
	if v := run.Delivery.Verification(); v != nil && run.Kind == reconcile.DeliveryRun {
		for line := range strings.Lines(v.Output) {
			fmt.Fprintln(w.Stdout, text.Visible("  verify| "+strings.TrimRight(line, "\n")))
		}
	}
	if hint := words.Hint(cmp.Or(code, run.Delivery.Code), run.Identifier); hint != "" {
		fmt.Fprintln(w.Stderr, "  "+hint)
	}
}
