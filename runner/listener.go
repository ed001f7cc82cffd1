package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// listener stores what the events of an agent report. Only the handler of events uses it.
type listener struct {
	*job
	used   agent.Usage // when an event last stored it
	limits []byte      // codex's latest rate limits
	// the members of the limits that were stored last in the account
	shared map[string]json.RawMessage
}

// follow returns the handler of events of g, which waits until g.session is set.
func (l *listener) follow(g *agentProcess) func(agent.Event) {
	return func(e agent.Event) { <-g.ready; l.store(g, e) }
}

// store writes an event to the event log, and what it changes to the record.
func (l *listener) store(g *agentProcess, e agent.Event) {
	if !e.Fragment { // fragments would fill the log, and a secret in pieces is not recognised
		l.warn("event not stored", l.events.Append(e))
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
		if limits = l.Redactor.Bytes(record); !json.Valid(limits) {
			limits = nil // redaction has replaced a number
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

// maxActivity is how many characters are stored of what the agent does.
const maxActivity = 200

// activity describes in a line without secrets what the agent does from an item on; empty for
// an item without an activity.
func (l *listener) activity(i *agent.Item) string {
	line := []rune(l.Redactor.Text(i.Activity()))
	if len(line) > maxActivity {
		return string(line[:maxActivity-1]) + "…"
	}
	return string(line)
}

// shareLimits stores those members of the rate limits in the account that have changed, with
// the id of their limit. An old value of this worker must not replace a newer one of another
// worker. What could not be stored is stored with the next change.
func (l *listener) shareLimits(ctx context.Context, record []byte) {
	if l.Account == nil || record == nil || bytes.Equal(record, l.limits) {
		return
	}
	l.limits = bytes.Clone(record)
	var members map[string]json.RawMessage
	err := json.Unmarshal(record, &members)
	changed := maps.Clone(members)
	if bytes.Equal(members["limitId"], l.shared["limitId"]) { // otherwise all members are new
		maps.DeleteFunc(changed, func(name string, value json.RawMessage) bool {
			return name != "limitId" && bytes.Equal(value, l.shared[name])
		})
	}
	var data []byte
	if err == nil {
		data, err = json.Marshal(changed)
	}
	if err == nil {
		err = l.Account.SaveLimits(ctx, l.Now(), data)
	}
	if l.warn("rate limits not shared", err); err == nil {
		l.shared = members
	}
}
