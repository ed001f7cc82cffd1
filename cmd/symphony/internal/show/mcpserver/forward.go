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
	// maxWaiting is how many bytes of events wait for the host, per agent. The others stay in the log, but if the host is late by maxDelay
	// events are dropped.
	maxWaiting = 256 << 10
	maxDelay   = 2 * time.Second
)

// forwarder sends the events of all agents to the host. It reads the logs even while the host does not read, so that it misses no
// event about an approval, and keeps of the others the latest ones.
type forwarder struct {
	agents *agents.Agents
	log    *slog.Logger
	known  map[string]*queue // by run; only follow uses it

	mu     sync.Mutex
	queues []*queue      // those with events; the first has its turn
	filled chan struct{} // has a value if there are some
}

// queue has the events of one agent that wait for the host.
type queue struct {
	run     reconcile.Run
	cursor  string // up to which the log is read; only follow uses it
	events  []*agents.Event
	bytes   int
	dropped int64
}

// forwardEvents starts to send events with the first message of a host that wants them, or of any host if always is set. Earlier events
// are for read_events.
func forwardEvents(ctx context.Context, a *agents.Agents, log *slog.Logger, t *transport, always bool) mcp.Middleware {
	start := sync.OnceFunc(func() {
		f := &forwarder{agents: a, log: log, known: map[string]*queue{}, filled: make(chan struct{}, 1)}
		go f.follow(ctx)
		go f.send(ctx, t)
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

// send sends the waiting events until ctx ends or the host is gone.
func (f *forwarder) send(ctx context.Context, t *transport) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.filled:
		}
		for e, ok := f.next(); ok; e, ok = f.next() {
			if err := t.notify(ctx, eventMethod, e); err != nil {
				return
			}
		}
	}
}

// follow reads the logs of the live agents until ctx ends.
func (f *forwarder) follow(ctx context.Context) {
	w, failure := poll{agents: f.agents}, ""
	repeat(ctx, func() {
		err := w.look(ctx, func() error { return f.list(ctx, w.read.IsZero()) })
		for _, q := range f.known {
			err = errors.Join(err, f.read(ctx, q))
		}
		if err != nil && ctx.Err() == nil && err.Error() != failure { // the next look tries again
			failure = err.Error()
			f.log.Warn("events not read", "error", failure)
		}
	})
}

// list finds the agents that have appeared, and reads the logs of those that have ended a last time.
func (f *forwarder) list(ctx context.Context, first bool) error {
	runs, err := f.agents.DB.Runs.Unsettled(ctx)
	if err != nil {
		return err
	}
	for id, q := range f.known {
		if !slices.ContainsFunc(runs, func(r reconcile.Run) bool { return r.ID == id }) {
			if err := f.read(ctx, q); err != nil {
				return err
			}
			if !f.full(q) {
				delete(f.known, id)
			}
		}
	}
	for _, run := range runs {
		if f.known[run.ID] != nil {
			continue
		}
		q := &queue{run: run}
		if first {
			q.cursor, err = f.agents.EventsEnd(run)
		}
		if err != nil {
			return err
		}
		f.known[run.ID] = q
	}
	return nil
}

// read moves the new events of a log to its queue.
func (f *forwarder) read(ctx context.Context, q *queue) error {
	for !f.full(q) {
		read, err := f.agents.EventsOf(q.run, q.cursor, readAtOnce)
		if err != nil || len(read.List) == 0 {
			return err
		}
		turnOf, err := f.agents.TurnsOf(ctx, q.run)
		if err != nil {
			return err
		}
		for i := range read.List {
			read.List[i].TurnID, read.List[i].Line = turnOf(read.List[i]), nil
		}
		q.cursor = read.Cursor
		f.push(q, read)
	}
	return nil
}

// full reports whether a queue takes no more events for now.
func (f *forwarder) full(q *queue) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return q.bytes > maxWaiting && !q.late()
}

// late reports whether the host does not read, or too slowly.
func (q *queue) late() bool { return len(q.events) > 0 && time.Since(q.events[0].At) > maxDelay }

func (f *forwarder) push(q *queue, read agents.Events) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(q.events) == 0 {
		f.queues = append(f.queues, q)
	}
	q.dropped += read.Lost
	for _, e := range read.List {
		q.events = append(q.events, &e)
		q.bytes += sizeOf(&e)
	}
	q.limit()
	select {
	case f.filled <- struct{}{}:
	default:
	}
}

// next takes an event. The agents take turns.
func (f *forwarder) next() (e agentEvent, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queues) == 0 {
		return e, false
	}
	q := f.queues[0]
	first := q.events[0]
	f.queues, q.events, q.bytes = f.queues[1:], q.events[1:], q.bytes-sizeOf(first)
	if len(q.events) > 0 {
		f.queues = append(f.queues, q)
	}
	e = newAgentEvent(q.run.Identifier, *first)
	e.Dropped, q.dropped = q.dropped, 0
	return e, true
}

func sizeOf(e *agents.Event) int { return len(e.Payload) + len(e.Message) + 200 }

// limit drops the oldest events of a queue that is too long if the host is late, but neither the last one nor those about approvals.
func (q *queue) limit() {
	if q.bytes <= maxWaiting || !q.late() {
		return
	}
	last := q.events[len(q.events)-1]
	q.events = slices.DeleteFunc(q.events, func(e *agents.Event) bool {
		drop := q.bytes > maxWaiting && e != last && !eventlog.AboutRequest(e.Name)
		if drop {
			q.bytes -= sizeOf(e)
			q.dropped++
		}
		return drop
	})
}
