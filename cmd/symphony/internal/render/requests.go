package render

import (
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/reconcile"
)

// printRequests comes first in ps: somebody waits.
func printRequests(w *term.Env, v view.View) {
	if len(v.Requests) == 0 {
		return
	}
	if w.Width > 0 {
		fmt.Fprintln(w.Stdout, w.Bold("REQUESTS"))
	}
	for _, r := range v.Requests {
		outside := "-"
		if r.Outside {
			outside = "runs outside the sandbox"
		}
		if w.Width == 0 {
			cells := []string{"request", r.ID, term.Rfc3339(r.AskedAt), term.Rfc3339(r.ExpiresAt), r.Kind, outside, r.Summary, view.HowToAnswer(r.Request)}
			for i := range cells {
				cells[i] = term.Visible(cells[i])
			}
			fmt.Fprintln(w.Stdout, strings.Join(cells, "\t"))
			continue
		}
		printRequest(w, v.GeneratedAt, r)
	}
}

// printRequest is never cut at the terminal's edge: a person is to say yes to exactly what stands there.
func printRequest(w *term.Env, now time.Time, r view.PendingRow) {
	head := fmt.Sprintf("  %s  %s", r.ID, strings.ReplaceAll(r.Kind, "_", " "))
	if r.Outside {
		head += ", " + w.Red("runs outside the sandbox")
	}
	head += fmt.Sprintf(", asked %s ago, %s left", term.Age(now, r.AskedAt), term.Duration(r.ExpiresAt.Sub(now)))
	fmt.Fprintln(w.Stdout, w.Yellow(head))
	if len(r.Request.Detail.Questions) == 0 {
		fmt.Fprintln(w.Stdout, "         "+term.Visible(r.Summary))
	}
	for _, c := range r.Request.Detail.Changes {
		for _, line := range strings.Split(strings.TrimRight(c.Kind+" "+c.Path+"\n"+c.Diff, "\n"), "\n") {
			fmt.Fprintln(w.Stdout, "           "+term.Visible(line))
		}
	}
	if cut := r.Request.Detail.Cut; cut > 0 {
		fmt.Fprintln(w.Stdout, "         "+w.Red(NotKept(cut)))
	}
	for _, q := range r.Request.Detail.Questions {
		fmt.Fprintln(w.Stdout, "         "+term.Visible(q.Text)+term.Visible(Numbered(q)))
	}
	fmt.Fprintln(w.Stdout, w.Dim("         "+term.Visible(view.HowToAnswer(r.Request))))
}

// numbered are the options of a question in one line.
func Numbered(q reconcile.RequestQuestion) string {
	var b strings.Builder
	for i, o := range q.Options {
		fmt.Fprintf(&b, "  %d) %s", i+1, o.Label)
	}
	return b.String()
}
