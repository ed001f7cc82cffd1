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

// MarshalText implements encoding.TextMarshaler.
func (s status) MarshalText() ([]byte, error) {
	return []byte([...]string{"ok", "warn", "fail"}[s]), nil
}

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
func failWith(err error) (list []finding) {
	faults := workflow.Faults(err)
	if len(faults) == 0 {
		faults = []*reconcile.Error{asError(err)}
	}
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
		return exit.Fault(string(ofAgent.Code), text, "symphony logs shows what codex says in a run; README, errors of runs")
	case errors.Is(err, context.DeadlineExceeded):
		return exit.Fault(string(agent.CodeResponseTimeout), err.Error(), "something hangs: try it by hand")
	}
	return exit.From(err)
}

// result is what one check has found in both environments.
type result struct {
	check
	called, scheduled []finding
}

// warnIfDifferent makes warnings of findings that are fine under the schedule but not the same as here.
func (r result) warnIfDifferent() {
	for i, f := range r.scheduled {
		if r.ifDifferent != "" && f.Status == statusOK && len(r.called) > 0 && !f.in(r.called) {
			r.scheduled[i].Status, r.scheduled[i].Hint = statusWarn, r.ifDifferent
		}
	}
}

func (f finding) in(list []finding) bool {
	return slices.ContainsFunc(list, func(other finding) bool {
		return f.Status == other.Status && f.Message == other.Message && f.Hint == other.Hint
	})
}

// lines merges what both environments have in common, and says for the rest to which it belongs.
func (r result) lines() (list []finding) {
	if len(r.scheduled) == 0 {
		return r.called
	}
	var called, scheduled []finding
	for _, f := range r.called {
		if f.in(r.scheduled) {
			list = append(list, f)
			continue
		}
		f.Message = "as called " + f.Message
		called = append(called, f)
	}
	for _, f := range r.scheduled {
		if !f.in(r.called) {
			f.Message = "by the schedule " + f.Message
			scheduled = append(scheduled, f)
		}
	}
	if len(called) == 1 && len(scheduled) == 1 { // one line, with the hint about the worse finding
		both := called[0]
		if scheduled[0].Status >= both.Status {
			both = scheduled[0]
		}
		both.Message = called[0].Message + "; " + scheduled[0].Message
		return append(list, both)
	}
	return slices.Concat(list, called, scheduled)
}

func (r result) print(w *term.Env) {
	marks := [...]string{"+", "!", "x"}
	if w.UTF8() {
		marks = [...]string{"✓", "!", "✗"}
	}
	paint := [...]func(string) string{w.Green, w.Yellow, w.Red}
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
