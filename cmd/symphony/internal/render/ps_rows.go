package render

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/codex"
)

// obstacles say what keeps the project from its work.
func obstacleLines(w *term.Env, v view.View) (lines []string) {
	now := v.GeneratedAt
	if b := v.Blocked; b != nil {
		text := fmt.Sprintf("BLOCKED  %s: %s (for %s", b.Reason, b.Message, term.Age(now, b.Since))
		if b.NextTry.After(now) {
			text += ", next try in " + term.Duration(b.NextTry.Sub(now))
		}
		lines = append(lines, w.Red(term.Visible(text+")")))
		if hint := WayOut(b.Reason); hint != "" {
			lines = append(lines, "         "+hint)
		}
	}
	if v.Low() {
		lines = append(lines, w.Yellow("LOW      less than a tenth of the tracker's allowance is left: nothing new is started for another "+term.Duration(v.LowUntil.Sub(now))))
	}
	if v.Paused {
		lines = append(lines, w.Yellow("PAUSED   nothing new is started; symphony resume ends it"))
	}
	if v.LastPass == nil {
		return lines
	}
	for _, e := range v.LastPass.Errors {
		if v.Blocked == nil || v.Blocked.Reason != e.Code {
			lines = append(lines, w.Red(term.Visible(fmt.Sprintf("ERROR    %s: %s (last pass)", e.Code, e.Message))))
		}
	}
	return lines
}

// section is a table with its title.
type section struct {
	title string
	table term.Table
}

// sections are the tables of ps, without the empty ones.
func sections(w *term.Env, v view.View) []section {
	all := []section{
		{"RUNNING", runningTable(w, v)}, {"WAITING", waitingTable(w, v)}, {"HELD", heldTable(w, v)}, {"SKIPPED", skippedTable(w, v)}, {"ENDED", endedTable(w, v)},
	}
	return slices.DeleteFunc(all, func(s section) bool { return len(s.table.Rows) == 0 })
}

func runningTable(w *term.Env, v view.View) term.Table {
	t := term.Table{Head: []string{"ISSUE", "STATE", "PHASE", "TURN", "AGE", "TOKENS", "LAST EVENT"}, State: 2}
	for _, r := range v.Running {
		phase, colour := phaseOf(r)
		t.AddIn(colour, r.Identifier, r.State, phase, fmt.Sprint(r.TurnCount), term.SinceText(w, v.GeneratedAt, r.StartedAt), fmt.Sprint(r.Tokens.Total),
			lastEvent(w, v.GeneratedAt, r))
	}
	return t
}

// phaseOf is where a run stands, and in which colour.
func phaseOf(r view.RunningRow) (phase, colour string) {
	switch {
	case !r.Alive && r.Phase != string(reconcile.Starting):
		return "ended", term.ColourStuck // until a pass has looked why
	case r.StopReason != nil:
		return "stopping: " + *r.StopReason, term.ColourWaits
	case len(r.WaitsFor) > 0:
		return "asks " + strings.Join(r.WaitsFor, ", "), term.ColourWaits
	}
	return r.Phase, term.ColourRuns
}

// lastEvent is what the agent did last, and when.
func lastEvent(w *term.Env, now time.Time, r view.RunningRow) string {
	if r.LastEvent == nil {
		return ""
	}
	var parts []string
	if *r.LastEvent != codex.EventNotification { // of those the message says more
		parts = append(parts, *r.LastEvent)
	}
	if r.LastEventAt != nil {
		parts = append(parts, term.AgoText(w, now, *r.LastEventAt))
	}
	text := strings.Join(parts, " ")
	if r.LastMessage != "" {
		text += ": " + r.LastMessage
	}
	return text
}

func waitingTable(w *term.Env, v view.View) term.Table {
	t := term.Table{Head: []string{"ISSUE", "KIND", "ATTEMPT", "DUE", "ERROR"}, State: 1}
	for _, r := range v.Retrying {
		attempt, text := "-", ""
		if r.Attempt != nil {
			attempt = fmt.Sprint(*r.Attempt)
		}
		if r.Error != nil {
			text = *r.Error
		}
		t.AddIn(term.ColourWaits, r.Identifier, r.Kind, attempt, dueText(w, v.GeneratedAt, r), text)
	}
	return t
}

// due says when a waiting issue goes on. A continuation is no retry.
func dueText(w *term.Env, now time.Time, r view.RetryingRow) string {
	d := r.DueAt.Sub(now)
	switch {
	case w.Width == 0:
		return term.Rfc3339(r.DueAt)
	case d <= 0:
		return "due"
	case r.Kind == string(reconcile.Continuation):
		return "continues in " + term.Duration(d)
	}
	return "in " + term.Duration(d)
}

func heldTable(w *term.Env, v view.View) term.Table {
	t := term.Table{Head: []string{"ISSUE", "REASON", "SINCE", "MESSAGE"}, State: 1}
	for _, r := range v.Held {
		t.AddIn(term.ColourStuck, r.Identifier, r.Reason, term.AgoText(w, v.GeneratedAt, r.HeldAt), r.Message)
	}
	return t
}

func skippedTable(w *term.Env, v view.View) term.Table {
	t := term.Table{Head: []string{"ISSUE", "REASON", "SINCE", "MESSAGE"}, State: 1}
	for _, r := range v.Skipped {
		t.AddIn(term.ColourWaits, r.Identifier, r.Reason, term.AgoText(w, v.GeneratedAt, r.Since), r.Message)
	}
	return t
}

func endedTable(w *term.Env, v view.View) term.Table {
	t := term.Table{Head: []string{"ISSUE", "RUN", "OUTCOME", "ENDED", "TOOK", "TURNS", "TOKENS", "ERROR"}, State: 2}
	for _, r := range v.Ended {
		text := ""
		if r.Error != nil {
			text = *r.Error
		}
		outcome := r.Outcome
		if r.Kind == string(reconcile.CleanupRun) {
			outcome = "cleanup " + outcome
		}
		t.AddIn(outcomeColour(r.Outcome), r.Identifier, r.RunID, outcome, term.AgoText(w, v.GeneratedAt, r.EndedAt), term.LastedText(w, r.EndedAt.Sub(r.StartedAt)), fmt.Sprint(r.Turns), fmt.Sprint(r.Tokens.Total), text)
	}
	return t
}

// outcomeColour: what came to its end is over, and what failed wants somebody.
func outcomeColour(outcome string) string {
	switch reconcile.Outcome(outcome) {
	case reconcile.Succeeded, reconcile.Canceled, reconcile.InterruptedRun:
		return term.ColourOver
	default:
		return term.ColourStuck
	}
}
