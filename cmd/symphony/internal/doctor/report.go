package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/agent"
)

// status is how a check ended, the worst last.
type status int

const (
	statusOK status = iota
	statusWarn
	statusFail
)

var statusWords = [...]string{"ok", "warn", "fail"}

// MarshalText implements encoding.TextMarshaler.
func (s status) MarshalText() ([]byte, error) { return []byte(statusWords[s]), nil }

// finding is what one check has to say at one place.
type finding struct {
	Check   string `json:"check"`
	Status  status `json:"status"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	As      string `json:"as"`
	// code is that of the error it was made of.
	code string
}

func well(format string, args ...any) finding { return finding{Message: fmt.Sprintf(format, args...)} }

func wary(message, hint string) finding {
	return finding{Status: statusWarn, Message: message, Hint: hint}
}

func bad(message, hint string) finding {
	return finding{Status: statusFail, Message: message, Hint: hint}
}

// failed makes findings of an error: each of its faults is one.
func failed(err error) []finding {
	faults := workflow.Faults(err)
	if len(faults) == 0 {
		faults = []*reconcile.Error{doctorError(err)}
	}
	var list []finding
	for _, e := range faults {
		f := bad(e.Code+": "+e.Message, e.Hint)
		f.code = e.Code
		list = append(list, f)
	}
	return list
}

// doctorError gives the errors of a session and of a bound a code, too.
func doctorError(err error) *reconcile.Error {
	var known *reconcile.Error
	var said *agent.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &said):
		// The whole chain: what the agent said at its end stands behind the error itself.
		text := strings.TrimPrefix(err.Error(), string(said.Code)+": ")
		return &reconcile.Error{Code: string(said.Code), Message: text, Hint: "symphony logs shows what codex says in a run; README, errors of runs", Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &reconcile.Error{Code: string(agent.CodeResponseTimeout), Message: err.Error(), Hint: "something hangs: try it by hand", Err: err}
	}
	return exit.From(project.WorkspaceError(err))
}

// diagnosis is all that one check has found.
type diagnosis struct {
	name             string
	called, schedule []finding
}

// lines puts together what both places have in common, and names the difference where they differ.
func (a diagnosis) lines() []finding {
	only := func(list, other []finding) []finding {
		return slices.DeleteFunc(slices.Clone(list), func(f finding) bool { return slices.ContainsFunc(other, f.same) })
	}
	called, schedule := only(a.called, a.schedule), only(a.schedule, a.called)
	list := slices.DeleteFunc(slices.Clone(a.called), func(f finding) bool { return !slices.ContainsFunc(a.schedule, f.same) })
	switch {
	case len(a.schedule) == 0:
		return a.called
	case len(called) == 1 && len(schedule) == 1:
		return append(list, differ(called[0], schedule[0]))
	}
	for _, f := range slices.Concat(called, schedule) {
		f.Message = where(f.As) + " " + f.Message
		list = append(list, f)
	}
	return list
}

// distrust makes a warning of what is well at the schedule's place but not as it is here, where the check says what to
// do about that.
func (a diagnosis) distrust(hint string) {
	for i, f := range a.schedule {
		same := func(g finding) bool { return g.same(f) }
		if hint != "" && f.Status == statusOK && len(a.called) > 0 && !slices.ContainsFunc(a.called, same) {
			a.schedule[i].Status, a.schedule[i].Hint = statusWarn, hint
		}
	}
}

func (f finding) same(other finding) bool {
	return f.Status == other.Status && f.Message == other.Message && f.Hint == other.Hint
}

// differ is one line about two findings; what to do is about the worse one.
func differ(called, schedule finding) finding {
	worse := called
	if schedule.Status >= called.Status {
		worse = schedule
	}
	worse.Message = where(asCalled) + " " + called.Message + "; " + where(asSchedule) + " " + schedule.Message
	return worse
}

func where(as string) string {
	if as == asSchedule {
		return "by the schedule"
	}
	return "as called"
}

// print writes the lines of a diagnosis.
func (d *doctor) print(a diagnosis) {
	marks := [...]string{"+", "!", "x"}
	if d.w.UTF8() {
		marks = [...]string{"✓", "!", "✗"}
	}
	paints := [...]func(string) string{func(s string) string { return d.w.Paint("32", s) }, d.w.Yellow, d.w.Red}
	for _, f := range a.lines() {
		text := a.name + ": " + f.Message
		if f.Hint != "" {
			text += ": " + f.Hint
		}
		fmt.Fprintln(d.w.Stdout, paints[f.Status](marks[f.Status]), term.Visible(text))
	}
}

// configChecks are those without which a pass could not even begin.
var configChecks = []string{"workflow", "environment file", "key"}

// report is all that was found.
type report struct{ findings []finding }

func (r *report) add(a diagnosis) {
	r.findings = append(r.findings, slices.Concat(a.called, a.schedule)...)
}

// code is the exit code: that of the workflow where a pass as called here would refuse it.
func (r *report) code() error {
	code := exit.OK
	for _, f := range r.findings {
		if f.Status != statusFail {
			continue
		}
		code = max(code, exit.Failed)
		if f.As == asCalled && (f.code == "invalid_config" || slices.Contains(configChecks, f.Check)) {
			code = exit.Workflow
		}
	}
	if code == exit.OK {
		return nil
	}
	return exit.Only(code)
}
