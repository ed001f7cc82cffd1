package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// order is an operation that a request asks for.
type order interface {
	// verb is the name of the command, such as hold.
	verb() reconcile.Verb
	// project finds the project of the order.
	project(s source, r *http.Request) (*wiring.Project, error)
	// carryOut carries the order out by the functions of the command.
	carryOut(ctx context.Context, p *wiring.Project) (outcome, error)
	// String is the order as an operator types it, without answers, which may be secret.
	String() string
}

// outcome is the result of an order.
type outcome struct {
	lines    []string
	document any  // the JSON of the command
	pending  bool // the next pass must apply it
	failed   bool // it failed for some of several targets
}

// outcomeOf is the outcome of a command.
func outcomeOf(done operate.Done, now time.Time) outcome {
	return outcome{
		lines:    done.Lines(now),
		document: done.Document,
		pending:  done.Err() != nil,
	}
}

// shown are the lines of an outcome that have a text.
func (o outcome) shown() []string {
	return text.Filter(o.lines, func(line string) bool { return strings.TrimSpace(line) != "" })
}

// passOrder asks for a pass of a project.
type passOrder struct{}

func (passOrder) verb() reconcile.Verb { return "tick" }
func (o passOrder) String() string     { return "symphony " + string(o.verb()) }

func (passOrder) project(s source, r *http.Request) (*wiring.Project, error) { return s.target(r, "") }

func (passOrder) carryOut(ctx context.Context, p *wiring.Project) (outcome, error) {
	report, err := pass.Run(ctx, p, pass.Options{
		Trigger:     wiring.TriggerManual,
		LockTimeout: wiring.CommandPatience,
	})
	if err != nil {
		return outcome{}, err
	}
	done := operate.Done{Result: operate.Result{Pass: report}, Document: report.JSON()}
	return outcomeOf(done, p.Env.Now()), nil
}

// commandOrder is a command about an issue, a request or the project.
type commandOrder struct {
	command operate.Command
	name    string // the issue or the request; empty for the project
}

func (o commandOrder) verb() reconcile.Verb { return o.command.Name() }
func (o commandOrder) String() string       { return typed(o.command, o.name) }

func (o commandOrder) project(s source, r *http.Request) (*wiring.Project, error) {
	return s.target(r, issueOf(o.command, o.name))
}

func (o commandOrder) carryOut(ctx context.Context, p *wiring.Project) (outcome, error) {
	owner, isAgent := agents.ProjectOf(ctx, p, o.name)
	if isAgent && o.verb() == reconcile.VerbStop {
		return outcome{}, exit.Usage("stop: %s is an agent, which symphony stop %[1]s ends", o.name)
	}
	if isAgent && decides(o.command) {
		p = owner
	}
	done, err := operate.Do(ctx, p, o.command)
	if err != nil {
		return outcome{}, err
	}
	return outcomeOf(done, p.Env.Now()), nil
}

// severalOrder is a command about several issues or requests, at least one.
type severalOrder struct {
	command operate.Command
	targets []operate.Target
}

func (o severalOrder) verb() reconcile.Verb { return o.command.Name() }

func (o severalOrder) String() string {
	names := text.Map(o.targets, func(t operate.Target) string { return t.Name })
	return typed(o.command, names...)
}

func (o severalOrder) project(source, *http.Request) (*wiring.Project, error) {
	return o.targets[0].Project, nil
}

func (o severalOrder) carryOut(ctx context.Context, _ *wiring.Project) (outcome, error) {
	return severally(ctx, o.command, o.targets), nil
}

// severally carries out a command about each of the targets. A failure for a target does not
// stop it for the others.
func severally(ctx context.Context, c operate.Command, targets []operate.Target) outcome {
	var out outcome
	document := operate.Several{Results: []operate.TargetResult{}} // never null
	done := 0
	for _, r := range operate.Each(ctx, targets, c, func(operate.TargetResult) {}) {
		switch r.Outcome {
		case operate.OutcomeDone:
			done++
		case operate.OutcomeStored:
			out.pending = true
		case operate.OutcomeFailed:
			out.failed = true
		}
		if r.Error == nil {
			out.lines = append(out.lines, r.Lines...)
		} else {
			out.lines = append(out.lines, r.Error.Error())
		}
		document.Results = append(document.Results, r)
	}
	summary := fmt.Sprintf("%s: %d of %d done", c.Name(), done, len(targets))
	out.lines = append([]string{summary}, out.lines...)
	out.document = document
	return out
}

// decides reports whether a command may be about a request, and not about an issue.
func decides(c operate.Command) bool {
	_, isDecision := c.(operate.Decision)
	_, tells := c.(operate.Tell)
	return isDecision || tells
}

// issueOf is the issue of a command about a name: ABC-7 for the request ABC-7.1.
func issueOf(c operate.Command, name string) string {
	if !decides(c) {
		return name
	}
	issue, _ := reconcile.RequestRef(name)
	return issue
}

// typed is a command about names as an operator types it, without texts: an answer may be secret.
func typed(c operate.Command, names ...string) string {
	line := "symphony " + operate.WordsOf(c.Name())
	for _, name := range names {
		if name != "" {
			line += " " + text.ShellQuote(name)
		}
	}
	return line
}
