package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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

// errHostGone: the host reads nothing any more, and nothing more is sent.
var errHostGone = errors.New("the host is gone")

// follow sends the events of the live agents until ctx ends or the host is gone.
func (f *forwarder) follow(ctx context.Context) {
	changes := poll{agents: f.agents}
	repeat(ctx, f.log, "events not read", func() error { return f.forward(ctx, &changes) })
}

// forward sends the events that are new since the last call. An agent whose events can't be
// read keeps back no others. The same failures return the same error.
func (f *forwarder) forward(ctx context.Context, changes *poll) error {
	isFirst := changes.last.IsZero()
	err := changes.look(ctx, func() error { return f.list(ctx, isFirst) })
	for _, id := range slices.Sorted(maps.Keys(f.known)) {
		err = errors.Join(err, f.send(ctx, f.known[id]))
		if errors.Is(err, errHostGone) {
			return err
		}
	}
	return err
}

// list finds the agents that have appeared, and sends the last events of agents that have
// ended. isFirst: it skips the events that the agents have logged already, which are for
// read_events.
func (f *forwarder) list(ctx context.Context, isFirst bool) error {
	runs, err := f.agents.DB.Runs.Unsettled(ctx)
	if err != nil {
		return fmt.Errorf("find the live agents: %w", err)
	}
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(f.known)) {
		if slices.ContainsFunc(runs, func(r reconcile.Run) bool { return r.ID == id }) {
			continue
		}
		ended := f.known[id]
		if err := f.send(ctx, ended); err != nil {
			errs = append(errs, err)
			continue
		}
		ended.log.Close()
		delete(f.known, id)
	}
	for _, run := range runs {
		if f.known[run.ID] != nil {
			continue
		}
		a := &forwarded{run: run, log: eventlog.Follower{Path: f.agents.EventLog(run)}}
		if isFirst {
			errs = append(errs, a.log.Read(func([]byte) {}))
		}
		f.known[run.ID] = a
	}
	return errors.Join(errs...)
}

// send sends the new events of an agent, and waits until the host read them. If the host is
// late, it drops the oldest events, except events about approvals. Error: errHostGone.
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
			return fmt.Errorf("%w: %w", errHostGone, err)
		}
	}
	a.lines = nil
	return nil
}
