// Package render prints the values of package view: tables and coloured lines on a terminal,
// and in a pipe a line per row, of exact values separated by tabs. The first value of such a
// line names its kind.
package render

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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

// errorsOfRun joins the errors of a run, of its after_run hook and of its delivery.
func errorsOfRun(r view.RunRow) string {
	line := text.OrEmpty(r.Error)
	if r.AfterRunError != nil {
		line = strings.TrimPrefix(line+"; hook failed: "+*r.AfterRunError, "; ")
	}
	if d := r.Delivery; d != nil && d.Code != "" {
		line = strings.TrimLeft(line+undelivered(*d, outcomeOf(r)), ":; ")
	}
	return line
}

// undelivered is the end of a line that names the outcome, and explains why the commits did
// not arrive.
func undelivered(d reconcile.DeliveryResult, outcome string) string {
	reason := ": " + d.Code + ": " + d.Message
	if outcome == notDelivered {
		return reason
	}
	return "; " + notDelivered + reason
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
	if outcome == reconcile.Succeeded && d.Code != "" {
		return notDelivered
	}
	return string(outcome)
}

// outcomeColour is the colour of a run's outcome: red if an operator should look at it.
func outcomeColour(r view.RunRow) string {
	switch outcomeOf(r) {
	case string(reconcile.Succeeded), string(reconcile.Canceled), string(reconcile.InterruptedRun):
		return term.ColourOver
	}
	if r.Outcome == nil {
		return term.ColourRuns
	}
	return term.ColourStuck
}

const notDelivered = "not delivered"

// printRequests prints open requests. It cuts nothing at the terminal's edge, because the
// operator approves exactly the text that is shown.
func printRequests(w *term.Env, now time.Time, rows []view.RequestRow) {
	if !w.Piped() && len(rows) > 0 {
		fmt.Fprintln(w.Stdout, w.Bold("REQUESTS"))
	}
	for _, r := range rows {
		if w.Piped() {
			printRequestRecord(w, r)
			continue
		}
		head := fmt.Sprintf("  %s  %s", text.Visible(r.ID), strings.ReplaceAll(string(r.Kind), "_", " "))
		if r.Outside {
			head += ", " + w.Red(runsOutside)
		}
		asked := text.Age(now, r.AskedAt)
		left := text.Duration(r.ExpiresAt.Sub(now))
		head += fmt.Sprintf(", asked %s ago, %s left", asked, left)
		fmt.Fprintln(w.Stdout, w.Yellow(head))
		Request(w, r.Request)
		fmt.Fprintln(w.Stdout, w.Dim("  "+text.Visible(r.HowToAnswer())))
	}
}

const runsOutside = "runs outside the sandbox"

// printRequestRecord prints an open request for a program.
func printRequestRecord(w *term.Env, r view.RequestRow) {
	outside := "-"
	if r.Outside {
		outside = runsOutside
	}
	asked := text.Rfc3339(r.AskedAt)
	expires := text.Rfc3339(r.ExpiresAt)
	var t term.Table
	t.Add(r.ID, asked, expires, string(r.Kind), outside, r.Summary, r.HowToAnswer(), r.Title)
	w.PrintTable("REQUEST", t)
}

// RequestHead prints the id and the kind of a request, and whether its command runs outside
// the sandbox.
func RequestHead(w *term.Env, r reconcile.Request) {
	fmt.Fprintln(w.Stdout, w.Bold(text.Visible(r.ID()+"  "+strings.ReplaceAll(string(r.Kind), "_", " "))))
	if r.Outside {
		fmt.Fprintln(w.Stdout, "  "+w.Red(runsOutside))
	}
}

// Request prints everything that is stored of a request.
func Request(w *term.Env, r reconcile.Request) {
	out := func(label, value string) {
		for line := range strings.SplitSeq(strings.TrimRight(value, "\n"), "\n") {
			if value != "" {
				fmt.Fprintf(w.Stdout, "  %-12s %s\n", label, text.Visible(line))
			}
			label = ""
		}
	}
	// wrapped on a terminal, unlike the text to approve, which is never changed
	prose := func(label, value string) {
		for line := range strings.SplitSeq(strings.TrimRight(value, "\n"), "\n") {
			if value != "" {
				fmt.Fprintln(w.Stdout, hang(w, fmt.Sprintf("  %-12s ", label), text.Visible(line)))
			}
			label = ""
		}
	}
	d := r.Detail
	if view.AsksMore(r) {
		prose("asks", r.Summary)
	}
	out("command", d.Command)
	out("directory", d.Cwd)
	prose("reason", d.Reason)
	out("below", d.GrantRoot)
	out("permissions", string(d.Permissions))
	out("asked by", d.Server)
	for _, c := range d.Changes {
		out(c.Kind, c.Path)
		out("", c.Diff)
	}
	for _, q := range d.Questions {
		prose(strings.ToLower(text.Visible(q.Header)), q.Text)
		for i, o := range q.Options {
			prose("", strings.TrimSuffix(fmt.Sprintf("%d) %s: %s", i+1, o.Label, o.Description), ": "))
		}
	}
	if d.Cut > 0 {
		missing := fmt.Sprintf("%d more bytes were not stored; the run's log may have them", d.Cut)
		fmt.Fprintln(w.Stdout, "  "+w.Red(missing))
	}
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
	if v := run.Delivery.Verification(); v != nil && run.Kind == reconcile.DeliveryRun {
		for line := range strings.Lines(v.Output) {
			fmt.Fprintln(w.Stdout, text.Visible("  verify| "+strings.TrimRight(line, "\n")))
		}
	}
	hint := words.Hint(cmp.Or(code, run.Delivery.Code), run.Identifier)
	if hint != "" {
		fmt.Fprintln(w.Stderr, "  "+hint)
	}
}

// EndLine is the line about the end of a run.
func EndLine(w *term.Env, run reconcile.Run) string {
	outcome := outcomeWith(run.Outcome, run.Delivery)
	line := run.Identifier + " " + outcome
	if run.Kind == reconcile.DeliveryRun {
		line = "delivery of " + line
	}
	if !run.EndedAt.IsZero() { // when a lost run ended is unknown
		line += " after " + text.Duration(run.EndedAt.Sub(run.StartedAt))
	}
	if run.Kind != reconcile.DeliveryRun {
		line += fmt.Sprintf(", %s, %s tokens", text.Plural(run.Turns, "turn"), countText(w, run.Tokens.Total))
	}
	if e := view.ErrorText(run.ErrorCode, run.ErrorText); e != nil {
		line += ": " + view.Plain(*e)
	}
	if run.AfterRunError != "" {
		line += "; hook failed: " + run.AfterRunError
	}
	if v := run.Delivery.Verification(); v != nil && !v.At.Before(run.StartedAt) && run.ErrorCode == "" {
		line += "; " + v.String()
	}
	d := run.Delivery
	switch {
	case d.Code != "":
		line += undelivered(d, outcome)
	case d.OthersPushed && run.Kind != reconcile.DeliveryRun:
		line += "; others have pushed to its branch meanwhile, and its agent merges that next"
	case d.Commit != "":
		line += fmt.Sprintf("; delivered %s to %s", text.Plural(d.Commits, "commit"), d.Branch)
	case run.Kind == reconcile.DeliveryRun && run.Outcome == reconcile.Succeeded && d.PullRequest == "":
		line += "; there was nothing to push"
	}
	if d.PullRequest != "" {
		line += "; pull request " + d.PullRequest
	}
	return text.Visible(line)
}

// Diff prints the changes in the workspace of an issue, or between two attempts; with raw as
// git writes them.
func Diff(ctx context.Context, w *term.Env, p *wiring.Project, ref, attempts string, raw bool) error {
	lines := &diffPrinter{w: w, raw: raw}
	_, err := detail.WriteDiff(ctx, p, ref, attempts, lines)
	if len(lines.rest) > 0 {
		err = errors.Join(err, lines.line(string(lines.rest)))
	}
	return err
}

// diffPrinter colours a diff and shows its control characters as text.
type diffPrinter struct {
	w    *term.Env
	raw  bool // print git's output unchanged
	rest []byte
}

// Write implements io.Writer.
func (d *diffPrinter) Write(b []byte) (int, error) {
	if d.raw {
		return d.w.Stdout.Write(b)
	}
	d.rest = append(d.rest, b...)
	for {
		line, rest, whole := bytes.Cut(d.rest, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		if err := d.line(string(line)); err != nil {
			return 0, err
		}
		d.rest = rest
	}
}

func (d *diffPrinter) line(line string) error {
	shown := strings.TrimSuffix(text.VisibleLines(line+"\n"), "\n")
	_, err := fmt.Fprintln(d.w.Stdout, d.w.PaintDiff(shown))
	return err
}
