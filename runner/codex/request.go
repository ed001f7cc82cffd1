package codex

import (
	"encoding/json"
	"fmt"
	"time"
)

// response answers a request of codex's; the id is echoed as it came.
type response struct {
	ID     json.RawMessage `json:"id"`
	Result any             `json:"result,omitempty"`
	Error  *refusal        `json:"error,omitempty"`
}

type refusal struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// object keeps the answers below readable.
type object map[string]any

// serve takes a request of codex's. Every one is answered: without an answer
// the turn would wait for ever. It runs in the reader, and blocks on nothing.
func (s *Session) serve(m *message) {
	var p params
	p.read(m.Params)
	e := Event{
		Method: m.Method, ThreadID: p.threadID(), TurnID: p.turnID(),
		Message: describe(m.Method, &p), Progress: true, Raw: m.raw,
	}
	switch m.Method {
	case "item/tool/call":
		s.serveTool(m, &p, e)
	case "item/commandExecution/requestApproval":
		s.nameCommand(&p)
		s.serveApproval(m, e, commandAsk(&p), s.itemVerdicts())
	case "item/fileChange/requestApproval":
		s.serveApproval(m, e, s.changeAsk(&p), s.itemVerdicts())
	case "execCommandApproval":
		s.serveApproval(m, e, commandAsk(&p), reviewVerdicts())
	case "applyPatchApproval":
		s.serveApproval(m, e, s.patchAsk(&p), reviewVerdicts())
	case "item/permissions/requestApproval":
		s.serveApproval(m, e, permissionsAsk(&p), permissionVerdicts(p.Permissions))
	case "mcpServer/elicitation/request":
		s.serveElicitation(m, &p, e)
	case "item/tool/requestUserInput":
		s.serveQuestions(m, &p, e)
	case "currentTime/read":
		e.Name = EventNotification
		s.reply(m, e, object{"currentTimeAt": time.Now().Unix()})
	default:
		// Unknown, or for clients that keep codex's login
		// (account/chatgptAuthTokens/refresh, attestation/generate).
		e.Name = EventRequestRefused
		if e.Message == m.Method {
			e.Message = oneLine("refused: "+m.Method+" is not known", messageLength)
		}
		s.refuseRequest(m, e)
	}
}

// reply sends the answer and then emits the event: an event says what was
// answered. An answer that can't be sent means that the session is over, which
// whoever waits for the turn learns by itself; sent reports it to whoever else must know.
func (s *Session) reply(m *message, e Event, result object) (sent bool) {
	err := s.post(response{ID: m.ID, Result: result})
	if err != nil {
		e.Message = oneLine(e.Message+" (not answered: "+err.Error()+")", messageLength)
	}
	s.emit(e)
	return err == nil
}

func (s *Session) refuseRequest(m *message, e Event) {
	text := fmt.Sprintf("symphony does not serve %s", oneLine(m.Method, 80))
	if err := s.post(response{ID: m.ID, Error: &refusal{Code: codeMethodNotFound, Message: text}}); err != nil {
		e.Message = oneLine(e.Message+" (not answered: "+err.Error()+")", messageLength)
	}
	s.emit(e)
}
