package render

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/words"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// printIdentifiers prints the identifier of each issue once.
func printIdentifiers(w *term.Env, rows []view.Row) {
	var seen []string
	for _, r := range rows {
		if !slices.Contains(seen, r.Identifier) {
			seen = append(seen, r.Identifier)
			fmt.Fprintln(w.Stdout, text.Visible(r.Identifier))
		}
	}
}

// printRecords prints overviews for programs: a record a line, and everything that is none on
// stderr. It writes all records at once, because 500 of them are a small page for a pipe.
func printRecords(w *term.Env, s selected) {
	var records bytes.Buffer
	buffered := *w
	buffered.Stdout = &records
	printRequests(&buffered, w.Now(), allRequests(s)) // a pipe has no ages
	for _, r := range s.rows {
		printRow(&buffered, r, s.projects)
	}
	fmt.Fprint(w.Stdout, records.String())
	s.rows = nil
	rest := newPage(stderrOf(w), s)
	fmt.Fprintln(w.Stderr, strings.Join(slices.Concat(rest.head, rest.foot, rest.summary), "\n"))
}

// stderrOf returns an environment that prints plain text on stderr.
func stderrOf(w *term.Env) *term.Env {
	out := *w
	out.Stdout = w.Stderr
	out.Colour = false
	out.Links = false
	return &out
}

// printRow prints a row for a program: the exact values of the list that it comes from, the
// title, and with projects the project.
func printRow(w *term.Env, r view.Row, projects bool) {
	list, values := valuesOf(w, r)
	cells := slices.Concat([]string{r.Identifier}, values, []string{r.Title})
	if projects {
		cells = append(cells, r.Project)
	}
	var t term.Table
	t.Add(cells...)
	w.PrintTable(list, t)
}

// valuesOf returns the name of the list that a row comes from, and the values of its entry.
func valuesOf(w *term.Env, r view.Row) (list string, values []string) {
	switch e := r.Entry.(type) {
	case view.RunningRow:
		return "running", []string{
			e.State,
			phaseOf(e),
			fmt.Sprint(e.TurnCount),
			text.Rfc3339(e.StartedAt),
			fmt.Sprint(e.Tokens.Total),
			r.Text,
		}
	case view.RetryingRow:
		return "waiting", []string{
			string(e.Kind),
			fmt.Sprint(e.Attempt),
			text.Rfc3339(e.DueAt),
			cmp.Or(r.Unreadable(), waitError(e)),
		}
	case view.HeldRow:
		return string(r.Status), []string{e.Reason, text.Rfc3339(e.HeldAt), cmp.Or(r.Unreadable(), e.Message)}
	case view.KeptRow:
		return "kept", []string{text.Rfc3339(e.Since), "kept: " + e.Unsaved, e.Path}
	case view.ReviewRow:
		code := reconcile.WaitsReview
		if e.WaitsFor != nil {
			code = e.WaitsFor.Code
		}
		return "handed_over", []string{code, text.Rfc3339(e.Since), r.Text, text.OrEmpty(r.PullRequest)}
	case view.SkippedRow:
		return "skipped", []string{e.Reason, text.Rfc3339(e.Since), e.Message}
	case view.RunRow:
		outcome := outcomeOf(e)
		if e.Kind != reconcile.AgentRun {
			outcome = string(e.Kind) + " " + outcome
		}
		return "ended", []string{
			e.RunID,
			outcome,
			text.Rfc3339(*e.EndedAt),
			term.LastedText(w, e.EndedAt.Sub(e.StartedAt)),
			fmt.Sprint(e.Turns),
			fmt.Sprint(e.Tokens.Total),
			strings.Join(e.Errors(), "; "),
		}
	}
	return "", nil
}

// waitError is the error of a claim that waits. The specification's words for a claim without a
// slot say less than ours.
func waitError(r view.RetryingRow) string {
	if r.Kind == reconcile.NoSlot {
		return words.Waits[r.Kind].Short
	}
	return r.LastError()
}

func phaseOf(r view.RunningRow) string {
	switch {
	case !r.Alive && r.Phase != reconcile.Starting:
		return "ended" // the next pass finds out why
	case r.StopReason != nil:
		return "stopping: " + *r.StopReason
	case len(r.WaitsFor) > 0:
		return "asks " + strings.Join(r.WaitsFor, ", ")
	}
	return string(r.Phase)
}
