package render

import (
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/reconcile"
)

func printRequests(w *term.Env, now time.Time, rows []view.RequestRow) {
	if w.Width > 0 && len(rows) > 0 {
		fmt.Fprintln(w.Stdout, w.Bold("REQUESTS"))
	}
	for _, r := range rows {
		if w.Width > 0 {
			printRequest(w, now, r)
			continue
		}
		outside := "-"
		if r.Outside {
			outside = outsideSandbox
		}
		var t term.Table
		t.Add(r.ID, term.Rfc3339(r.AskedAt), term.Rfc3339(r.ExpiresAt), string(r.Kind), outside, r.Summary, view.HowToAnswer(r.Request))
		w.PrintTable("REQUEST", t)
	}
}

const outsideSandbox = "runs outside the sandbox"

// printRequest cuts nothing at the terminal's edge: the operator agrees to exactly what is shown.
func printRequest(w *term.Env, now time.Time, r view.RequestRow) {
	const indent = "         "
	head := fmt.Sprintf("  %s  %s", r.ID, strings.ReplaceAll(string(r.Kind), "_", " "))
	if r.Outside {
		head += ", " + w.Red(outsideSandbox)
	}
	head += fmt.Sprintf(", asked %s ago, %s left", term.Age(now, r.AskedAt), term.Duration(r.ExpiresAt.Sub(now)))
	fmt.Fprintln(w.Stdout, w.Yellow(head))
	detail := r.Request.Detail
	if len(detail.Questions) == 0 {
		fmt.Fprintln(w.Stdout, indent+term.Visible(r.Summary))
	}
	for _, c := range detail.Changes {
		for line := range strings.SplitSeq(strings.TrimRight(c.Kind+" "+c.Path+"\n"+c.Diff, "\n"), "\n") {
			fmt.Fprintln(w.Stdout, indent+"  "+term.Visible(line))
		}
	}
	if detail.Cut > 0 {
		fmt.Fprintln(w.Stdout, indent+w.Red(NotKept(detail.Cut)))
	}
	for _, q := range detail.Questions {
		fmt.Fprintln(w.Stdout, indent+term.Visible(q.Text)+term.Visible(Numbered(q)))
	}
	fmt.Fprintln(w.Stdout, w.Dim(indent+term.Visible(view.HowToAnswer(r.Request))))
}

// NotKept says how much of a request was too long to be stored.
func NotKept(bytes int) string {
	return fmt.Sprintf("%d more bytes were not stored; the run's log may have them", bytes)
}

// Numbered lists the options of a question in one line.
func Numbered(q reconcile.RequestQuestion) string {
	var b strings.Builder
	for i, o := range q.Options {
		fmt.Fprintf(&b, "  %d) %s", i+1, o.Label)
	}
	return b.String()
}
