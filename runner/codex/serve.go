package codex

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/runner/agent"
)

// incoming is a request of codex's. Its event says how it was answered.
type incoming struct {
	*params
	id     json.RawMessage
	method string
	event  agent.Event
}

// serve takes a request, in the reader, and blocks on nothing. Every request is answered: without an answer the turn would
// wait for ever.
func (s *Session) serve(m *message) {
	p := readParams(m.Params)
	in := &incoming{params: p, id: m.ID, method: m.Method, event: agent.Event{
		ThreadID: p.threadID(), TurnID: p.turnID(), Message: oneLine(requestText(m.Method, p), messageLength), Progress: true, Raw: m.raw,
	}}
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
		s.reply(in, agent.EventNotification, in.event.Message, object{"currentTimeAt": time.Now().Unix()})
	default: // unknown, or for clients that keep codex's login
		s.answer(in, agent.EventRequestRefused, in.event.Message,
			object{"id": in.id, "error": object{"code": codeMethodNotFound, "message": "symphony does not serve " + oneLine(m.Method, 80)}})
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
	e.Name, e.Message = name, oneLine(line, messageLength)
	in.event.Progress, in.event.Raw = false, nil
	s.emit(e)
}

// serveTool answers the call of a tool. The call runs beside the reader.
func (s *Session) serveTool(in *incoming) {
	if s.o.CallTool == nil || !s.offers(in.Tool) {
		text := fmt.Sprintf(`{"success":false,"error":"unsupported_tool_call","tool":%q}`, in.Tool)
		s.reply(in, agent.EventUnsupportedToolCall, in.event.Message, toolAnswer(agent.ToolResult{Text: text}))
		return
	}
	r := s.openRequest(in, false)
	go func() {
		defer r.cancel()
		result := s.o.CallTool(r.ctx, in.Tool, in.Arguments)
		name := agent.EventToolCallCompleted
		if !result.Success {
			name = agent.EventToolCallFailed
		}
		s.sawLine(true)
		if s.requests.close(r) == replaced { // the answer would be that of the later call
			s.emitRequest(in, name, in.event.Message+" (not answered: codex has asked anew)")
			return
		}
		s.reply(in, name, in.event.Message, toolAnswer(result))
	}()
}

func toolAnswer(r agent.ToolResult) object {
	return object{"contentItems": []object{{"type": "inputText", "text": r.Text}}, "success": r.Success}
}

// offers reports whether a tool is one of ours. A resumed thread may have others.
func (s *Session) offers(name string) bool {
	for _, t := range s.o.Tools {
		if t.Name == name {
			return true
		}
	}
	return false
}

// judge gives the event and the answer for a person's decision.
type judge func(agent.Decision) (name, line string, answer object)

// askPerson passes a request to a person. The clock of the turn stands still meanwhile.
func (s *Session) askPerson(in *incoming, r agent.Request, asked, line string, judge judge) {
	decide := func(d agent.Decision) {
		name, line, answer := judge(d)
		if s.reply(in, name, line, answer) && d.Sent != nil {
			d.Sent()
		}
	}
	if s.o.Ask == nil {
		decide(agent.Decision{Reason: "no operator can be asked"})
		return
	}
	open := s.openRequest(in, true)
	start := func() {}
	if t := s.currentTurn(); t != nil { // otherwise the next turn finds the open request
		start = t.clock.stop(open.ctx)
	}
	s.emitRequest(in, asked, line)
	go func() {
		defer open.cancel()
		d := s.o.Ask(open.ctx, r)
		over := open.ctx.Err() != nil
		pending := s.requests.close(open) == pending
		start()
		switch {
		case pending && !over:
			decide(d)
		case pending && !s.isOurs(in.event.ThreadID):
			// The turn of a sub-agent may outlive ours, and would wait for ever.
			_, _, answer := judge(agent.Decision{Reason: "the turn has ended"})
			s.reply(in, agent.EventRequestWithdrawn, withdrawnText(&r), answer)
		default:
			s.emitRequest(in, agent.EventRequestWithdrawn, withdrawnText(&r))
		}
	}()
}

func withdrawnText(r *agent.Request) string {
	return "not decided any more: " + kindText(r) + ": " + r.Summary
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
	if earlier := s.requests.open[r.id]; earlier != nil {
		earlier.cancel() // codex asks anew by the same id: one answer counts
	}
	s.requests.open[r.id] = r
	return r
}

// fate is what codex has done with a request meanwhile.
type fate int

const (
	pending  fate = iota // it waits
	settled              // it was settled without us
	replaced             // it was asked anew
)

// close ends a request and tells its fate.
func (q *requests) close(r *request) fate {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch q.open[r.id] {
	case r:
		delete(q.open, r.id)
		return pending
	case nil:
		return settled
	}
	return replaced
}

// withdraw ends a request that codex settled.
func (q *requests) withdraw(id string) {
	q.mu.Lock()
	r := q.open[id]
	delete(q.open, id)
	q.mu.Unlock()
	if r != nil {
		r.cancel()
	}
}

func (q *requests) any() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.open) > 0
}

// asking are the contexts of the requests that wait for a person.
func (q *requests) asking() []context.Context {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []context.Context
	for _, r := range q.open {
		if r.asks {
			all = append(all, r.ctx)
		}
	}
	return all
}
