package mcpserver

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/reconcile"
)

// eventMethod is the method of notifications with events, and the experimental capability of hosts that want them.
const eventMethod = "codex/event"

const (
	readAtOnce = 256 << 10 // bytes of a log at a time
	maxDelay   = 2 * time.Second
)

// forwarder sends the events of all agents to the host. What the host has not read yet stays in the logs.
type forwarder struct {
	agents *agents.Agents
	log    *slog.Logger
	host   *transport
	gone   context.CancelFunc    // ends follow
	known  map[string]*forwarded // by run
}

// forwarded is the log of one agent, and how far the host has it.
type forwarded struct {
	run     reconcile.Run
	cursor  string
	dropped int64 // events since the last one that was sent
}

// forwardEvents starts to send events with the first message of a host that wants them, or of any host if always is set. Earlier events
// are for read_events.
func forwardEvents(ctx context.Context, a *agents.Agents, log *slog.Logger, t *transport, always bool) mcp.Middleware {
	start := sync.OnceFunc(func() {
		f := &forwarder{agents: a, log: log, host: t, known: map[string]*forwarded{}}
		go f.follow(ctx)
	})
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(call context.Context, method string, req mcp.Request) (mcp.Result, error) {
			r, ok := req.(interface {
				ClientCapabilities() *mcp.ClientCapabilities
			})
			if ok && method != "initialize" && method != "server/discover" { // the host is ready
				wanted := always
				if c := r.ClientCapabilities(); c != nil && !wanted {
					_, wanted = c.Experimental[eventMethod]
				}
				if wanted {
					start()
				}
			}
			return next(call, method, req)
		}
	}
}

// follow sends the events of the live agents until ctx ends or the host is gone.
func (f *forwarder) follow(ctx context.Context) {
	ctx, f.gone = context.WithCancel(ctx)
	defer f.gone()
	w, failure := poll{agents: f.agents}, ""
	repeat(ctx, func() {
		err := w.look(ctx, func() error { return f.list(ctx, w.read.IsZero()) })
		for more := true; more; { // the agents take turns
			more = false
			for _, a := range f.known {
				some, readErr := f.send(ctx, a)
				more, err = more || some, errors.Join(err, readErr)
			}
		}
		if err != nil && ctx.Err() == nil && err.Error() != failure { // the next look tries again
			failure = err.Error()
			f.log.Warn("events not read", "error", failure)
		}
	})
}

// list finds the agents that have appeared, and sends the last events of those that have ended.
func (f *forwarder) list(ctx context.Context, first bool) error {
	runs, err := f.agents.DB.Runs.Unsettled(ctx)
	if err != nil {
		return err
	}
	for id, a := range f.known {
		if slices.ContainsFunc(runs, func(r reconcile.Run) bool { return r.ID == id }) {
			continue
		}
		for more := true; more; {
			if more, err = f.send(ctx, a); err != nil {
				return err
			}
		}
		delete(f.known, id)
	}
	for _, run := range runs {
		if f.known[run.ID] != nil {
			continue
		}
		a := &forwarded{run: run}
		for passed := first; passed; { // earlier events are for read_events
			read, err := f.agents.EventsOf(run, a.cursor, readAtOnce)
			if err != nil {
				return err
			}
			a.cursor, passed = read.Cursor, len(read.List) > 0
		}
		f.known[run.ID] = a
	}
	return nil
}

// send sends the next events of an agent, and waits until the host has read them. It returns false after the last one. If the host is late,
// which means that many events have waited for long, it drops them, but neither the last one nor those about approvals.
func (f *forwarder) send(ctx context.Context, a *forwarded) (more bool, err error) {
	read, err := f.agents.EventsOf(a.run, a.cursor, readAtOnce)
	if err != nil || len(read.List) == 0 {
		return false, err
	}
	turnOf, err := f.agents.TurnsOf(ctx, a.run)
	if err != nil {
		return false, err
	}
	a.cursor, a.dropped = read.Cursor, a.dropped+read.Lost
	size := 0
	for _, e := range read.List {
		size += len(e.Line)
	}
	late := size > readAtOnce/2 && time.Since(read.List[0].At) > maxDelay
	for i, e := range read.List {
		if late && i < len(read.List)-1 && !eventlog.AboutRequest(e.Name) {
			a.dropped++
			continue
		}
		e.TurnID = turnOf(e)
		event := newAgentEvent(a.run.Identifier, e)
		event.Dropped, a.dropped = a.dropped, 0
		if f.host.notify(ctx, eventMethod, event) != nil {
			f.gone()
			return false, nil
		}
	}
	return true, nil
}
