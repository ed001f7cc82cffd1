package render

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	xterm "golang.org/x/term"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// Overview prints an overview, with --json as JSON: the open requests, what keeps the project from starting runs, and the tables.
func Overview(w *term.Env, v view.Overview) {
	if w.JSON {
		w.PrintJSON(v)
		return
	}
	now := v.GeneratedAt
	printRequests(w, now, v.Requests)
	printObstacles(w, v)
	running := term.Table{Head: []string{"ISSUE", "STATE", "PHASE", "TURN", "AGE", "TOKENS", "LAST EVENT"}, State: 2}
	for _, r := range v.Running {
		phase, colour := phaseOf(r)
		running.AddIn(colour, r.Identifier, r.State, phase, fmt.Sprint(r.TurnCount), term.SinceText(w, now, r.StartedAt),
			fmt.Sprint(r.Tokens.Total), lastEvent(w, now, r))
	}
	w.PrintTable("RUNNING", running)
	waiting := term.Table{Head: []string{"ISSUE", "KIND", "ATTEMPT", "DUE", "ERROR"}, State: 1}
	for _, r := range v.Retrying {
		attempt := "-"
		if r.Attempt != nil {
			attempt = fmt.Sprint(*r.Attempt)
		}
		said := orEmpty(r.Error)
		if w.Width > 0 {
			said = strings.TrimPrefix(said, string(r.Kind)+": ") // so that the reason fits
		}
		waiting.AddIn(term.ColourWaits, r.Identifier, string(r.Kind), attempt, dueText(w, now, r), said)
	}
	w.PrintTable("WAITING", waiting)
	held := heldTable(w, now, v.Held)
	w.PrintTable("HELD", held)
	w.PrintTable("KEPT", keptTable(w, now, v.Kept))
	printHints(w, v)
	skipped := term.Table{Head: held.Head, State: 1}
	for _, r := range v.Skipped {
		skipped.AddIn(term.ColourWaits, r.Identifier, r.Reason, term.AgoText(w, now, r.Since), r.Message)
	}
	w.PrintTable("SKIPPED", skipped)
	w.PrintTable("ENDED", endedTable(w, now, v.Ended))
	if len(v.Running) == 0 {
		fmt.Fprintln(w.Stdout, term.Visible(idleLine(w, v)))
	}
	switch {
	case w.Width > 0:
		fmt.Fprintf(w.Stdout, "%d running, %d waiting, %d held, %d skipped; %s\n",
			v.Counts.Running, v.Counts.Retrying, v.Counts.Held, v.SkippedCount, scheduleLine(v))
	case !v.Schedule:
		fmt.Fprintln(w.Stdout, noSchedule)
	case v.NextPass != nil:
		fmt.Fprintf(w.Stdout, "next pass\t%s\t%s\n", term.Rfc3339(v.NextPass.At), v.NextPass.Trigger)
	}
}

func endedTable(w *term.Env, now time.Time, rows []view.RunRow) term.Table {
	ended := term.Table{Head: []string{"ISSUE", "RUN", "OUTCOME", "ENDED", "TOOK", "TURNS", "TOKENS", "ERROR"}, State: 2}
	for _, r := range rows {
		outcome, colour := outcomeOf(r), outcomeColour(r)
		if r.Kind != reconcile.AgentRun {
			outcome = string(r.Kind) + " " + outcome
		}
		ended.AddIn(colour, r.Identifier, r.RunID, outcome, term.AgoText(w, now, *r.EndedAt),
			term.LastedText(w, r.EndedAt.Sub(r.StartedAt)), fmt.Sprint(r.Turns), fmt.Sprint(r.Tokens.Total), errorsOfRun(r))
	}
	return ended
}

func heldTable(w *term.Env, now time.Time, rows []view.HeldRow) term.Table {
	t := term.Table{Head: []string{"ISSUE", "REASON", "SINCE", "MESSAGE"}, State: 1}
	for _, r := range rows {
		t.AddIn(term.ColourStuck, r.Identifier, r.Reason, term.AgoText(w, now, r.HeldAt), r.Message)
	}
	return t
}

// keptTable lists the workspaces of finished issues that contain unsaved work.
func keptTable(w *term.Env, now time.Time, rows []view.KeptRow) term.Table {
	t := term.Table{Head: []string{"ISSUE", "SINCE", "WORK", "WORKSPACE"}}
	for _, r := range rows {
		t.AddIn(term.ColourStuck, r.Identifier, term.AgoText(w, now, r.Since), "kept: "+r.Unsaved, r.Path)
	}
	return t
}

// watchStep is how often Watch reads the state.
const watchStep = time.Second

// Watch prints the overview every second until ctx ends. A terminal is cleared before each print.
func Watch(ctx context.Context, p *project.Project, o view.Options) error {
	out, isFile := p.Env.Stdout.(*os.File)
	screen := isFile && p.Env.Width > 0 && !p.Env.JSON && p.Env.Getenv("TERM") != "dumb"
	for {
		v, err := view.Read(ctx, p, o)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // a signal ended the watch
		case err != nil:
			return err
		case screen:
			printScreen(p.Env, out, v)
		default:
			Overview(p.Env, v)
		}
		if !project.Sleep(ctx, watchStep) {
			return nil
		}
	}
}

// clearScreen moves the cursor to the first cell and erases everything after it.
const clearScreen = "\x1b[H\x1b[2J"

// printScreen clears the terminal and prints the lines that fit, in one write, so that the screen does not flicker.
func printScreen(w *term.Env, out *os.File, v view.Overview) {
	columns, rows, err := xterm.GetSize(int(out.Fd()))
	if err != nil || columns <= 0 || rows <= 0 {
		columns, rows = w.Width, 24
	}
	var page bytes.Buffer
	screen := *w
	screen.Stdout, screen.Width = &page, columns
	Overview(&screen, v)
	lines := strings.Split(strings.TrimSuffix(page.String(), "\n"), "\n")
	if fit := max(rows-2, 0); len(lines) > fit+1 {
		lines = append(lines[:fit], fmt.Sprintf("… %d more lines: symphony ps shows them", len(lines)-fit))
	}
	for i := range lines {
		lines[i] = term.CutCells(lines[i], columns)
	}
	fmt.Fprint(out, clearScreen+strings.Join(lines, "\n")+"\n")
}

// printHints prints the next step for each issue of the command line whose last run failed.
func printHints(w *term.Env, v view.Overview) {
	if len(v.Issues) == 0 {
		return
	}
	hint := func(identifier, code string) {
		if next := Hint(code, identifier); next != "" {
			printField(w, "hint", identifier+": "+next)
		}
	}
	for _, r := range v.Retrying {
		hint(r.Identifier, r.ErrorCode)
	}
	for _, r := range v.Held {
		hint(r.Identifier, r.ErrorCode)
	}
}

// printObstacles prints what keeps the project from starting runs.
func printObstacles(w *term.Env, v view.Overview) {
	now := v.GeneratedAt
	if b := v.Blocked; b != nil {
		line := fmt.Sprintf("BLOCKED  %s: %s (for %s", b.Reason, b.Message, term.Age(now, b.Since))
		if b.NextTry.After(now) {
			line += ", next try in " + term.Duration(b.NextTry.Sub(now))
		}
		fmt.Fprintln(w.Stdout, w.Red(term.Visible(line+")")))
		if hint := Hint(b.Reason, ""); hint != "" {
			fmt.Fprintln(w.Stdout, "         "+hint)
		}
	}
	if b := v.Budget; b != nil && b.Reached {
		fmt.Fprintln(w.Stdout, w.Yellow(term.Visible("BUDGET   "+*b.Message+", for another "+term.Duration(b.Until.Sub(now)))))
		fmt.Fprintln(w.Stdout, "         raise agent.budget_per_day, or start one issue with symphony run")
	}
	if v.LowUntil != nil {
		fmt.Fprintln(w.Stdout, w.Yellow("LOW      less than a tenth of the tracker's allowance is left: no new run starts for another "+term.Duration(v.LowUntil.Sub(now))))
	}
	if v.Paused {
		fmt.Fprintln(w.Stdout, w.Yellow("PAUSED   no new run starts; symphony resume ends the pause"))
	}
	if v.LastPass == nil {
		return
	}
	for _, e := range v.LastPass.Errors {
		if v.Blocked == nil || v.Blocked.Reason != e.Code {
			fmt.Fprintln(w.Stdout, w.Red(term.Visible(fmt.Sprintf("ERROR    %s: %s (last pass)", e.Code, e.Message))))
		}
	}
}

func phaseOf(r view.RunningRow) (phase, colour string) {
	switch {
	case !r.Alive && r.Phase != reconcile.Starting:
		return "ended", term.ColourStuck // the next pass finds out why
	case r.StopReason != nil:
		return "stopping: " + *r.StopReason, term.ColourWaits
	case len(r.WaitsFor) > 0:
		return "asks " + strings.Join(r.WaitsFor, ", "), term.ColourWaits
	}
	return string(r.Phase), term.ColourRuns
}

func lastEvent(w *term.Env, now time.Time, r view.RunningRow) string {
	if r.LastEvent == nil {
		return ""
	}
	var parts []string
	if *r.LastEvent != agent.EventNotification && *r.LastEvent != agent.EventError { // its message says more
		parts = append(parts, *r.LastEvent)
	}
	if r.LastEventAt != nil {
		parts = append(parts, term.AgoText(w, now, *r.LastEventAt))
	}
	line := strings.Join(parts, " ")
	if r.LastMessage != "" {
		line += ": " + r.LastMessage
	}
	return line
}

// dueText says when a waiting issue continues. A continuation is not a retry.
func dueText(w *term.Env, now time.Time, r view.RetryingRow) string {
	left := r.DueAt.Sub(now)
	switch {
	case w.Width == 0:
		return term.Rfc3339(r.DueAt)
	case left <= 0:
		return "due"
	case r.Kind == reconcile.Continuation:
		return "continues in " + term.Duration(left)
	}
	return "in " + term.Duration(left)
}

const noSchedule = "no schedule is active: start runs with symphony tick"

// scheduleLine says when the next pass of the schedule is expected.
func scheduleLine(v view.Overview) string {
	if !v.Schedule {
		return noSchedule
	}
	line := "the schedule is active"
	if next := v.NextPass; next != nil {
		line = fmt.Sprintf("next pass is due (%s)", next.Trigger)
		if in := next.At.Sub(v.GeneratedAt); in > 0 {
			line = fmt.Sprintf("next pass in %s (%s)", term.Duration(in), next.Trigger)
		}
	}
	return line
}

// idleLine says why no issue is running.
func idleLine(w *term.Env, v view.Overview) string {
	if len(v.Issues) > 0 {
		return "none of these issues is running; symphony show " + v.Issues[0] + " says why"
	}
	line := "nothing running: " + idleReason(v)
	if p := v.LastPass; p != nil {
		line += fmt.Sprintf("; last pass %d (%s) %s", p.ID, p.Trigger, term.AgoText(w, v.GeneratedAt, p.StartedAt))
	}
	return line
}

func idleReason(v view.Overview) string {
	switch p := v.LastPass; {
	case v.Blocked != nil:
		return "the project is blocked: " + v.Blocked.Reason
	case v.Paused:
		return "the project is paused"
	case v.Budget != nil && v.Budget.Reached:
		return *v.Budget.Message
	case v.LowUntil != nil:
		return "the tracker's allowance is low"
	case p == nil:
		return "no pass has run yet"
	case len(p.Errors) > 0:
		return "the last pass failed with " + p.Errors[0].Code
	case len(v.Retrying)+len(v.Held) > 0:
		return "every claimed issue waits or is held"
	case v.SkippedCount > 0:
		return text.Plural(v.SkippedCount, "issue") + " skipped; symphony ps --all says why"
	case !v.Schedule && (p.Trigger == project.TriggerWorker || p.Trigger == project.TriggerCommand):
		return "the last pass did not look for other issues; symphony tick --dry-run shows what a full pass would start"
	}
	return "no issue of the project is in an active state"
}
