package mcpserver

import (
	"context"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/internal/text"
)

const (
	defaultRead = 32 << 10 // bytes of the log in a result of read_events
	maxRead     = 1 << 20
)

type (
	readEventsIn struct {
		AgentID  string `json:"agentId"`
		Cursor   string `json:"cursor,omitempty" jsonschema:"the cursor of the last result; without it the oldest events that are kept"`
		MaxBytes int    `json:"maxBytes,omitempty" jsonschema:"about how many bytes; default 32768, at most 1048576; at least one event"`
	}
	readEventsOut struct {
		AgentID string       `json:"agentId"`
		Events  []agentEvent `json:"events" jsonschema:"oldest first; none if there are none yet"`
		Lost    int64        `json:"lost,omitempty" jsonschema:"how many events before these are no longer kept"`
		Cursor  string       `json:"cursor" jsonschema:"for the next call"`
	}
	// agentEvent is an event of an agent, and the parameters of a notification.
	agentEvent struct {
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

func newAgentEvent(agentID string, e agents.Event) agentEvent {
	event := agentEvent{AgentID: agentID, TurnID: e.TurnID, No: e.No, At: e.At, Name: e.Name, Message: e.Message}
	if len(e.Payload) > 0 {
		event.Event = e.Payload
	}
	if e.PID != 0 { // the worker's own events are about the agent
		event.ConversationID = e.ThreadID
	}
	return event
}

// addEventTools registers the tool that reads events.
func addEventTools(t *tools, a *agents.Agents) {
	addTool(t, "read_events", reads(), func(ctx context.Context, in readEventsIn) (readEventsOut, error) {
		limit := in.MaxBytes
		if limit <= 0 {
			limit = defaultRead
		}
		one, err := a.Find(ctx, in.AgentID)
		if err != nil {
			return readEventsOut{}, err
		}
		read, err := a.EventsOf(one.Run, in.Cursor, min(limit, maxRead))
		events := text.Map(read.List, func(e agents.Event) agentEvent { return newAgentEvent(in.AgentID, e) })
		return readEventsOut{AgentID: in.AgentID, Events: events, Lost: read.Lost, Cursor: read.Cursor}, err
	}, "Read what an agent has done, event by event, from a cursor on. A streamed message is one event, not its pieces.")
}
