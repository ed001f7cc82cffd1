package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// eventMethod is the method of notifications with events, and the experimental capability of hosts that want them.
const eventMethod = "codex/event"

const (
	defaultRead = 32 << 10 // bytes of the log in a result of read_events
	maxRead     = 1 << 20
)

type (
	// ReadEventsIn are the arguments of read_events.
	ReadEventsIn struct {
		AgentID  string `json:"agentId"`
		Cursor   string `json:"cursor,omitempty" jsonschema:"the cursor of the last result; without it the oldest events that are kept"`
		MaxBytes int    `json:"maxBytes,omitempty" jsonschema:"about how many bytes; default 32768, at most 1048576; at least one event"`
	}
	// ReadEventsOut is the result of read_events.
	ReadEventsOut struct {
		AgentID string       `json:"agentId"`
		Events  []AgentEvent `json:"events" jsonschema:"oldest first; none if there are none yet"`
		Lost    int64        `json:"lost,omitempty" jsonschema:"how many events before these are no longer kept"`
		Cursor  string       `json:"cursor" jsonschema:"for the next call"`
	}
	// AgentEvent is an event of an agent, and the parameters of a notification.
	AgentEvent struct {
		AgentID        string    `json:"agentId"`
		ConversationID string    `json:"conversationId,omitempty" jsonschema:"a sub-agent of codex has a conversation of its own"`
		TurnID         string    `json:"turnId,omitempty" jsonschema:"of codex"`
		No             int64     `json:"no" jsonschema:"of the events of the agent, from 1"`
		At             time.Time `json:"at"`
		Name           string    `json:"name"`
		Message        string    `json:"message,omitempty"`
		Event          any       `json:"event,omitempty" jsonschema:"codex's own message, without secrets; a long one is shortened"`
		Dropped        int64     `json:"dropped,omitempty" jsonschema:"how many events before this one the host did not read in time"`
	}
)

func newAgentEvent(agentID string, e agents.Event) AgentEvent {
	event := AgentEvent{AgentID: agentID, TurnID: e.TurnID, No: e.No, At: e.At, Name: e.Name, Message: e.Message}
	if len(e.Payload) > 0 {
		event.Event = e.Payload
	}
	if e.PID != 0 { // the worker's own events are about the agent
		event.ConversationID = e.ThreadID
	}
	return event
}

// addEventTools registers the tools that read events.
func (s *Server) addEventTools() {
	addTool(s, &mcp.Tool{
		Name: "read_events", Annotations: reads(),
		Description: "Read what an agent has done, event by event, from a cursor on. A streamed message is one " +
			"event, not its pieces.",
	}, s.readEvents)
}

func (s *Server) readEvents(ctx context.Context, _ *mcp.CallToolRequest, in ReadEventsIn) (*mcp.CallToolResult, ReadEventsOut, error) {
	limit := in.MaxBytes
	if limit <= 0 {
		limit = defaultRead
	}
	read, err := s.agents.Events(ctx, in.AgentID, in.Cursor, min(limit, maxRead))
	out := ReadEventsOut{AgentID: in.AgentID, Events: []AgentEvent{}, Lost: read.Lost, Cursor: read.Cursor}
	for _, e := range read.List {
		out.Events = append(out.Events, newAgentEvent(in.AgentID, e))
	}
	return nil, out, err
}

// sendEvents starts to send events when the host has said that it wants them, or with the option, when it is ready.
func (s *Server) sendEvents(ctx context.Context) mcp.Middleware {
	start := sync.OnceFunc(func() { go newForwarder(s).run(ctx) })
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(call context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if r, ok := req.(interface {
				ClientCapabilities() *mcp.ClientCapabilities
			}); ok && method != "initialize" && method != "server/discover" {
				asks := s.Events
				if c := r.ClientCapabilities(); c != nil {
					_, named := c.Experimental[eventMethod]
					asks = asks || named
				}
				if asks {
					start()
				}
			}
			return next(call, method, req)
		}
	}
}

// notify sends a notification with a method of our own.
func (s *Server) notify(ctx context.Context, method string, params any) error {
	data, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	return conn.Write(ctx, &jsonrpc.Request{Method: method, Params: data})
}

const (
	tailStep = 100 * time.Millisecond // between two looks at the logs
	tailRead = 256 << 10              // bytes of a log at a time
	// maxWaiting is how many bytes of events wait for the host, per agent. The others stay in the log, but if the host is late by maxDelay
	// events are dropped.
	maxWaiting = 256 << 10
	maxDelay   = 2 * time.Second
)

// forwarder sends the events of all agents to the host. It reads the logs even while the host does not read, so that it misses no
// event about an approval, and keeps of the others the latest ones.
type forwarder struct {
	server *Server
	tails  map[string]*tail // by run; only follow uses it

	mu     sync.Mutex
	queues []*queue      // of the agents with events that wait; the first has its turn
	filled chan struct{} // has a value if there are some
}

// tail is the log of one agent, read up to a cursor.
type tail struct {
	run    reconcile.Run
	cursor string
	queue  *queue
}

// queue has the events of one agent that wait for the host.
type queue struct {
	agent   string
	events  []*agents.Event
	bytes   int
	dropped int64
}

func newForwarder(s *Server) *forwarder {
	return &forwarder{server: s, tails: map[string]*tail{}, filled: make(chan struct{}, 1)}
}

// run forwards events until ctx ends. Those before its start are for read_events.
func (f *forwarder) run(ctx context.Context) {
	go f.follow(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.filled:
		}
		for {
			e, ok := f.next()
			if !ok {
				break
			}
			if err := f.server.notify(ctx, eventMethod, e); err != nil {
				return // the host is gone
			}
		}
	}
}

// follow reads the logs of the live agents.
func (f *forwarder) follow(ctx context.Context) {
	look := time.NewTicker(tailStep)
	defer look.Stop()
	var version int64
	var listed time.Time
	failure := ""
	for {
		now, err := f.server.agents.DB.Clients.Version(ctx)
		if err == nil && (now != version || time.Since(listed) > waitAnyway) {
			if err = f.list(ctx, listed.IsZero()); err == nil {
				version, listed = now, time.Now()
			}
		}
		for _, t := range f.tails {
			err = errors.Join(err, f.read(t))
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil && err.Error() != failure { // the next look tries again
			failure = err.Error()
			f.server.log.Warn("events not read", "error", failure)
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// list finds the agents that have appeared, and reads the logs of those that have ended a last time.
func (f *forwarder) list(ctx context.Context, first bool) error {
	runs, err := f.server.agents.DB.Runs.Unsettled(ctx)
	if err != nil {
		return err
	}
	for id, t := range f.tails {
		if !slices.ContainsFunc(runs, func(r reconcile.Run) bool { return r.ID == id }) {
			if err := f.read(t); err != nil {
				return err
			}
			if !f.full(t.queue) {
				delete(f.tails, id)
			}
		}
	}
	for _, run := range runs {
		if f.tails[run.ID] != nil {
			continue
		}
		t := &tail{run: run, queue: &queue{agent: run.Identifier}}
		if first {
			if t.cursor, err = f.server.agents.EventsEnd(run); err != nil {
				return err
			}
		}
		f.tails[run.ID] = t
	}
	return nil
}

// read moves the new events of a log to the queue.
func (f *forwarder) read(t *tail) error {
	for !f.full(t.queue) {
		read, err := f.server.agents.EventsOf(t.run, t.cursor, tailRead)
		if err != nil || len(read.List) == 0 {
			return err
		}
		t.cursor = read.Cursor
		f.push(t.queue, read)
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
func (f *forwarder) next() (e AgentEvent, ok bool) {
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
	e = newAgentEvent(q.agent, *first)
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
		drop := q.bytes > maxWaiting && e != last && !aboutApproval(e.Name)
		if drop {
			q.bytes -= sizeOf(e)
			q.dropped++
		}
		return drop
	})
}

// aboutApproval reports whether an event is about something that a person is asked.
func aboutApproval(name string) bool {
	return name == agent.EventTurnInputRequired || strings.HasPrefix(name, "approval_") || strings.HasPrefix(name, "question_") ||
		strings.HasPrefix(name, "request_")
}
