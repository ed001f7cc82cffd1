package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/agent"
)

// status is the result of a check, the worst last.
type status int

const (
	statusOK status = iota
	statusWarn
	statusFail
)

var statusNames = [...]string{"ok", "warn", "fail"}

// MarshalText implements encoding.TextMarshaler.
func (s status) MarshalText() ([]byte, error) { return []byte(statusNames[s]), nil }

// finding is one finding of a check in one environment.
type finding struct {
	Check   string `json:"check"`
	Status  status `json:"status"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	As      string `json:"as"`
	code    string // of the error
}

func ok(format string, args ...any) []finding {
	return []finding{{Message: fmt.Sprintf(format, args...)}}
}

func warn(message, hint string) []finding {
	return []finding{{Status: statusWarn, Message: message, Hint: hint}}
}

func fail(message, hint string) []finding {
	return []finding{{Status: statusFail, Message: message, Hint: hint}}
}

// failWith makes findings of an error: one of each fault.
func failWith(err error) []finding {
	faults := workflow.Faults(err)
	if len(faults) == 0 {
		faults = []*reconcile.Error{asError(err)}
	}
	var list []finding
	for _, e := range faults {
		list = append(list, finding{Status: statusFail, Message: e.Error(), Hint: e.Hint, code: e.Code})
	}
	return list
}

// asError gives every error a code.
func asError(err error) *reconcile.Error {
	var known *reconcile.Error
	var ofAgent *agent.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &ofAgent):
		// The chain of errors ends with what the agent printed last.
		text := strings.TrimPrefix(err.Error(), string(ofAgent.Code)+": ")
		return &reconcile.Error{Code: string(ofAgent.Code), Message: text, Hint: "symphony logs shows what codex says in a run; README, errors of runs", Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &reconcile.Error{Code: string(agent.CodeResponseTimeout), Message: err.Error(), Hint: "something hangs: try it by hand", Err: err}
	}
	return exit.From(err)
}

// result is what one check has found in both environments.
type result struct {
	name              string
	called, scheduled []finding
}

// warnIfDifferent makes warnings of findings that are fine under the schedule but not the same as here.
func (r result) warnIfDifferent(hint string) {
	for i, f := range r.scheduled {
		if hint != "" && f.Status == statusOK && len(r.called) > 0 && !slices.ContainsFunc(r.called, f.same) {
			r.scheduled[i].Status, r.scheduled[i].Hint = statusWarn, hint
		}
	}
}

func (f finding) same(other finding) bool {
	return f.Status == other.Status && f.Message == other.Message && f.Hint == other.Hint
}

// lines merges what both environments have in common, and says for the rest to which it belongs.
func (r result) lines() (list []finding) {
	if len(r.scheduled) == 0 {
		return r.called
	}
	var called []finding
	for _, f := range r.called {
		if slices.ContainsFunc(r.scheduled, f.same) {
			list = append(list, f)
		} else {
			called = append(called, f)
		}
	}
	scheduled := slices.DeleteFunc(slices.Clone(r.scheduled), func(f finding) bool { return slices.ContainsFunc(r.called, f.same) })
	if len(called) == 1 && len(scheduled) == 1 { // one line, with the hint about the worse finding
		worse := called[0]
		if scheduled[0].Status >= worse.Status {
			worse = scheduled[0]
		}
		worse.Message = "as called " + called[0].Message + "; by the schedule " + scheduled[0].Message
		return append(list, worse)
	}
	for _, f := range called {
		f.Message = "as called " + f.Message
		list = append(list, f)
	}
	for _, f := range scheduled {
		f.Message = "by the schedule " + f.Message
		list = append(list, f)
	}
	return list
}

func (r result) print(w *term.Env) {
	marks := [...]string{"+", "!", "x"}
	if w.UTF8() {
		marks = [...]string{"✓", "!", "✗"}
	}
	paint := [...]func(string) string{func(s string) string { return w.Paint("32", s) }, w.Yellow, w.Red}
	for _, f := range r.lines() {
		text := r.name + ": " + f.Message
		if f.Hint != "" {
			text += ": " + f.Hint
		}
		fmt.Fprintln(w.Stdout, paint[f.Status](marks[f.Status]), term.Visible(text))
	}
}

// requiredChecks are those without which no pass begins.
var requiredChecks = []string{"workflow", "environment file", "key"}

// exitCode is 3 if a pass as called would refuse the workflow, 1 if anything else fails.
func exitCode(findings []finding) error {
	code := exit.OK
	for _, f := range findings {
		if f.Status != statusFail {
			continue
		}
		code = max(code, exit.Failed)
		if f.As == asCalled && (slices.Contains(requiredChecks, f.Check) || f.code == workflow.CodeInvalid) {
			code = exit.Workflow
		}
	}
	if code == exit.OK {
		return nil
	}
	return exit.Only(code)
}
