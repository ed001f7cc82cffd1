package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// CodeCursor is the error code of a cursor that belongs to no position of the log.
const CodeCursor = "invalid_argument"

// EventLog is the path of the log of an agent.
func (a *Agents) EventLog(run reconcile.Run) string { return eventlog.Path(a.runners.StateDir, run.ID) }

// EachEvent shows the events of an agent after a cursor, each with its line of the log, until
// show returns false: that event is left for the next call. It returns the cursor before that
// event, and how many events between the two cursors are no longer in the log. An empty cursor
// stands before the oldest event. Error: CodeCursor.
func (a *Agents) EachEvent(
	run reconcile.Run, cursor string, show func(e agent.Event, line []byte) bool,
) (after string, lost int64, err error) {
	next, valid := nextOf(run.ID, cursor)
	newest := int64(0)
	more := true
	err = eventlog.EachLine(a.runners.StateDir, run.ID, func(line []byte) {
		no := numberOf(line)
		newest = max(newest, no)
		var e agent.Event
		// a line that was cut, for instance because the disk was full
		if !more || no < next || json.Unmarshal(line, &e) != nil {
			return
		}
		more = show(e, line)
		if more {
			lost += e.No - next
			next = e.No + 1
		}
	})
	switch {
	case err != nil:
		return "", lost, fmt.Errorf("event log: %w", err)
	case !valid || newest > 0 && next > newest+1:
		return "", lost, reconcile.NewError(
			CodeCursor,
			fmt.Sprintf("cursor %q is none of this agent's events", cursor),
			"use one that read_events has returned for this agent, or none",
		)
	}
	return cursorAt(run.ID, next), lost, nil
}

// cursorAt is the cursor before the event with a number.
func cursorAt(runID string, next int64) string { return fmt.Sprintf("%s.%d", runID, next) }

// nextOf returns the number of the event that follows a cursor.
func nextOf(runID, cursor string) (next int64, valid bool) {
	if cursor == "" {
		return 1, true
	}
	_, err := fmt.Sscanf(strings.TrimPrefix(cursor, runID), ".%d", &next)
	return next, err == nil && next > 0 && cursor == cursorAt(runID, next)
}

// numberOf returns the number of an event from the beginning of its line, 0 for none.
func numberOf(line []byte) int64 {
	text, found := bytes.CutPrefix(line[:min(len(line), 32)], []byte(`{"no":`))
	text, _, ends := bytes.Cut(text, []byte(","))
	n, err := strconv.ParseInt(string(text), 10, 64)
	if !found || !ends || err != nil {
		return 0
	}
	return n
}

// TurnsOf returns a function that finds the call of the turn to which an event belongs, "" for
// an event of none.
func (a *Agents) TurnsOf(ctx context.Context, run reconcile.Run) (func(agent.Event) string, error) {
	calls, err := a.DB.Clients.CallsOf(ctx, run.ID)
	threads := map[string]string{} // by the call that opened it
	for _, c := range calls {
		if c.Verb == reconcile.CallConversation {
			threads[c.ID] = c.ThreadID
		}
	}
	return func(e agent.Event) (id string) {
		if e.TurnID == "" {
			return ""
		}
		var began time.Time
		for _, c := range calls {
			ofThread := c.Verb == reconcile.CallTurn && threads[c.Conversation] == e.ThreadID
			started := !c.StartedAt.IsZero() && !c.StartedAt.After(e.At)
			if ofThread && started && !c.StartedAt.Before(began) {
				id = c.ID
				began = c.StartedAt
			}
		}
		return id
	}, err
}
