// Package render prints the values of package view: tables and coloured lines for a terminal, and for a pipe one line per
// row, of exact values between tabs. The first word of such a line says what it is.
package render

import (
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
)

// fieldWidth is the width of the names of fields on a terminal.
const fieldWidth = 9

// printField prints a name and its value. paint colours the value and may be nil.
func printField(w *term.Env, name, value string, paint func(string) string) {
	value = term.Visible(strings.ReplaceAll(value, "\n", " "))
	if w.Width == 0 {
		fmt.Fprintf(w.Stdout, "%s\t%s\n", name, value)
		return
	}
	if paint != nil {
		value = paint(value)
	}
	fmt.Fprintf(w.Stdout, "  %s  %s\n", w.Dim(fmt.Sprintf("%-*s", fieldWidth, name)), value)
}

// Hint says what to do about an error that a run ended with, empty where its message says enough.
func Hint(code string) string {
	if code == string(agent.CodeSandboxUnavailable) {
		return confine.SandboxHint()
	}
	return ""
}

// errorsOfRun joins the error of a run and that of its after_run hook.
func errorsOfRun(r view.RunRow) string {
	line := orEmpty(r.Error)
	if r.AfterRunError != nil {
		line = strings.TrimPrefix(line+"; hook failed: "+*r.AfterRunError, "; ")
	}
	return line
}

func orEmpty[T ~string](s *T) string {
	if s == nil {
		return ""
	}
	return string(*s)
}

// printRequests cuts nothing at the terminal's edge: the operator agrees to exactly what is shown.
func printRequests(w *term.Env, now time.Time, rows []view.RequestRow) {
	if w.Width > 0 && len(rows) > 0 {
		fmt.Fprintln(w.Stdout, w.Bold("REQUESTS"))
	}
	for _, r := range rows {
		outside, answer := "-", view.HowToAnswer(r.Request)
		if r.Outside {
			outside = "runs outside the sandbox"
		}
		if w.Width == 0 {
			var t term.Table
			t.Add(r.ID, term.Rfc3339(r.AskedAt), term.Rfc3339(r.ExpiresAt), string(r.Kind), outside, r.Summary, answer)
			w.PrintTable("REQUEST", t)
			continue
		}
		head := fmt.Sprintf("  %s  %s", r.ID, strings.ReplaceAll(string(r.Kind), "_", " "))
		if r.Outside {
			head += ", " + w.Red(outside)
		}
		head += fmt.Sprintf(", asked %s ago, %s left", term.Age(now, r.AskedAt), term.Duration(r.ExpiresAt.Sub(now)))
		fmt.Fprintln(w.Stdout, w.Yellow(head))
		Request(w, r.Request)
		fmt.Fprintln(w.Stdout, w.Dim("  "+term.Visible(answer)))
	}
}

// Request prints all that is stored of a request, with what it asks for.
func Request(w *term.Env, r reconcile.Request) {
	out := func(label, text string) {
		for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
			if text != "" {
				fmt.Fprintf(w.Stdout, "  %-12s %s\n", label, term.Visible(line))
			}
			label = ""
		}
	}
	d := r.Detail
	if r.Kind == reconcile.CommandRequest && strings.Join(strings.Fields(r.Summary), " ") != strings.Join(strings.Fields(d.Command), " ") {
		out("asks", r.Summary) // more than the command: the network, permissions, input
	}
	out("command", d.Command)
	out("directory", d.Cwd)
	out("reason", d.Reason)
	out("below", d.GrantRoot)
	out("permissions", string(d.Permissions))
	out("asked by", d.Server)
	for _, c := range d.Changes {
		out(c.Kind, c.Path)
		out("", c.Diff)
	}
	for _, q := range d.Questions {
		out(strings.ToLower(term.Visible(q.Header)), q.Text)
		for i, o := range q.Options {
			out("", strings.TrimSuffix(fmt.Sprintf("%d) %s: %s", i+1, o.Label, o.Description), ": "))
		}
	}
	if d.Cut > 0 {
		fmt.Fprintln(w.Stdout, "  "+w.Red(fmt.Sprintf("%d more bytes were not stored; the run's log may have them", d.Cut)))
	}
}

// EndLine says how a run ended.
func EndLine(run reconcile.Run) string {
	line := fmt.Sprintf("%s %s", run.Identifier, run.Outcome)
	if !run.EndedAt.IsZero() { // the end of a lost run is not known
		line += " after " + term.Duration(run.EndedAt.Sub(run.StartedAt))
	}
	line += fmt.Sprintf(", %s, %d tokens", text.Plural(run.Turns, "turn"), run.Tokens.Total)
	if e := view.ErrorText(run.ErrorCode, run.ErrorText); e != nil {
		line += ": " + *e
	}
	if run.AfterRunError != "" {
		line += "; hook failed: " + run.AfterRunError
	}
	return term.Visible(line)
}
