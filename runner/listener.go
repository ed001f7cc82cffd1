package runner

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// listener stores the contents of an agent's events. Only the handler of events uses it.
type listener struct {
	*parts

	used   agent.Usage // when an event last stored it
	limits []byte      // the latest limits of the account
}

func (p *parts) newListener() *listener { return &listener{parts: p} }

// follow returns the handler of events of g, which waits until g.session is set.
func (l *listener) follow(g *agentProcess) func(agent.Event) {
	return func(e agent.Event) {
		<-g.ready
		l.store(g, e)
	}
}

// store writes an event to the event log, and its effects to the record.
func (l *listener) store(g *agentProcess, e agent.Event) {
	if !e.Fragment { // fragments would fill the log, and a secret in pieces is not recognised
		warn(l.Log, "event not stored", l.events.append(e))
	}
	ctx := context.Background()
	// stored at once, so that no tokens are lost if the worker dies
	if used := g.session.Usage(); used != l.used {
		l.used = used
		l.rec.storeTokens(ctx, g.session)
	}
	l.rec.keepLinks(linksInItem(e.Item))
	model := g.session.Model()
	message := l.Redactor.Text(e.Message)
	activity := l.activity(e.Item)
	var limits []byte
	if record := g.session.RateLimits(); record != nil {
		limits = l.Redactor.Bytes(record)
		if !json.Valid(limits) {
			limits = nil // redaction replaced a number
		}
	}
	l.rec.change(func(r *reconcile.Run) {
		r.LastEvent = e.Name
		r.LastEventAt = e.At
		r.Model = model
		if message != "" && !e.Fragment {
			r.LastMessage = message
		}
		if activity != "" {
			r.Activity = activity
		}
		// other events may come late, from an earlier turn
		if e.Name == agent.EventSessionStarted && e.ThreadID == r.ThreadID {
			r.TurnID = e.TurnID
		}
		if limits != nil {
			r.RateLimits = limits
		}
	})
	l.shareLimits(ctx, limits)
}

// maxActivity is how many characters of the agent's activity are stored.
const maxActivity = 200

// activity describes in a line without secrets the agent's work from an item on; empty for an
// item without an activity.
func (l *listener) activity(i *agent.Item) string {
	line := []rune(l.Redactor.Text(i.Activity()))
	if len(line) > maxActivity {
		return string(line[:maxActivity-1]) + "…"
	}
	return string(line)
}

// shareLimits stores changed rate limits in the account.
func (l *listener) shareLimits(ctx context.Context, record []byte) {
	if l.Account == nil || record == nil || bytes.Equal(record, l.limits) {
		return
	}
	l.limits = bytes.Clone(record)
	warn(l.Log, "rate limits not shared", l.Account.SaveLimits(ctx, l.Now(), record))
}
