package codex

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"
)

// oldMethods begin the notifications of versions before thread/start: their params hold {msg: {type, …}, conversationId}.
// Versions in between sent them beside today's.
const oldMethods = "codex/event/"

// oldMessage are the members of msg that the session reads, after camelKeys.
type oldMessage struct {
	Type    string `json:"type"`
	TurnID  string `json:"turnId"`
	CallID  string `json:"callId"`
	Message string `json:"message"`
	Text    string `json:"text"`
	Delta   string `json:"delta"`
	Reason  string `json:"reason"`
	Summary string `json:"summary"`
	Details string `json:"details"`

	LastAgentMessage  string          `json:"lastAgentMessage"`
	CodexErrorInfo    json.RawMessage `json:"codexErrorInfo"`
	AdditionalDetails string          `json:"additionalDetails"`
	RateLimits        json.RawMessage `json:"rateLimits"`

	Command    json.RawMessage `json:"command"`
	ExitCode   *int            `json:"exitCode"`
	Success    *bool           `json:"success"`
	Changes    json.RawMessage `json:"changes"` // by path
	Invocation struct {
		Server string `json:"server"`
		Tool   string `json:"tool"`
	} `json:"invocation"`
	Server string `json:"server"`
	Status struct {
		State json.RawMessage `json:"state"`
		Error string          `json:"error"`
	} `json:"status"`
	Query       string     `json:"query"`
	Explanation string     `json:"explanation"`
	Plan        []wireStep `json:"plan"`
	Diff        string     `json:"unifiedDiff"`
}

// modern reads the params of codex/event/NAME as if today's codex had sent them, and gives the method it would have
// used. What has no counterpart keeps its own.
func (p *params) modern(name string) (method string) {
	var m oldMessage
	// A member of another type is left empty, as in params.read.
	_ = json.Unmarshal(p.Msg, &m)
	p.TurnIDNow = cmp.Or(p.TurnIDNow, m.TurnID)
	p.Message, p.Reason, p.Summary, p.Details, p.Delta = m.Message, m.Reason, m.Summary, m.Details, m.Delta
	name = cmp.Or(m.Type, name)
	if method := p.modernItem(name, &m); method != "" {
		return method
	}
	switch name {
	case "agent_message_delta", "agent_message_content_delta":
		return "item/agentMessage/delta"
	case "agent_reasoning_delta", "reasoning_content_delta":
		return "item/reasoning/summaryTextDelta"
	case "exec_command_output_delta":
		return "item/commandExecution/outputDelta"
	case "token_count":
		p.RateLimits = m.RateLimits
		return "thread/tokenUsage/updated"
	case "turn_diff":
		p.Diff = m.Diff
		return "turn/diff/updated"
	case "plan_update":
		p.Explanation, p.Plan = m.Explanation, m.Plan
		return "turn/plan/updated"
	case "task_started", "turn_started":
		return "turn/started"
	case "error", "stream_error":
		p.Error = &turnError{Message: m.Message, Info: m.CodexErrorInfo, AdditionalDetails: m.AdditionalDetails}
		p.WillRetry = name == "stream_error"
		return "error"
	case "task_complete", "turn_complete":
		p.Turn.Items = []wireItem{{Type: itemAgentMessage, Text: m.LastAgentMessage}}
		return "turn/completed"
	case "turn_aborted":
		return "turn/cancelled"
	case "mcp_startup_update":
		p.Name, p.Status = m.Server, m.Status.State
		if m.Status.Error != "" {
			p.Error = &turnError{Message: m.Status.Error}
		}
		return "mcpServer/startupStatus/updated"
	case "warning":
		return "warning"
	case "deprecation_notice":
		return "deprecationNotice"
	}
	return oldMethods + name
}

// modernItem reads what was no item then; "" for anything else.
func (p *params) modernItem(name string, m *oldMessage) (method string) {
	begun, begins := strings.CutSuffix(name, "_begin")
	ended, ends := strings.CutSuffix(name, "_end")
	method = "item/completed"
	if begins {
		method = "item/started"
	}
	i := wireItem{ID: m.CallID, ExitCode: m.ExitCode}
	if m.Success != nil && !*m.Success {
		i.Status = statusFailed
	}
	switch {
	case name == "agent_message":
		i.Type, i.Text = itemAgentMessage, m.Message
	case name == "agent_reasoning":
		i.Type, i.Summary = "reasoning", []string{m.Text}
	case begins && begun == "exec_command", ends && ended == "exec_command":
		i.Type, i.Command = itemCommand, commandText(m.Command)
	case begins && begun == "patch_apply", ends && ended == "patch_apply":
		i.Type = itemFileChange
		for _, c := range oldChanges(m.Changes) {
			i.Changes = append(i.Changes, wireChange{Path: c.Path, Kind: wireKind{Type: c.Kind}, Diff: c.Diff})
		}
	case begins && begun == "mcp_tool_call", ends && ended == "mcp_tool_call":
		i.Type, i.Server, i.Tool = "mcpToolCall", m.Invocation.Server, m.Invocation.Tool
	case begins && begun == "web_search", ends && ended == "web_search":
		i.Type, i.Query = "webSearch", m.Query
	default:
		return ""
	}
	p.Item = i
	return method
}

// oldEnd is an end of the turn that another version has told.
type oldEnd struct {
	timer *time.Timer
	end   turnEnd
	event Event
}

// oldEndGrace is how long turn/completed is waited for after it: versions that send both send it next, and it knows
// more.
const oldEndGrace = time.Second

// noticeOldEnd ends the turn under way, unless turn/completed does so soon.
func (s *Session) noticeOldEnd(method string, p *params, e Event) {
	s.emit(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.turn
	if t == nil || !t.isKnown || t.old != nil || !s.isEndOf(t, p) {
		return
	}
	t.keepLast(p)
	end := endOf(method, p)
	if end.status == statusCompleted && t.lastError != nil && t.lastFinal {
		// A turn that failed was complete all the same.
		end = turnEnd{status: statusFailed, err: t.lastError}
	}
	e.Raw, e.Progress = nil, false
	e.Name, e.Message = endName(end.status), oneLine(describeEnd(end), messageLength)
	t.old = &oldEnd{end: end, event: e}
	t.old.timer = time.AfterFunc(oldEndGrace, func() { s.endByOld(t) })
}

// endByOld ends a turn by its oldEnd, if it has one and nothing else has ended it.
func (s *Session) endByOld(t *turn) {
	s.mu.Lock()
	if s.turn != t || t.old == nil || t.ending {
		s.mu.Unlock()
		return
	}
	t.ending = true
	s.mu.Unlock()
	s.emit(t.old.event) // before whoever waits for the turn goes on
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == t {
		s.finish(t, t.old.end)
	}
}

func (o *oldEnd) stop() {
	if o != nil {
		o.timer.Stop()
	}
}
