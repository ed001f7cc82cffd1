package render

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/internal/text"
)

// closing are the last lines of ps: why nothing runs, where nothing does, and what comes next.
func closingLines(w *term.Env, v view.View) (lines []string) {
	if len(v.Running) == 0 {
		lines = append(lines, idleText(w, v))
	}
	switch {
	case w.Width > 0:
		lines = append(lines, summaryText(w, v))
	case !v.Schedule:
		lines = append(lines, noSchedule)
	case v.NextPass != nil:
		lines = append(lines, fmt.Sprintf("next pass\t%s\t%s", term.Rfc3339(v.NextPass.At), v.NextPass.Trigger))
	}
	return lines
}

// summary is the last line of ps: how much there is, and what comes next.
func summaryText(w *term.Env, v view.View) string {
	return fmt.Sprintf("%d running, %d waiting, %d held, %d skipped; %s", v.Counts.Running, v.Counts.Retrying, v.Counts.Held, v.Skips, whatComesNext(w, v))
}

const noSchedule = "no schedule is active: nothing is started until somebody runs symphony tick"

// comesNext says when the next pass is to be expected, and what waits for one.
func whatComesNext(w *term.Env, v view.View) string {
	if !v.Schedule {
		return noSchedule
	}
	text := "the schedule is active"
	if next := v.NextPass; next != nil {
		text = fmt.Sprintf("next pass is due (%s)", next.Trigger)
		if in := next.At.Sub(v.GeneratedAt); in > 0 {
			text = fmt.Sprintf("next pass in %s (%s)", term.Duration(in), next.Trigger)
		}
	}
	return text + waitsForPass(v)
}

// waitsForPass names what is due by then, else what is due first. While nothing is started there is nothing to wait for.
func waitsForPass(v view.View) string {
	switch {
	case v.Paused:
		return ", which starts nothing: paused"
	case v.Blocked != nil && v.Blocked.NextTry.After(v.GeneratedAt):
		return ", blocked for another " + term.Duration(v.Blocked.NextTry.Sub(v.GeneratedAt))
	case v.Low():
		return ", which starts nothing: the tracker's allowance is low"
	case len(v.Retrying) == 0:
		return ""
	}
	first := slices.MinFunc(v.Retrying, func(a, b view.RetryingRow) int { return a.DueAt.Compare(b.DueAt) })
	until := v.GeneratedAt
	if v.NextPass != nil && v.NextPass.At.After(until) {
		until = v.NextPass.At
	}
	var due []string
	for _, r := range v.Retrying {
		if !r.DueAt.After(until) {
			due = append(due, term.Visible(r.Identifier))
		}
	}
	switch {
	case len(due) == 0:
		return fmt.Sprintf("; first due is %s in %s", term.Visible(first.Identifier), term.Duration(max(first.DueAt.Sub(v.GeneratedAt), time.Second)))
	case len(due) > dueNamed:
		return fmt.Sprintf("; due by then: %s and %d more", strings.Join(due[:dueNamed], ", "), len(due)-dueNamed)
	}
	return "; due by then: " + strings.Join(due, ", ")
}

// dueNamed is how many issues the last line names.
const dueNamed = 3

// idle answers "why is nothing running?".
func idleText(w *term.Env, v view.View) string {
	if len(v.Chosen) > 0 {
		return "none of these issues is running; symphony show " + term.Visible(v.Chosen[0]) + " says why"
	}
	reason := "no issue of the project is in an active state"
	switch p := v.LastPass; {
	case v.Skips > 0:
		reason = fmt.Sprintf("%s skipped; symphony ps --all says why", text.Plural(v.Skips, "issue"))
	case p != nil && !v.Schedule && (p.Trigger == project.TriggerWorker || p.Trigger == project.TriggerCommand):
		reason = "the last pass looked for no further issues; symphony tick --dry-run does"
	}
	switch {
	case v.Blocked != nil:
		reason = "the project is blocked: " + v.Blocked.Reason
	case v.Paused:
		reason = "the project is paused"
	case v.Low():
		reason = "the tracker's allowance is low"
	case v.LastPass == nil:
		reason = "no pass has run yet"
	case len(v.LastPass.Errors) > 0:
		reason = "the last pass met " + v.LastPass.Errors[0].Code
	case len(v.Retrying) > 0:
		reason = "what there is waits"
	case len(v.Held) > 0:
		reason = "what there is is held"
	}
	line := "nothing running: " + reason
	if p := v.LastPass; p != nil {
		line += fmt.Sprintf("; last pass %d (%s) %s", p.ID, p.Trigger, term.AgoText(w, v.GeneratedAt, p.StartedAt))
	}
	return term.Visible(line)
}
