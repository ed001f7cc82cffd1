package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// eventMethod is the method of notifications with events, and the experimental capability of
// hosts that want them.
const eventMethod = "codex/event"

// A host that is late, with more than maxWaiting bytes of an agent's events to read, loses the
// events that are older than maxDelay.
const (
	maxWaiting = 256 << 10
	maxDelay   = 2 * time.Second
)

// forwarder sends the events of all agents to the host.
type forwarder struct {
	agents *agents.Agents
	log    *slog.Logger
	host   *transport
	gone   context.CancelFunc    // ends follow
	known  map[string]*forwarded // by run
}

// forwarded is the log of an agent, and how far the host read it.
type forwarded struct {
	run     reconcile.Run
	log     eventlog.Follower
	lines   [][]byte // that were read, and not sent yet
	no      int64    // the number of the last event; 0 before the first
	dropped int64    // events since the last event sent
}

// forwardEvents starts to send events with the first message of a host that wants them, or of
// any host if always is set. Earlier events are for read_events.
func forwardEvents(
	ctx context.Context,
	a *agents.Agents,
	log *slog.Logger,
	t *transport,
	always bool,
) mcp.Middleware {
	start := sync.OnceFunc(func() {
		f := &forwarder{agents: a, log: log, host: t, known: map[string]*forwarded{}}
		go f.follow(ctx)
	})
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(call context.Context, method string, req mcp.Request) (mcp.Result, error) {
			isReady := method != "initialize" && method != "server/discover"
			if isReady && (always || wantsEvents(req)) {
				start()
			}
			return next(call, method, req)
		}
	}
}

// wantsEvents reports whether the host that sends a request wants events.
func wantsEvents(req mcp.Request) bool {
	r, ok := req.(interface {
		ClientCapabilities() *mcp.ClientCapabilities
	})
	if !ok {
		return false
	}
	c := r.ClientCapabilities()
	if c == nil {
		return false
	}
	_, wanted := c.Experimental[eventMethod]
	return wanted
}

// follow sends the events of the live agents until ctx ends or the host is gone.
func (f *forwarder) follow(ctx context.Context) {
	ctx, f.gone = context.WithCancel(ctx)
	defer f.gone()
	changes := poll{agents: f.agents}
	failure := ""
	repeat(ctx, func() {
		isFirst := changes.last.IsZero()
		err := changes.look(ctx, func() error { return f.list(ctx, isFirst) })
		for _, a := range f.known {
			err = errors.Join(err, f.send(ctx, a))
		}
		if err != nil && ctx.Err() == nil && err.Error() != failure { // the next look tries again
			failure = err.Error()
			f.log.Warn("events not read", "error", failure)
		}
	})
}

// list finds the agents that have appeared, and sends the last events of agents that have
// ended. isFirst: it skips the events that the agents have logged already, which are for
// read_events.
func (f *forwarder) list(ctx context.Context, isFirst bool) error {
	runs, err := f.agents.DB.Runs.Unsettled(ctx)
	if err != nil {
		return fmt.Errorf("find the live agents: %w", err)
	}
	for id, a := range f.known {
		if slices.ContainsFunc(runs, func(r reconcile.Run) bool { return r.ID == id }) {
			continue
		}
		if err := f.send(ctx, a); err != nil {
			return err
		}
		a.log.Close()
		delete(f.known, id)
	}
	for _, run := range runs {
		if f.known[run.ID] != nil {
			continue
		}
		a := &forwarded{run: run, log: eventlog.Follower{Path: f.agents.EventLog(run)}}
		if isFirst {
			err = errors.Join(err, a.log.Read(func([]byte) {}))
		}
		f.known[run.ID] = a
	}
	return err
}

// send sends the new events of an agent, and waits until the host read them. If the host is
// late, it drops the oldest events, except events about approvals. If the host is gone, it
// ends follow.
func (f *forwarder) send(ctx context.Context, a *forwarded) error {
	err := a.log.Read(func(line []byte) { a.lines = append(a.lines, line) })
	if err != nil || len(a.lines) == 0 {
		return err
	}
	turnOf, err := f.agents.TurnsOf(ctx, a.run)
	if err != nil {
		return err
	}
	behind := 0 // bytes
	for _, line := range a.lines {
		behind += len(line)
	}
	for _, line := range a.lines {
		behind -= len(line)
		var e agent.Event
		if json.Unmarshal(line, &e) != nil { // it was cut
			continue
		}
		if a.no > 0 {
			a.dropped += e.No - a.no - 1 // they are no longer in the log
		}
		a.no = e.No
		if behind > maxWaiting && time.Since(e.At) > maxDelay && !eventlog.AboutRequest(e.Name) {
			a.dropped++
			continue
		}
		e.TurnID = turnOf(e)
		event := newAgentEvent(a.run.Identifier, e)
		event.Dropped = a.dropped
		a.dropped = 0
		if err := f.host.notify(ctx, eventMethod, event); err != nil {
			f.gone()
			return err
		}
	}
	a.lines = nil
	return nil
}
