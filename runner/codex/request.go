package codex

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/runner/agent"
)

// incoming is a request of codex's. Its event says how it was answered.
type incoming struct {
	*params
	id    json.RawMessage
	event agent.Event
}

// serve takes a request, in the reader, and blocks on nothing. Every request is answered: without an answer the turn would
// wait for ever.
func (s *Session) serve(m *message) {
	p := readParams(m.Params)
	in := &incoming{params: p, id: m.ID, event: agent.Event{ThreadID: p.threadID(), TurnID: p.turnID(), Progress: true, Raw: m.raw}}
	switch m.Method {
	case "item/tool/call":
		s.serveTool(in)
	case "item/commandExecution/requestApproval":
		s.serveApproval(in, commandRequest(p), itemAnswers)
	case "item/fileChange/requestApproval":
		s.serveApproval(in, s.patchRequest(p), itemAnswers)
	case "item/permissions/requestApproval":
		s.serveApproval(in, permissionsRequest(p), permissionAnswers(p.Permissions))
	case "mcpServer/elicitation/request":
		s.serveElicitation(in)
	case "item/tool/requestUserInput":
		s.serveQuestions(in)
	case "currentTime/read":
		s.reply(in, agent.EventNotification, "codex asks for the time", object{"currentTimeAt": time.Now().Unix()})
	default: // unknown, or for clients that keep codex's login
		text := "symphony does not serve " + m.Method
		refusal := object{"id": m.ID, "error": object{"code": codeMethodNotFound, "message": text}}
		s.answer(in, agent.EventRequestRefused, join("refused: "+text, p.Reason), refusal)
	}
}

// reply answers a request with a result. It returns false where the answer can't be sent: the session has ended.
func (s *Session) reply(in *incoming, name, line string, result object) bool {
	return s.answer(in, name, line, object{"id": in.id, "result": result})
}

// answer sends an answer and then emits the event that tells of it.
func (s *Session) answer(in *incoming, name, line string, answer object) bool {
	err := s.conn.send(answer)
	if err != nil {
		line += " (not answered: " + err.Error() + ")"
	}
	s.emitRequest(in, name, line)
	return err == nil
}

// emitRequest emits an event about a request. Only the first one carries the line of the request and counts as progress.
func (s *Session) emitRequest(in *incoming, name, line string) {
	e := in.event
	e.Name, e.Message = name, line
	in.event.Progress, in.event.Raw = false, nil
	s.emit(e)
}

// serveTool answers the call of a tool, which runs beside the reader. A resumed thread may have tools that are not ours.
func (s *Session) serveTool(in *incoming) {
	line := "tool " + in.Tool + " " + string(in.Arguments)
	answer := func(name string, r agent.ToolResult) {
		s.reply(in, name, line, object{"contentItems": []object{{"type": "inputText", "text": r.Text}}, "success": r.Success})
	}
	if s.o.CallTool == nil || !slices.ContainsFunc(s.o.Tools, func(t agent.Tool) bool { return t.Name == in.Tool }) {
		text := fmt.Sprintf(`{"success":false,"error":"unsupported_tool_call","tool":%q}`, in.Tool)
		answer(agent.EventUnsupportedToolCall, agent.ToolResult{Text: text})
		return
	}
	r := s.openRequest(in, false)
	go func() {
		result := s.o.CallTool(r.ctx, in.Tool, in.Arguments)
		name := agent.EventToolCallCompleted
		if !result.Success {
			name = agent.EventToolCallFailed
		}
		s.sawLine(true)
		s.withdraw(r.id)
		answer(name, result)
	}()
}

// judge gives the event and the answer for a person's decision.
type judge func(agent.Decision) (name, line string, answer object)

// askPerson passes a request to a person. The clock of the turn stands still meanwhile.
func (s *Session) askPerson(in *incoming, r agent.Request, asked, line string, judge judge) {
	if s.o.Ask == nil {
		name, line, answer := judge(agent.Decision{Reason: "no operator can be asked"})
		s.reply(in, name, line, answer)
		return
	}
	open := s.openRequest(in, true)
	s.emitRequest(in, asked, line)
	go func() {
		d := s.o.Ask(open.ctx, r)
		over := open.ctx.Err() != nil
		pending := s.withdraw(open.id)
		s.sawLine(true)
		switch {
		case pending && !over:
			name, line, answer := judge(d)
			if s.reply(in, name, line, answer) && d.Sent != nil {
				d.Sent()
			}
			return
		case pending && !s.isOurs(in.event.ThreadID):
			// The turn of a sub-agent may outlive ours, and would wait for ever.
			_, _, answer := judge(agent.Decision{Reason: "the turn has ended"})
			s.reply(in, agent.EventRequestWithdrawn, withdrawnText(&r), answer)
		default:
			s.emitRequest(in, agent.EventRequestWithdrawn, withdrawnText(&r))
		}
	}()
}

// requests are the requests of codex's that are being answered beside the reader, by their ids.
type requests struct {
	mu   sync.Mutex
	open map[string]*request
}

type request struct {
	id     string
	asks   bool // a person
	ctx    context.Context
	cancel context.CancelFunc
}

// openRequest notes a request whose answer takes time. Its context ends with the turn, the request and the session.
func (s *Session) openRequest(in *incoming, asks bool) *request {
	parent := s.life
	if t := s.currentTurn(); t != nil {
		parent = t.ctx
	}
	r := &request{id: string(in.id), asks: asks}
	r.ctx, r.cancel = context.WithCancel(parent)
	s.requests.mu.Lock()
	defer s.requests.mu.Unlock()
	s.open[r.id] = r
	return r
}

// withdraw ends a request that was answered, or that codex settled; false if it has ended before.
func (q *requests) withdraw(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.open[id]
	if r != nil {
		delete(q.open, id)
		r.cancel()
	}
	return r != nil
}

// openRequests counts the open requests, and those of them that a person is asked.
func (q *requests) openRequests() (open, asking int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.open {
		if r.asks {
			asking++
		}
	}
	return len(q.open), asking
}
