// Package render prints the values of package view: tables and coloured lines on a terminal,
// and in a pipe a line per row, of exact values separated by tabs. The first value of such a
// line names its kind.
package render

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/words"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// fieldWidth is the width of the names of fields on a terminal.
const fieldWidth = 12

// printField prints a name and its value, on a terminal with a hanging indent. It does not
// break addresses and paths: they can be copied.
func printField(w *term.Env, name, value string) {
	value = text.Visible(strings.ReplaceAll(value, "\n", " "))
	if w.Piped() {
		fmt.Fprintf(w.Stdout, "%s\t%s\n", name, value)
		return
	}
	label := "  " + w.Dim(fmt.Sprintf("%-*s", fieldWidth, name)) + "  "
	fits := term.Cells(label)+term.Cells(value) <= w.Width
	if fits || !strings.Contains(value, " ") {
		fmt.Fprintln(w.Stdout, label+w.Link(value, value))
		return
	}
	fmt.Fprintln(w.Stdout, term.Hang(label, value, w.Width))
}

// outcomeOf is the outcome of a run, or its phase while there is no outcome. A run whose
// commits did not arrive is not called a success.
func outcomeOf(r view.RunRow) string {
	switch {
	case r.Outcome == nil:
		return string(r.Phase)
	case r.Delivery == nil:
		return string(*r.Outcome)
	}
	return outcomeWith(*r.Outcome, *r.Delivery)
}

func outcomeWith(outcome reconcile.Outcome, d reconcile.DeliveryResult) string {
	if outcome.IsRegular() && d.Code != "" {
		return view.NotDelivered
	}
	return string(outcome)
}

// outcomeColour is the colour of a run's outcome: red if an operator should look at it.
func outcomeColour(r view.RunRow) string {
	switch outcomeOf(r) {
	case string(reconcile.Succeeded), string(reconcile.EndedRun), string(reconcile.Canceled),
		string(reconcile.InterruptedRun):
		return term.ColourOver
	}
	if r.Outcome == nil {
		return term.ColourRuns
	}
	return term.ColourStuck
}

// RunEnd prints how a run ended, and on stderr the next step after a failure. A hook that
// failed is shown with the end of its output.
func RunEnd(w *term.Env, p *wiring.Project, run reconcile.Run) {
	fmt.Fprintln(w.Stdout, EndLine(w, run))
	code := run.ErrorCode
	for _, f := range detail.HookFailures(p, run) {
		code = cmp.Or(code, "hook_failed") // after_run does not change the outcome
		for _, line := range f.Output {
			fmt.Fprintln(w.Stdout, text.Visible("  "+f.Hook+"| "+line))
		}
	}
	v := run.Delivery.Verification()
	isOwn := v != nil && !v.At.Before(run.StartedAt) // not of an earlier run, as after --unverified
	if isOwn && run.Kind == reconcile.DeliveryRun {
		for line := range strings.Lines(v.Output) {
			fmt.Fprintln(w.Stdout, text.Visible("  verify| "+strings.TrimRight(line, "\n")))
		}
	}
	code = cmp.Or(code, run.Delivery.Code)
	if code == "" && notHandedOver(run) {
		code = reconcile.HoldVerifyFailed
	}
	hint := words.Hint(code, run.Identifier)
	if hint != "" {
		fmt.Fprintln(w.Stderr, "  "+hint)
	}
}

// notHandedOver reports whether a run itself had no error, but verify did not pass, so that the
// issue stays where it was.
func notHandedOver(run reconcile.Run) bool {
	return run.Outcome.IsRegular() && run.Delivery.Handover.Refused()
}

// EndLine is the line about the end of a run.
func EndLine(w *term.Env, run reconcile.Run) string {
	outcome := outcomeWith(run.Outcome, run.Delivery)
	line := run.Identifier + " " + outcome
	switch {
	case run.Kind == reconcile.DeliveryRun && notHandedOver(run):
		line = run.Identifier + " was not handed over"
	case run.Kind == reconcile.DeliveryRun:
		line = "delivery of " + line
	}
	if !run.EndedAt.IsZero() { // when a lost run ended is unknown
		line += " after " + text.Duration(run.EndedAt.Sub(run.StartedAt))
	}
	if run.Kind != reconcile.DeliveryRun {
		line += fmt.Sprintf(", %s, %s tokens", text.Plural(run.Turns, "turn"), tokensText(w, run.Turns, run.Tokens.Total))
	}
	if by := run.StoppedBy(); by != "" {
		line += ": " + words.Stopped(by)
	} else if e := view.ErrorText(run.ErrorCode, run.ErrorText); e != nil {
		line += ": " + *e
	}
	d := run.Delivery
	if outcome == view.NotDelivered {
		line += ": " + d.Code + ": " + d.Message
	}
	if run.AfterRunError != "" {
		line += "; hook failed: " + run.AfterRunError
	}
	if v := run.Delivery.Verification(); v != nil && !v.At.Before(run.StartedAt) && run.ErrorCode == "" {
		line += "; " + v.String()
	}
	switch {
	case outcome == view.NotDelivered: // the reason is above
	case d.Code != "":
		line += "; " + view.NotDelivered + ": " + d.Code + ": " + d.Message
	case d.OthersPushed && run.Kind != reconcile.DeliveryRun:
		line += "; others have pushed to its branch meanwhile, and its agent merges that next"
	case d.Commit != "":
		line += fmt.Sprintf("; delivered %s to %s", text.Plural(d.Commits, "commit"), d.Branch)
	case run.Kind == reconcile.DeliveryRun && run.Outcome.IsRegular() && d.PullRequest == "":
		line += "; there was nothing to push"
	}
	if d.PullRequest != "" {
		line += "; " + reconcile.PullWordsOf(d.PullRequest).Name + " " + d.PullRequest
	}
	return text.Visible(line)
}
