package web

import (
	"context"
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// order is an operation that a request asks for.
type order struct {
	verb     reconcile.Verb
	ref      string            // the issue or the request; empty for an order about the project
	issue    string            // the issue that it is about
	targets  []operate.Target  // several issues or requests, instead of ref
	decision requests.Decision // about requests
	text     string            // for an agent
}

// verbPass is a pass.
const verbPass reconcile.Verb = "tick"

// outcome is the result of an order.
type outcome struct {
	lines    []string
	document any  // the JSON of the command
	pending  bool // the next pass must apply it
	failed   bool // it failed for some of several targets
}

// carryOut carries out an order by the functions of the command.
func carryOut(ctx context.Context, p *wiring.Project, o order) (outcome, error) {
	if o.targets != nil {
		return severally(ctx, o), nil
	}
	if o.verb == reconcile.VerbRetry && o.ref == "" {
		return retryHeld(ctx, p, o)
	}
	done, err := carryOutOne(ctx, p, o)
	if err != nil {
		return outcome{}, err
	}
	return outcome{
		lines:    done.Lines(p.Env.Now()),
		document: done.Document,
		pending:  done.Err() != nil,
	}, nil
}

// carryOutOne carries out an order about an issue, a request or the project.
func carryOutOne(ctx context.Context, p *wiring.Project, o order) (operate.Done, error) {
	if o.verb == verbPass {
		report, err := pass.Run(ctx, p, pass.Options{
			Trigger:     wiring.TriggerManual,
			LockTimeout: wiring.CommandPatience,
		})
		return operate.Done{Result: operate.Result{Pass: report}, Document: report.JSON()}, err
	}
	owner, isAgent := agents.ProjectOf(ctx, p, o.ref)
	if isAgent && o.verb == reconcile.VerbStop {
		return operate.Done{}, exit.Usage("stop: %s is an agent, which symphony stop %[1]s ends", o.ref)
	}
	if isAgent && o.decision.How != "" {
		p = owner
	}
	return operate.Do(ctx, p, o.command())
}

// command is the order as an operation. A page does not wait for the end of runs.
func (o order) command() operate.Command {
	switch o.verb {
	case operate.VerbApprove, operate.VerbDeny, operate.VerbAnswer:
		return operate.Decision{Request: o.ref, Decision: o.decision}
	case operate.VerbTell:
		return operate.Message{Issue: o.ref, Text: o.text}
	case operate.VerbSendBack:
		return operate.SendBack{Issue: o.ref, Text: o.text}
	case reconcile.VerbStop:
		return operate.Stop{Issue: o.ref, NoWait: true}
	case reconcile.VerbDeliver, reconcile.VerbVerify:
		return operate.Delivery{Verb: o.verb, Issue: o.ref, NoWait: true}
	case reconcile.VerbRetry:
		return operate.Retry{Issue: o.ref}
	default:
		return operate.Change{Verb: o.verb, Issue: o.ref}
	}
}

// retryHeld retries all held issues of a project.
func retryHeld(ctx context.Context, p *wiring.Project, o order) (outcome, error) {
	v, err := view.Read(ctx, p, view.Options{})
	if err != nil {
		return outcome{}, err
	}
	o.targets = text.Map(v.Held, func(h view.HeldRow) operate.Target {
		return operate.Target{Project: p, Name: h.Identifier}
	})
	return severally(ctx, o), nil
}

// severally carries out an order about several targets. A failure for a target does not stop
// it for the others.
func severally(ctx context.Context, o order) outcome {
	out := outcome{lines: []string{""}}
	done := 0
	results := operate.Each(ctx, o.targets, o.command(), func(r operate.TargetResult) {
		if r.Error != nil {
			r.Lines = []string{r.Error.Error()}
		}
		out.lines = append(out.lines, r.Lines...)
		out.pending = out.pending || r.Outcome == operate.OutcomeStored
		out.failed = out.failed || r.Outcome == operate.OutcomeFailed
		if r.Outcome == operate.OutcomeDone {
			done++
		}
	})
	out.lines[0] = fmt.Sprintf("%s: %d of %d done", o.verb, done, len(results))
	document := operate.Several{Results: []operate.TargetResult{}} // never null
	for _, r := range results {
		if r.Error != nil {
			r.Error = asAPI(r.Error)
		}
		document.Results = append(document.Results, r)
	}
	out.document = document
	return out
}

// shown are the lines of an outcome that have a text.
func (o outcome) shown() []string {
	return text.Filter(o.lines, func(line string) bool { return strings.TrimSpace(line) != "" })
}

// String is the order as an operator types it, without answers, which may be secret.
func (o order) String() string {
	line := "symphony " + string(o.verb)
	if o.decision.How == reconcile.DecideForSession {
		line += " --for-session"
	}
	if o.decision.Reason != "" {
		line += " --reason=" + text.ShellQuote(o.decision.Reason)
	}
	for _, n := range o.decision.Choices {
		line += fmt.Sprintf(" --choice=%d", n)
	}
	if o.ref != "" {
		line += " " + text.ShellQuote(o.ref)
	}
	for _, t := range o.targets {
		line += " " + text.ShellQuote(t.Name)
	}
	if o.text != "" {
		line += " " + text.ShellQuote(text.Short(text.OneLine(o.text), 80))
	}
	return line
}
