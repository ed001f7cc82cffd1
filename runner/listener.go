package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// listener stores the contents of an agent's events. Only the handler of events uses it.
type listener struct {
	account  Account // nil: nothing is shared with other projects
	events   *eventLog
	rec      *record
	redactor *agent.Redactor
	now      func() time.Time
	log      *slog.Logger

	used   agent.Usage // when an event last stored it
	limits []byte      // the latest limits of the account
	// shared are the members of the limits that were stored last in the account.
	shared map[string]json.RawMessage
}

func (j *job) newListener() *listener {
	return &listener{
		account:  j.worker.Account,
		events:   j.events,
		rec:      j.rec,
		redactor: j.worker.Redactor,
		now:      j.worker.Now,
		log:      j.log,
	}
}

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
		warn(l.log, "event not stored", l.events.append(e))
	}
	ctx := context.Background()
	// stored at once, so that no tokens are lost if the worker dies
	if used := g.session.Usage(); used != l.used {
		l.used = used
		l.rec.storeTokens(ctx, g.session)
	}
	l.rec.keepLinks(linksInItem(e.Item))
	model := g.session.Model()
	message := l.redactor.Text(e.Message)
	activity := l.activity(e.Item)
	var limits []byte
	if record := g.session.RateLimits(); record != nil {
		limits = l.redactor.Bytes(record)
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
	line := []rune(l.redactor.Text(i.Activity()))
	if len(line) > maxActivity {
		return string(line[:maxActivity-1]) + "…"
	}
	return string(line)
}

// shareLimits stores the changed members of the rate limits in the account, with the id of
// their limit. An old value of this worker must not replace a newer value of another worker.
// If a change could not be stored, it is stored with the next change.
func (l *listener) shareLimits(ctx context.Context, record []byte) {
	if l.account == nil || record == nil || bytes.Equal(record, l.limits) {
		return
	}
	l.limits = bytes.Clone(record)
	members, err := l.storeLimits(ctx, record)
	if err != nil {
		l.log.Warn("rate limits not shared", "error", err)
		return
	}
	l.shared = members
}

// storeLimits stores the members that have changed since l.shared, and returns all members.
func (l *listener) storeLimits(ctx context.Context, record []byte) (map[string]json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(record, &members); err != nil {
		return nil, err
	}
	changed := maps.Clone(members)
	if bytes.Equal(members["limitId"], l.shared["limitId"]) { // otherwise all members are new
		maps.DeleteFunc(changed, func(name string, value json.RawMessage) bool {
			return name != "limitId" && bytes.Equal(value, l.shared[name])
		})
	}
	data, err := json.Marshal(changed)
	if err != nil {
		return nil, err
	}
	return members, l.account.SaveLimits(ctx, l.now(), data)
}
