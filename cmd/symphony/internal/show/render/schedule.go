package render

import (
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"text/template"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/schedule"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/text"
)

// ScheduleChanges prints the changes of a schedule.
func ScheduleChanges(w *term.Env, c schedule.Changes) {
	for _, line := range c.Done {
		fmt.Fprintln(w.Stdout, text.Visible(line))
	}
	for _, line := range c.Warnings {
		w.Note(slog.LevelWarn, line)
	}
}

// ScheduleError prints the faults of a workflow that a schedule could not use, and returns an
// exit.Only; another error as it is.
func ScheduleError(w *term.Env, err error) error {
	invalid, ok := errors.AsType[*schedule.Invalid](err)
	if !ok {
		return err
	}
	Check(w, invalid.Project, invalid.Report)
	return exit.Only(exit.Workflow)
}

//go:embed schedule.txt
var scheduleTemplate string

// Schedule prints whether a schedule is active, a fact a line, or as JSON. It returns true if
// none is.
func Schedule(w *term.Env, out schedule.Status) (dead bool) {
	now := w.Now()
	verdict := out.Judge(now)
	if verdict.Problem != "" {
		out.Problems = append(out.Problems, verdict.Problem)
	}
	if w.JSON {
		w.PrintJSON(out)
		return verdict.Dead
	}
	shown := w.Green(verdict.Text)
	switch {
	case verdict.Dead:
		shown = w.Red(verdict.Text)
	case verdict.Next != nil:
		shown = w.Green(verdict.Text + " " + soonText(w, now, *verdict.Next))
	}
	_ = template.Must(template.New("").Funcs(template.FuncMap{ // only a write can fail
		"fact": func(name, value string) string {
			if w.Piped() {
				return name + "\t" + value + "\n"
			}
			return term.Hang(fmt.Sprintf("%-10s ", name), value, w.Width) + "\n"
		},
		"is": func(is bool, word string) string {
			if is {
				return word
			}
			return "not " + word
		},
		"soon":    func(t time.Time) string { return soonText(w, now, t) },
		"ago":     func(t time.Time) string { return term.AgoText(w, now, t) },
		"lasted":  func(ms int64) string { return text.Duration(time.Duration(ms) * time.Millisecond) },
		"red":     func(s string) string { return w.Red(text.Visible(s)) },
		"yellow":  func(s string) string { return w.Yellow(text.Visible(s)) },
		"visible": text.Visible,
	}).Parse(scheduleTemplate)).Execute(w.Stdout, struct {
		schedule.Status
		Verdict string
	}{out, shown})
	return verdict.Dead
}

// soonText is "in 3m" on a terminal and the time in a pipe.
func soonText(w *term.Env, now, t time.Time) string {
	if w.Piped() {
		return "at " + text.Rfc3339(t)
	}
	return "in " + text.Duration(t.Sub(now))
}
