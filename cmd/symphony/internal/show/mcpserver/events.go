package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/mcpserver/calls"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

const (
	mostRead   = 32 << 10     // bytes of a result of read_events
	maxText    = 4 << 10      // bytes of a message in a concise result
	maxLine    = maxText / 10 // bytes of a line of output in a concise result
	detailFull = "full"
)

type readEventsIn struct {
	AgentID string `json:"agentId"`
	Cursor  string `json:"cursor,omitempty" jsonschema:"of the last result; without it from the oldest event on"`
	Detail  string `json:"detail,omitempty" jsonschema:"concise (default): a line each; full: the agent's own messages"`
	Last    int    `json:"last,omitempty" jsonschema:"only the last events, so many"`
}

type readEventsOut struct {
	AgentID string       `json:"agentId"`
	Events  []agentEvent `json:"events" jsonschema:"oldest first; none if there are none yet"`
	Lost    int64        `json:"lost,omitempty" jsonschema:"how many events before these are no longer kept"`
	More    bool         `json:"more,omitempty" jsonschema:"there are later events: call again with the cursor"`
	Cursor  string       `json:"cursor" jsonschema:"for the next call"`
}

// agentEvent is an event of an agent, and the parameters of a notification.
type agentEvent struct {
	AgentID string `json:"agentId,omitempty"`

	ConversationID string `json:"conversationId,omitempty" jsonschema:"a sub-agent has one of its own"`

	TurnID  string    `json:"turnId,omitempty" jsonschema:"as send_user_turn has returned it"`
	No      int64     `json:"no" jsonschema:"of the events of the agent, from 1"`
	At      time.Time `json:"at"`
	Name    string    `json:"name" jsonschema:"of the event; if concise its kind, such as words or command"`
	Message string    `json:"message,omitempty"`

	Output []string `json:"output,omitempty" jsonschema:"what a failed command printed last, or how a prompt begins"`

	Event any `json:"event,omitempty" jsonschema:"the agent's own message, without secrets; a long one is shortened"`

	Dropped int64 `json:"dropped,omitempty" jsonschema:"how many events before this one the host did not read in time"`
}

// newAgentEvent makes an event. Its turn gets the id that the host knows.
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

// newConciseEvent returns the event as symphony logs describes it. ok is false if it tells a
// reader nothing.
func newConciseEvent(r *eventlog.Reader, e agent.Event, stored []byte) (event agentEvent, ok bool) {
	line, ok := r.Read(stored)
	if !ok || line.Minor {
		return agentEvent{}, false
	}
	short, left := line.Short()
	event = agentEvent{
		TurnID:  e.TurnID,
		No:      e.No,
		At:      e.At,
		Name:    string(line.Kind),
		Message: line.Mark() + " " + cutText(short.Text, maxText, seeFull),
	}
	if line.Ending != "" {
		event.Message += " (" + line.Ending + ")"
	}
	for _, l := range short.Detail {
		event.Output = append(event.Output, text.Short(l, maxLine))
	}
	if left != "" {
		event.Output = append(event.Output, "("+left+")")
	}
	return event, true
}

// limit replaces the agent's own message by the beginning of its text if no result could contain
// it.
func (e *agentEvent) limit() {
	payload, ok := e.Event.(json.RawMessage)
	if !ok || calls.SizeOf(e) <= mostRead {
		return
	}
	e.Event = cutText(string(payload), mostRead/2, "see read_events with the detail concise")
}

// addEventTool registers the tool that reads events.
func addEventTool(t *calls.Tools, all *agents.Agents) {
	calls.Add(t, calls.Tool{
		Name:        "read_events",
		Effect:      calls.Reads,
		Description: "Read what an agent has done, event by event, to follow a turn or to find out why it failed.",
	}, func(ctx context.Context, in readEventsIn) (readEventsOut, error) {
		return readEvents(ctx, all, in)
	})
}

func readEvents(ctx context.Context, all *agents.Agents, in readEventsIn) (readEventsOut, error) {
	out := readEventsOut{AgentID: in.AgentID, Events: []agentEvent{}, Cursor: in.Cursor}
	if in.Detail != "" && in.Detail != "concise" && in.Detail != detailFull {
		return out, reconcile.NewError(
			agents.CodeInvalid,
			fmt.Sprintf("unknown detail %q", in.Detail),
			"use concise or full",
		)
	}
	if in.Last < 0 {
		return out, reconcile.NewError(
			agents.CodeInvalid,
			fmt.Sprintf("last is %d, which is negative", in.Last),
			"say how many of the last events you want, such as 20",
		)
	}
	one, err := all.Find(ctx, in.AgentID)
	if err != nil {
		return out, err
	}
	turnOf, err := all.TurnsOf(ctx, one.Run)
	if err != nil {
		return out, err
	}
	used := 0 // bytes
	reader := &eventlog.Reader{Workspace: one.WorkspacePath}
	// take adds an event to the result, and reports whether another event may follow.
	take := func(e agent.Event, line []byte) bool {
		e.TurnID = turnOf(e)
		event := newAgentEvent(in.AgentID, e)
		if in.Detail != detailFull {
			concise, ok := newConciseEvent(reader, e, line)
			if !ok {
				return true
			}
			event = concise
		}
		event.limit()
		with := used + calls.SizeOf(event)
		if in.Last == 0 && len(out.Events) > 0 && with > mostRead {
			out.More = true
			return false
		}
		out.Events = append(out.Events, event)
		used = with
		for in.Last > 0 && len(out.Events) > 1 && (len(out.Events) > in.Last || used > mostRead) {
			used -= calls.SizeOf(out.Events[0])
			out.Events = slices.Delete(out.Events, 0, 1)
		}
		return true
	}
	out.Cursor, out.Lost, err = all.EachEvent(one.Run, in.Cursor, take)
	return out, err
}
