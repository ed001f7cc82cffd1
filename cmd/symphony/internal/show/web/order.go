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
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// order is what a request asks for.
type order struct {
	verb     reconcile.Verb
	ref      string            // the issue or the request; empty for an order about the project
	issue    string            // the issue that it is about
	decision requests.Decision // about a request
}

// verbPass is a pass.
const verbPass reconcile.Verb = "tick"

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
	return line
}

// outcome is what became of an order.
type outcome struct {
	lines    []string
	document any  // the JSON of the command
	pending  bool // the next pass has to apply it
}

// carryOut carries out an order by the functions of the command.
func carryOut(ctx context.Context, p *project.Project, o order) (outcome, error) {
	if o.verb == reconcile.VerbRetry && o.ref == "" {
		return retryHeld(ctx, p)
	}
	var r operate.Result
	var err error
	if o.verb == verbPass {
		r.Pass, err = pass.Run(ctx, p, pass.Options{Trigger: project.TriggerManual, LockTimeout: project.CommandPatience})
	} else {
		owner, isAgent := agents.ProjectOf(ctx, p, o.ref)
		switch {
		case isAgent && o.verb == reconcile.VerbStop:
			return outcome{}, exit.Usage("stop: %s is an agent, which symphony stop %[1]s ends", o.ref)
		case isAgent && o.decision.How != "":
			p = owner
		}
		r, err = operate.Do(ctx, p, operate.Command{Verb: o.verb, Issue: o.ref, NoWait: true, Decision: o.decision})
	}
	if err != nil {
		return outcome{}, err
	}
	return outcome{lines: r.Lines(p.Env.Now()), document: r.JSON(), pending: r.Err() != nil}, nil
}

// retried is what became of an issue that was held.
type retried struct {
	Identifier string           `json:"issue_identifier"`
	Error      *reconcile.Error `json:"error"`
}

// retryHeld retries each held issue of the project. One that fails keeps no other from its retry; if all fail, the last error is returned.
func retryHeld(ctx context.Context, p *project.Project) (out outcome, err error) {
	v, err := view.Read(ctx, p, view.Options{})
	if err != nil {
		return out, err
	}
	list, applied := []retried{}, 0
	for _, held := range v.Held {
		row := retried{Identifier: held.Identifier}
		r, failed := operate.Apply(ctx, p, operate.Command{Verb: reconcile.VerbRetry, Issue: held.IssueID})
		if failed != nil {
			err, row.Error = failed, exit.From(failed)
			out.lines = append(out.lines, held.Identifier+": "+row.Error.Error())
		} else {
			applied++
			out.pending = out.pending || r.Err() != nil
		}
		list = append(list, row)
	}
	if applied > 0 {
		err = nil
	}
	out.lines = append(out.lines, fmt.Sprintf("%d of %d held issues are due again", applied, len(list)))
	out.document = map[string]any{"issues": list}
	return out, err
}

// shown are the lines of an outcome that have a text.
func (o outcome) shown() []string {
	return text.Filter(o.lines, func(line string) bool { return strings.TrimSpace(line) != "" })
}
