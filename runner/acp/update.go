package acp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/wire"
)

// rawLength is the longest line that an event repeats, in bytes.
const rawLength = 64 << 10

// short returns a copy of a line if an event may repeat it, else nil.
func short(raw json.RawMessage) json.RawMessage {
	if len(raw) > rawLength {
		return nil
	}
	return bytes.Clone(raw)
}

// notice handles a notification. The reader calls it.
func (s *Session) notice(m *wire.Message) {
	routine := agent.Event{Name: agent.EventNotification, Message: m.Method, Routine: true, Raw: short(m.Raw)}
	switch m.Method {
	case "session/update":
		s.update(wire.Read[updated](m.Params), m.Raw)
	case "$/cancel_request":
		s.withdrawn(wire.Read[cancelAsked](m.Params).RequestID)
	case "_auth/status_update":
		status := wire.Read[authStatus](m.Params).AuthStatus
		s.mu.Lock()
		s.login = agent.Login{Account: status.Label, Needed: status.Kind == "none"}
		if s.login.Needed {
			s.login.Account = ""
		}
		s.mu.Unlock()
		routine.Message = "login: " + status.Label
		s.emit(routine)
	default:
		s.emit(routine)
	}
}

// turnUpdates are the updates that show that a turn has started. Others, such as the title of
// the session, may still be about the turn before.
var turnUpdates = []string{
	"agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan", "usage_update",
}

// update handles a session/update. Updates of other sessions, and the replay of an earlier
// conversation, are signs of life and nothing else.
func (s *Session) update(u *updated, raw json.RawMessage) {
	if !s.isOurs(u) {
		s.heard()
		return
	}
	s.progressed()
	t := s.current()
	if t != nil && slices.Contains(turnUpdates, u.Update.SessionUpdate) {
		s.sawStart(t)
	}
	event := agent.Event{Name: agent.EventNotification, Routine: true, Raw: short(raw)}
	event.Message = strings.ReplaceAll(cmp.Or(u.Update.SessionUpdate, "an update"), "_", " ")
	switch u.Update.SessionUpdate {
	case "agent_message_chunk":
		s.sawChunk(t, u, agent.ItemMessage, event)
		return
	case "agent_thought_chunk":
		s.sawChunk(t, u, agent.ItemReasoning, event)
		return
	case "tool_call", "tool_call_update":
		if t != nil {
			s.endChunks(t)
			s.tellCall(t, &u.Update.toolCall, raw)
			return
		}
	case "plan":
		entry := func(e struct{ Content, Status string }) string { return e.Status + ": " + e.Content }
		event.Message = wire.Join("plan", strings.Join(text.Map(u.Update.Entries, entry), "; "))
	case "current_mode_update":
		s.sawSetting(t, categoryMode, u.Update.CurrentModeID)
	case "config_option_update":
		s.sawOptions(t, u.Update.ConfigOptions)
	case "usage_update":
		s.sawCost(u.Update.Cost)
		s.usesModel(u.Update.Meta.Model)
	}
	s.emit(event)
}

// isOurs reports whether an update belongs to the session, and is no replay.
func (s *Session) isOurs(u *updated) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id != "" && u.SessionID == s.id && !s.loading
}

// modeUpdate is the beginning of a message in which Gemini names its new mode.
const modeUpdate = "[MODE_UPDATE] "

// sawChunk handles a piece of a message or a thought. Pieces belong together by the message's
// id, or follow each other.
func (s *Session) sawChunk(t *turn, u *updated, kind agent.ItemKind, event agent.Event) {
	piece := u.chunk()
	if mode, is := strings.CutPrefix(piece, modeUpdate); is {
		s.sawSetting(t, categoryMode, strings.TrimSpace(mode))
		event.Message = "mode " + mode
		s.emit(event)
		return
	}
	if notice := u.Update.Meta.ClaudeCode.Kind; notice != "" || t == nil {
		// not the model's words
		event.Message = wire.Join(notice, piece)
		event.Routine = false
		s.emit(event)
		return
	}
	if t.said.kind != kind || t.said.id != u.Update.MessageID {
		s.endChunks(t)
	}
	// only the reader uses them
	t.said.kind = kind
	t.said.id = u.Update.MessageID
	if t.said.text.Len() < maxBody {
		t.said.text.WriteString(cut(piece))
	}
	event.Fragment = true
	event.Routine = false
	event.Message = piece
	s.emit(event)
}

// endChunks tells the message or the thought that was being said.
func (s *Session) endChunks(t *turn) {
	said := strings.TrimSpace(t.said.text.String())
	item := agent.Item{ID: t.said.id, Kind: t.said.kind, Ended: true, Text: said}
	t.said = chunks{}
	if said == "" {
		return
	}
	message := text.FirstLine(said)
	if item.Kind == agent.ItemMessage {
		s.mu.Lock()
		t.lastText = said
		s.mu.Unlock()
	} else {
		message = "reasoning: " + message
	}
	s.emit(agent.Event{Name: agent.EventNotification, Message: message, Item: &item})
}

// mostCalls is how many calls of a turn are remembered until they end, and mostOfCalls how many
// bytes of them: they are in the memory of the worker, which no sandbox limits. Of a further one
// the client knows only what each update says.
const (
	mostCalls   = 1000
	mostOfCalls = 16 << 20
)

// sawCall adds an update to a call and returns it. The first sign of a call may be an update
// or a permission.
func (s *Session) sawCall(t *turn, u *toolCall) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := t.calls[u.ToolCallID]
	if c == nil {
		c = &call{}
	}
	delete(t.calls, u.ToolCallID)
	t.ofCalls -= c.size()
	c.merge(s.kind, u)
	if c.item.Ended || len(t.calls) >= mostCalls || t.ofCalls+c.size() > mostOfCalls {
		return c
	}
	t.calls[u.ToolCallID] = c
	t.ofCalls += c.size()
	return c
}

// tellCall handles an update of a call, and tells its start and its end.
func (s *Session) tellCall(t *turn, u *toolCall, raw json.RawMessage) {
	c := s.sawCall(t, u)
	if c.isKnown(u) {
		s.tellStart(c, u)
	}
	if c.item.Ended {
		item := c.item
		s.emit(agent.Event{Name: agent.EventNotification, Message: c.line(true), Item: &item, Raw: short(raw)})
	}
}

// tellStart tells the start of a call, once.
func (s *Session) tellStart(c *call, u *toolCall) {
	if c.started {
		return
	}
	c.started = true
	item := c.start()
	if item.Kind == agent.ItemTool {
		item.Call = cmp.Or(wire.Short(s.o.Summary(item.Tool, u.RawInput), summaryLength), item.Call)
	}
	s.emit(agent.Event{Name: agent.EventNotification, Message: c.line(false), Item: &item})
}
