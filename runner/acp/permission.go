package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/wire"
)

const (
	summaryLength = 500      // characters of a summary
	filesLength   = 16 << 10 // characters of the names of files in a summary

	// Requests that wait are in the memory of the worker, which no sandbox limits.
	mostRequests   = 32      // that wait at once
	longestRequest = 1 << 20 // bytes of one that waits
	mostDenied     = 20      // that the next prompt names
)

// request is a request of the agent that waits for an operator.
type request struct {
	id     json.RawMessage
	ctx    context.Context // ends with the turn, the request or the session
	cancel context.CancelFunc
	what   agent.Request
}

// refuse answers a request that is not supported. All agents go on then.
func (s *Session) refuse(m *wire.Message) {
	said := "symphony does not support " + wire.Short(m.Method, wire.MessageLength)
	s.reply(m.ID, wire.Object{"error": wire.Object{"code": wire.MethodNotFound, "message": said}}, nil)
	s.emit(agent.Event{Name: agent.EventRequestRefused, Message: "refused: " + said, Raw: short(m.Raw)})
}

// reply answers a request.
func (s *Session) reply(id json.RawMessage, answer wire.Object, sent func()) {
	answer["id"] = id
	_ = s.conn.Send(answer, sent) // a connection that ended ends the turn, too
}

// choose answers a permission with the option of one of these kinds, the first that is
// offered. Without any of them the request counts as cancelled: never another option, which
// may mean the opposite.
func (s *Session) choose(id json.RawMessage, options []permissionOption, sent func(), kinds ...string) bool {
	outcome := wire.Object{"outcome": "cancelled"}
	option, isOffered := offered(options, kinds)
	if isOffered {
		outcome = wire.Object{"outcome": "selected", "optionId": option}
	}
	s.reply(id, wire.Object{"result": wire.Object{"outcome": outcome}}, sent)
	return isOffered
}

// offered returns the id of the first option of the first kind that is offered.
func offered(options []permissionOption, kinds []string) (id string, found bool) {
	for _, kind := range kinds {
		at := slices.IndexFunc(options, func(o permissionOption) bool { return o.Kind == kind })
		if at >= 0 {
			return options[at].OptionID, true
		}
	}
	return "", false
}

// servePermission answers session/request_permission according to the policy, or passes it to
// an operator. The reader calls it.
func (s *Session) servePermission(m *wire.Message) {
	p := wire.Read[permissionAsked](m.Params)
	t := s.current()
	if t == nil || p.SessionID != s.ThreadID() || t.cancelled.Load() {
		s.choose(m.ID, nil, nil)
		s.emit(agent.Event{Name: agent.EventRequestWithdrawn, Message: "a permission without a turn: " + p.ToolCall.Title})
		return
	}
	if first := s.finish(m.ID); first != nil { // an answer to one would be taken for both
		s.tellWithdrawn(first)
		s.choose(m.ID, nil, nil)
		said := "a second permission with the id " + string(m.ID) + ": both are cancelled"
		s.emit(agent.Event{Name: agent.EventRequestWithdrawn, Message: said})
		return
	}
	s.sawStart(t)
	s.endChunks(t)
	c := s.sawCall(t, &p.ToolCall)
	s.tellStart(c, &p.ToolCall) // Gemini's first word about a call
	what := s.asRequest(&p.ToolCall, c)
	line := "approve " + what.Summary
	event := func(name, line string) {
		s.emit(agent.Event{Name: name, Message: line, Raw: short(m.Raw)})
	}
	switch {
	case c.server == toolsName && !s.kind.tool.isTitle: // symphony's own, which decide themselves
		s.choose(m.ID, p.Options, nil, allowOnce)
		return
	case s.o.OnApproval == agent.ApprovalApprove:
		event(agent.EventApprovalAutoApproved, s.allowed(m.ID, p.Options, line, nil))
	case s.o.OnApproval == agent.ApprovalDeny:
		s.choose(m.ID, p.Options, nil, rejectOnce, rejectAlways)
		s.sawDenial(t, what, "")
		event(agent.EventApprovalDenied, line)
	case s.o.OnApproval == agent.ApprovalAsk && s.o.Ask != nil:
		s.ask(t, m, p.Options, what)
	default:
		s.choose(m.ID, p.Options, nil, rejectOnce, rejectAlways)
		event(agent.EventApprovalRequired, line)
		s.fail(t, agent.CodeApprovalRequired, "the agent asks for approval: "+line)
	}
}

// allowed allows a request once, and returns the line for its event: symphony remembers what
// is allowed for a session, because the agent would write it into its own settings.
func (s *Session) allowed(id json.RawMessage, options []permissionOption, line string, sent func()) string {
	if s.choose(id, options, sent, allowOnce) {
		return line
	}
	return line + " (not allowed: the agent does not offer to allow it once)"
}

// asRequest returns the request for an operator. A permission allows all that the call does:
// without a sandbox of symphony's own that is outside of any.
func (s *Session) asRequest(asked *toolCall, c *call) agent.Request {
	r := agent.Request{
		Kind:           agent.RequestPermissions,
		ThreadID:       s.ThreadID(),
		ItemID:         asked.ToolCallID,
		Cwd:            cmp.Or(c.item.Cwd, s.workplace()),
		OutsideSandbox: s.o.ToolsInside == "",
	}
	switch c.item.Kind {
	case agent.ItemCommand:
		r.Kind = agent.RequestCommand
		r.Command = cmp.Or(c.item.Command, c.title)
		r.Summary = wire.Short(cmp.Or(r.Command, "a command that the agent did not name"), summaryLength)
	case agent.ItemFileChange:
		r.Kind = agent.RequestFileChange
		r.Changes = c.item.Changes
		names := text.Map(r.Changes, func(c agent.FileChange) string { return c.Kind + " " + c.Path })
		r.Summary = wire.Short(cmp.Or(strings.Join(names, ", "), c.title, "files that the agent did not name"), filesLength)
	default:
		r.Server = c.server
		r.Permissions = asked.RawInput
		what := cmp.Or(c.title, c.kind)
		if len(asked.RawInput) <= longestRequest { // no operator is asked about more
			what = wire.Join(what, string(asked.RawInput))
		}
		r.Summary = wire.Short(cmp.Or(what, "something that the agent did not name"), len(what)+filesLength)
	}
	return r
}

// ask passes a permission to an operator, unless an operator approved the same for the session
// before. The clock of the turn is paused until then.
func (s *Session) ask(t *turn, m *wire.Message, options []permissionOption, what agent.Request) {
	line := wire.Join(string(what.Kind), what.Summary)
	event := func(name, line string) {
		s.emit(agent.Event{Name: name, Message: line, Raw: short(m.Raw)})
	}
	if len(m.Raw) > longestRequest || s.waiting() >= mostRequests {
		s.choose(m.ID, nil, nil)
		said := "cancelled, because it is too long, or too many wait: " + wire.Short(line, summaryLength)
		event(agent.EventRequestWithdrawn, said)
		return
	}
	key := string(text.JSON([]any{what.Kind, what.Command, what.Cwd, what.Summary, what.Permissions}))
	if _, granted := s.granted.Load(key); granted {
		event(agent.EventApprovalGranted, s.allowed(m.ID, options, "approved for the session before: "+line, nil))
		return
	}
	r := s.begin(t, m.ID, what)
	if r == nil {
		s.choose(m.ID, nil, nil)
		event(agent.EventRequestWithdrawn, "withdrawn before a decision: "+line)
		return
	}
	event(agent.EventApprovalRequested, "approve "+line)
	go func() {
		decision := s.o.Ask(r.ctx, what)
		cancelled := r.ctx.Err() != nil // the turn or the session ended
		if s.finish(r.id) == nil {
			return // it was withdrawn, and that was told
		}
		by := ""
		if decision.By != "" {
			by = " by " + decision.By
		}
		switch {
		case cancelled:
			s.choose(m.ID, nil, nil)
			s.tellWithdrawn(r)
		case decision.Expired:
			s.choose(m.ID, options, decision.Sent, rejectOnce, rejectAlways)
			s.sawDenial(t, what, "no operator has answered in time")
			event(agent.EventRequestExpired, "no decision in time, denied: "+line)
		case !decision.Approve:
			s.choose(m.ID, options, decision.Sent, rejectOnce, rejectAlways)
			s.sawDenial(t, what, decision.Reason)
			event(agent.EventApprovalDenied, wire.Join("denied"+by+": "+line, decision.Reason))
		default:
			if decision.ForSession {
				s.granted.Store(key, true)
				by += " for the session"
			}
			event(agent.EventApprovalGranted, s.allowed(m.ID, options, "approved"+by+": "+line, decision.Sent))
		}
	}()
}

// begin records a request that waits for an operator. It returns nil if the turn was cancelled
// meanwhile: then nobody would withdraw the request.
func (s *Session) begin(t *turn, id json.RawMessage, what agent.Request) *request {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.cancelled.Load() {
		return nil
	}
	r := &request{id: id, what: what}
	r.ctx, r.cancel = context.WithCancel(t.ctx)
	s.open[string(id)] = r
	return r
}

// waiting returns the number of requests that wait for an operator.
func (s *Session) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// finish ends a request and returns it, nil if it had already ended.
func (s *Session) finish(id json.RawMessage) *request {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.open[string(id)]
	if r == nil {
		return nil
	}
	if s.turn != nil {
		s.turn.SawProgress()
	}
	delete(s.open, string(id))
	r.cancel()
	return r
}

// withdraw ends all requests and answers them as cancelled: without an answer Gemini never
// ends its turn.
func (s *Session) withdraw() {
	s.mu.Lock()
	open := slices.Collect(maps.Values(s.open))
	s.mu.Unlock()
	for _, r := range open {
		if s.finish(r.id) != nil {
			s.choose(r.id, nil, nil)
			s.tellWithdrawn(r)
		}
	}
}

// withdrawn ends a request that the agent took back: it expects no answer.
func (s *Session) withdrawn(id json.RawMessage) {
	if r := s.finish(id); r != nil {
		s.tellWithdrawn(r)
	}
}

func (s *Session) tellWithdrawn(r *request) {
	said := "withdrawn before a decision: " + wire.Join(string(r.what.Kind), r.what.Summary)
	s.emit(agent.Event{Name: agent.EventRequestWithdrawn, Message: said})
}

// sawDenial notes what the agent is told in its next turn: an answer has no reason, and some
// agents end their turn at a denial without asking the model again.
func (s *Session) sawDenial(t *turn, what agent.Request, reason string) {
	if reason == "" && !s.kind.endsAtReject {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(t.denied) == mostDenied {
		return
	}
	t.denied = append(t.denied, wire.Join("Denied: "+wire.Short(what.Summary, summaryLength), reason))
}
