package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

const (
	defaultRead = 32 << 10 // bytes of a result of read_events
	maxRead     = 64 << 10 // less than the 25,000 tokens that hosts take
	maxText     = 4 << 10  // bytes of a message in a concise result
	detailFull  = "full"
)

type (
	readEventsIn struct {
		AgentID  string `json:"agentId"`
		Cursor   string `json:"cursor,omitempty" jsonschema:"of the last result; without it from the oldest event on"`
		Detail   string `json:"detail,omitempty" jsonschema:"concise (default): a line each; full: codex's own messages"`
		Last     int    `json:"last,omitempty" jsonschema:"only the last events, so many"`
		MaxBytes int    `json:"maxBytes,omitempty" jsonschema:"about; default 32768, at most 65536"`
	}
	readEventsOut struct {
		AgentID string       `json:"agentId"`
		Events  []agentEvent `json:"events" jsonschema:"oldest first; none if there are none yet"`
		Lost    int64        `json:"lost,omitempty" jsonschema:"how many events before these are no longer kept"`
		More    bool         `json:"more,omitempty" jsonschema:"there are later events: call again with the cursor"`
		Cursor  string       `json:"cursor" jsonschema:"for the next call"`
	}
	// agentEvent is an event of an agent, and the parameters of a notification.
	agentEvent struct {
		AgentID        string    `json:"agentId,omitempty"`
		ConversationID string    `json:"conversationId,omitempty" jsonschema:"a sub-agent of codex has a conversation of its own"`
		TurnID         string    `json:"turnId,omitempty" jsonschema:"as send_user_turn has returned it"`
		No             int64     `json:"no" jsonschema:"of the events of the agent, from 1"`
		At             time.Time `json:"at"`
		Name           string    `json:"name" jsonschema:"of the event; if concise its kind, such as words or command"`
		Message        string    `json:"message,omitempty"`
		Output         []string  `json:"output,omitempty" jsonschema:"the end of what a failed command has printed, or the beginning of a prompt"`
		Event          any       `json:"event,omitempty" jsonschema:"codex's own message, without secrets; a long one is shortened"`
		Dropped        int64     `json:"dropped,omitempty" jsonschema:"how many events before this one the host did not read in time"`
	}
)

// newAgentEvent makes an event whose turn is that of the host.
func newAgentEvent(agentID string, e agent.Event) agentEvent {
	event := agentEvent{
		AgentID: agentID,
		TurnID:  e.TurnID,
		No:      e.No,
		At:      e.At,
		Name:    e.Name,
		Message: e.Message,
	}
	if len(e.Raw) > 0 {
		event.Event = e.Raw
	}
	if e.PID != 0 { // the worker's own events are about the agent
		event.ConversationID = e.ThreadID
	}
	return event
}

// concise returns the event as symphony logs describes it. ok is false if it tells a reader
// nothing.
func concise(r *eventlog.Reader, e agent.Event, stored []byte) (event agentEvent, ok bool) {
	line, ok := r.Read(stored)
	short, left := line.Short()
	event = agentEvent{
		TurnID: e.TurnID,
		No:     e.No,
		At:     e.At,
		Name:   string(line.Kind),
		Output: short.Detail,
	}
	event.Message = line.Mark() + " " + cutText(short.Text, maxText, "see read_events with the detail full")
	if line.Ending != "" {
		event.Message += " (" + line.Ending + ")"
	}
	for i, l := range event.Output {
		event.Output[i] = text.Short(l, maxText/10)
	}
	if left != "" {
		event.Output = append(event.Output, "("+left+")")
	}
	return event, ok && !line.Minor
}

func (e agentEvent) size() (n int) {
	if payload, ok := e.Event.(json.RawMessage); ok {
		n = len(payload)
	}
	for _, l := range e.Output {
		n += len(l)
	}
	return n + len(e.Message) + 200
}

// cutText returns s, or what is within limit bytes of it and how to get the rest.
func cutText(s string, limit int, how string) string {
	kept := text.Within(s, limit)
	if cut := len(s) - len(kept); cut > 0 {
		kept += fmt.Sprintf("… (%d bytes more: %s)", cut, how)
	}
	return kept
}

// addEventTools registers the tool that reads events.
func addEventTools(t *tools, c caller) {
	addTool(
		t,
		"read_events",
		reads(),
		c.readEvents,
		"Read what an agent has done, event by event. Use it to follow a turn, or to find out why it failed. Do not use it "+
			"to wait: wait_agent does, and has the last message.",
	)
}

func (c caller) readEvents(ctx context.Context, in readEventsIn) (readEventsOut, error) {
	out := readEventsOut{AgentID: in.AgentID, Events: []agentEvent{}, Cursor: in.Cursor}
	if in.Detail != "" && in.Detail != "concise" && in.Detail != detailFull || in.Last < 0 {
		return out, reconcile.NewError(
			agents.CodeInvalid,
			fmt.Sprintf("unknown detail %q, or last is negative", in.Detail),
			"use concise or full",
		)
	}
	one, err := c.agents.Find(ctx, in.AgentID)
	if err != nil {
		return out, err
	}
	turnOf, err := c.agents.TurnsOf(ctx, one.Run)
	if err != nil {
		return out, err
	}
	limit := min(cmp.Or(max(0, in.MaxBytes), defaultRead), maxRead)
	size := 0
	reader := &eventlog.Reader{Workspace: one.WorkspacePath}
	out.Cursor, out.Lost, err = c.agents.EachEvent(one.Run, in.Cursor, func(e agent.Event, line []byte) bool {
		e.TurnID = turnOf(e)
		event := newAgentEvent(in.AgentID, e)
		shown := true
		if in.Detail != detailFull {
			event, shown = concise(reader, e, line)
		}
		if !shown {
			return true
		}
		if out.More = in.Last == 0 && len(out.Events) > 0 && size+event.size() > limit; out.More {
			return false
		}
		out.Events = append(out.Events, event)
		size = size + event.size()
		for in.Last > 0 && len(out.Events) > 1 && (len(out.Events) > in.Last || size >= limit) {
			size -= out.Events[0].size()
			out.Events = slices.Delete(out.Events, 0, 1)
		}
		return true
	})
	return out, err
}
