package codex

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Approval says how requests for approval are answered (10.5, design 9).
type Approval int

const (
	// ApprovalApprove grants what is asked: commands and patches for the
	// session, permissions for the turn.
	ApprovalApprove Approval = iota
	// ApprovalDeny declines; the turn goes on without.
	ApprovalDeny
	// ApprovalFail declines and ends the turn with approval_required.
	ApprovalFail
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
	case "item/commandExecution/requestApproval", "item/fileChange/requestApproval":
		s.approve(m, e, object{"decision": "acceptForSession"}, object{"decision": "decline"}, object{"decision": "cancel"})
	case "execCommandApproval", "applyPatchApproval":
		denied := object{"decision": object{"denied": object{"rejection": "declined by symphony's configuration"}}}
		s.approve(m, e, object{"decision": "approved_for_session"}, denied, object{"decision": "abort"})
	case "item/permissions/requestApproval":
		none := object{"permissions": object{}, "scope": "turn"}
		s.approve(m, e, object{"permissions": grant(p.Permissions), "scope": "turn"}, none, none)
	case "mcpServer/elicitation/request":
		// A form made for a person; there is nothing a policy could fill in.
		e.Name = EventApprovalDenied
		s.reply(m, e, object{"action": "decline", "content": nil, "_meta": nil})
	case "item/tool/requestUserInput":
		e.Name = EventTurnInputRequired
		s.reply(m, e, object{"answers": object{}})
		s.fail(&Error{Code: CodeTurnInputRequired, Message: oneLine("the agent asks a person: "+e.Message, errorLength)})
	case "currentTime/read":
		e.Name = EventNotification
		s.reply(m, e, object{"currentTimeAt": time.Now().Unix()})
	default:
		// Unknown, or for clients that keep codex's login
		// (account/chatgptAuthTokens/refresh, attestation/generate).
		e.Name = EventOtherMessage
		s.refuseRequest(m, e)
	}
}

// approve answers a request for approval by the policy.
func (s *Session) approve(m *message, e Event, granted, denied, ended object) {
	switch s.o.OnApproval {
	case ApprovalApprove:
		e.Name = EventApprovalAutoApproved
		s.reply(m, e, granted)
	case ApprovalDeny:
		e.Name = EventApprovalDenied
		s.reply(m, e, denied)
	default:
		e.Name = EventApprovalRequired
		// The reason is set before codex knows the answer, which ends the turn.
		s.fail(&Error{Code: CodeApprovalRequired, Message: oneLine("the agent asks for approval: "+e.Message, errorLength)})
		s.reply(m, e, ended)
	}
}

// grant gives exactly what was asked for, without the members that ask for
// nothing: the answer's schema knows no null there.
func grant(asked json.RawMessage) object {
	out := object{}
	var members map[string]json.RawMessage
	if json.Unmarshal(asked, &members) != nil {
		return out // not an object: nothing intelligible was asked for
	}
	for _, name := range []string{"network", "fileSystem"} {
		var fields map[string]any
		if json.Unmarshal(members[name], &fields) != nil || fields == nil {
			continue
		}
		for k, v := range fields {
			if v == nil {
				delete(fields, k)
			}
		}
		out[name] = fields
	}
	return out
}

// reply sends the answer and then emits the event: an event says what was
// answered. An answer that can't be sent means that the session is over, which
// whoever waits for the turn learns by itself.
func (s *Session) reply(m *message, e Event, result object) {
	if err := s.post(response{ID: m.ID, Result: result}); err != nil {
		e.Message = oneLine(e.Message+" (not answered: "+err.Error()+")", messageLength)
	}
	s.emit(e)
}

func (s *Session) refuseRequest(m *message, e Event) {
	text := fmt.Sprintf("symphony does not serve %s", oneLine(m.Method, 80))
	if err := s.post(response{ID: m.ID, Error: &refusal{Code: codeMethodNotFound, Message: text}}); err != nil {
		e.Message = oneLine(e.Message+" (not answered: "+err.Error()+")", messageLength)
	}
	s.emit(e)
}

// withdraw ends a request that codex settled without us, or after our answer.
func (s *Session) withdraw(id string) {
	s.mu.Lock()
	cancel := s.requests[id]
	delete(s.requests, id)
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// commandText reads a command that is a string or a list of words.
func commandText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return shellText(text)
	}
	var words []string
	if json.Unmarshal(raw, &words) != nil {
		return ""
	}
	if len(words) == 3 && (words[1] == "-lc" || words[1] == "-c") {
		return words[2]
	}
	return strings.Join(words, " ")
}

// shellText takes the shell off a command: codex reports all of them as
// /bin/bash -lc '…', or with -c where login shells are off.
func shellText(command string) string {
	shell, rest, _ := strings.Cut(command, " ")
	flag, rest, _ := strings.Cut(rest, " ")
	if !strings.Contains(shell, "sh") || flag != "-lc" && flag != "-c" || rest == "" {
		return command
	}
	if n := len(rest); n >= 2 && (rest[0] == '\'' || rest[0] == '"') && rest[n-1] == rest[0] {
		return strings.ReplaceAll(rest[1:n-1], `'\''`, "'")
	}
	return rest
}
