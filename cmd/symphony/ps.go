package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/codex"
)

func psCommand(w *world) *cli.Command {
	return &cli.Command{
		Name: "ps", Usage: "what runs, what waits, what is held, and why",
		UsageText: usageText("ps", "[WORKFLOW]"),
		Flags: workflowFlags(
			&cli.BoolFlag{Name: "all", Usage: "also what was skipped and the runs that have ended"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON, the shape of the specification's 13.7"},
			&cli.BoolFlag{Name: "watch", Usage: "repeat every second until SIGINT"},
		),
		Action: func(c *cli.Context) error {
			w.json, w.jsonLines = c.Bool("json"), c.Bool("watch")
			_, positional, err := arguments(c)
			if err != nil {
				return err
			}
			p, err := w.openProject(c, positional)
			if err != nil {
				return err
			}
			return ps(c, w, p)
		},
	}
}

func ps(c *cli.Context, w *world, p *project) error {
	for {
		v, err := p.look(c.Context, c.Bool("all"))
		if err != nil {
			return err
		}
		if c.Bool("watch") && w.width > 0 && !w.json {
			fmt.Fprint(w.stdout, "\x1b[H\x1b[2J")
		}
		if w.json {
			w.printJSON(v)
		} else {
			w.printView(v)
		}
		if !c.Bool("watch") || !sleep(c.Context, time.Second) {
			return nil
		}
	}
}

// printView is ps for a person: first who waits for an answer, then what blocks the project, then what runs, waits and is held.
func (w *world) printView(v view) {
	w.printRequests(v)
	w.printObstacles(v)
	w.printRunning(v)
	w.printWaiting(v)
	w.printHeld(v)
	w.printSkipped(v)
	w.printEnded(v)
	if len(v.Running) == 0 {
		w.printIdle(v)
	}
	if !v.Schedule {
		fmt.Fprintln(w.stdout, "no schedule is active: nothing is started until somebody runs symphony tick")
	}
}

func (w *world) printObstacles(v view) {
	now := v.GeneratedAt
	if b := v.Blocked; b != nil {
		text := fmt.Sprintf("BLOCKED  %s: %s (for %s", b.Reason, b.Message, age(now, b.Since))
		if b.NextTry.After(now) {
			text += ", next try in " + duration(b.NextTry.Sub(now))
		}
		fmt.Fprintln(w.stdout, w.red(visible(text+")")))
	}
	if v.Paused {
		fmt.Fprintln(w.stdout, w.yellow("PAUSED   nothing new is started; symphony resume ends it"))
	}
	if v.LastPass == nil {
		return
	}
	for _, e := range v.LastPass.Errors {
		if v.Blocked == nil || v.Blocked.Reason != e.Code {
			fmt.Fprintln(w.stdout, w.red(visible(fmt.Sprintf("ERROR    %s: %s (last pass)", e.Code, e.Message))))
		}
	}
}

func (w *world) printRunning(v view) {
	t := table{head: []string{"ISSUE", "STATE", "PHASE", "TURN", "AGE", "TOKENS", "LAST EVENT"}}
	for _, r := range v.Running {
		phase := r.Phase
		switch {
		case !r.Alive && r.Phase != string(reconcile.Starting):
			phase = "ended"
		case r.StopReason != nil:
			phase = "stopping: " + *r.StopReason
		case len(r.WaitsFor) > 0:
			phase = "asks " + strings.Join(r.WaitsFor, ", ")
		}
		last := ""
		if r.LastEvent != nil {
			var parts []string
			if *r.LastEvent != codex.EventNotification { // of those the message says more
				parts = append(parts, *r.LastEvent)
			}
			if r.LastEventAt != nil {
				parts = append(parts, w.ago(v.GeneratedAt, *r.LastEventAt))
			}
			if last = strings.Join(parts, " "); r.LastMessage != "" {
				last += ": " + r.LastMessage
			}
		}
		t.add(r.Identifier, r.State, phase, fmt.Sprint(r.TurnCount), w.since(v.GeneratedAt, r.StartedAt), fmt.Sprint(r.Tokens.Total), last)
	}
	w.printTable("RUNNING", t)
}

func (w *world) printWaiting(v view) {
	t := table{head: []string{"ISSUE", "KIND", "ATTEMPT", "DUE", "ERROR"}}
	for _, r := range v.Retrying {
		attempt, text := "-", ""
		if r.Attempt != nil {
			attempt = fmt.Sprint(*r.Attempt)
		}
		if r.Error != nil {
			text = *r.Error
		}
		t.add(r.Identifier, r.Kind, attempt, w.due(v.GeneratedAt, r), text)
	}
	w.printTable("WAITING", t)
}

// due says when a waiting issue goes on. A continuation is no retry.
func (w *world) due(now time.Time, r retryingRow) string {
	d := r.DueAt.Sub(now)
	switch {
	case w.width == 0:
		return rfc3339(r.DueAt)
	case d <= 0:
		return "due"
	case r.Kind == string(reconcile.Continuation):
		return "continues in " + duration(d)
	}
	return "in " + duration(d)
}

func (w *world) printHeld(v view) {
	t := table{head: []string{"ISSUE", "REASON", "SINCE", "MESSAGE"}}
	for _, r := range v.Held {
		t.add(r.Identifier, r.Reason, w.ago(v.GeneratedAt, r.HeldAt), r.Message)
	}
	w.printTable("HELD", t)
}

func (w *world) printSkipped(v view) {
	t := table{head: []string{"ISSUE", "REASON", "SINCE", "MESSAGE"}}
	for _, r := range v.Skipped {
		t.add(r.Identifier, r.Reason, w.ago(v.GeneratedAt, r.Since), r.Message)
	}
	w.printTable("SKIPPED", t)
}

func (w *world) printEnded(v view) {
	t := table{head: []string{"ISSUE", "RUN", "OUTCOME", "ENDED", "TOOK", "TURNS", "TOKENS", "ERROR"}}
	for _, r := range v.Ended {
		text := ""
		if r.Error != nil {
			text = *r.Error
		}
		outcome := r.Outcome
		if r.Kind == string(reconcile.CleanupRun) {
			outcome = "cleanup " + outcome
		}
		t.add(r.Identifier, r.RunID, outcome, w.ago(v.GeneratedAt, r.EndedAt), duration(r.EndedAt.Sub(r.StartedAt)), fmt.Sprint(r.Turns), fmt.Sprint(r.Tokens.Total), text)
	}
	w.printTable("ENDED", t)
}

// printIdle answers "why is nothing running?".
func (w *world) printIdle(v view) {
	reason := "no issue of the project is in an active state"
	if v.skips > 0 {
		reason = fmt.Sprintf("%s skipped; symphony ps --all says why", plural(v.skips, "issue"))
	}
	switch {
	case v.Blocked != nil:
		reason = "the project is blocked: " + v.Blocked.Reason
	case v.Paused:
		reason = "the project is paused"
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
		line += fmt.Sprintf("; last pass %d (%s) %s", p.ID, p.Trigger, w.ago(v.GeneratedAt, p.StartedAt))
	}
	fmt.Fprintln(w.stdout, visible(line))
}

// ago is relative on a terminal, exact in a pipe.
func (w *world) ago(now, t time.Time) string {
	if w.width == 0 {
		return rfc3339(t)
	}
	return age(now, t) + " ago"
}

func (w *world) since(now, t time.Time) string {
	if w.width == 0 {
		return rfc3339(t)
	}
	return age(now, t)
}

func age(now, t time.Time) string { return duration(now.Sub(t)) }

// duration is short: 41s, 3m, 2h05m, 4d.
func duration(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// table is aligned on a terminal and tab-separated in a pipe.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) {
	for i := range cells {
		cells[i] = visible(cells[i])
	}
	t.rows = append(t.rows, cells)
}

func (w *world) printTable(title string, t table) {
	if len(t.rows) == 0 {
		return
	}
	if w.width == 0 {
		for _, row := range t.rows {
			fmt.Fprintf(w.stdout, "%s\t%s\n", strings.ToLower(title), strings.Join(row, "\t"))
		}
		return
	}
	fmt.Fprintln(w.stdout, w.bold(title))
	t.print(w.stdout, w)
}

// print pads the columns and cuts the last one at the terminal's edge.
func (t table) print(out io.Writer, w *world) {
	widths := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for n, row := range append([][]string{t.head}, t.rows...) {
		var b strings.Builder
		for i, cell := range row {
			if i == len(row)-1 {
				b.WriteString(cell)
				break
			}
			fmt.Fprintf(&b, "%-*s  ", widths[i], cell)
		}
		line := []rune(strings.TrimRight("  "+b.String(), " "))
		if len(line) > w.width {
			line = append(line[:w.width-1], '…')
		}
		text := string(line)
		if n == 0 {
			text = w.dim(text)
		}
		fmt.Fprintln(out, text)
	}
}
