package codextest

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
)

// ask does a directive that sends a request to the client, and obeys the answer.
func (u *turn) ask(s *Step) error {
	var said string
	var err error
	switch s.Verb {
	case "ask-command":
		return u.askCommand(s.Text)
	case "ask-file":
		return u.askFile(s.Text)
	case "tool":
		return u.tool(s.Name, s.JSON)
	case "ask-user":
		var answer struct {
			Answers map[string]struct{ Answers []string }
		}
		_, err = u.request("item/tool/requestUserInput", "waitingOnUserInput", shape("questions", object{
			"questions": []object{shape("question", object{"question": s.Text})},
		}), &answer)
		said = fmt.Sprintf("answered: %q", answer.Answers["q1"].Answers)
	case "ask-form":
		var answer struct {
			Action  string
			Content json.RawMessage
		}
		_, err = u.request("mcpServer/elicitation/request", "", shape("form", object{"message": s.Text}), &answer)
		said = "form: " + answer.Action + " " + string(answer.Content)
	case "ask-permissions":
		var answer struct {
			Permissions map[string]any
			Scope       string
		}
		params := shape("permissions", object{"startedAtMs": now(), "cwd": u.t.Cwd})
		_, err = u.request("item/permissions/requestApproval", "waitingOnApproval", params, &answer)
		said = fmt.Sprintf("permissions: %d granted for the %s", len(answer.Permissions), answer.Scope)
	case "request":
		params := object{}
		if err := json.Unmarshal(s.JSON, &params); s.JSON != nil && err != nil {
			return fmt.Errorf("line %d: request wants an object: %w", s.Line, err)
		}
		var answer, refusal json.RawMessage
		refusal, err = u.request(s.Name, "", params, &answer)
		if said = "answered: " + string(answer); refusal != nil {
			said = "refused: " + string(refusal)
		}
	default:
		return fmt.Errorf("line %d: only a model can do %q", s.Line, s.Verb)
	}
	if err != nil {
		return err
	}
	return u.say(0, said)
}

// request sends a request and waits for the answer, without a limit, as codex does. The thread's status shows flag meanwhile.
// An answer of another shape than codex expects is logged, and refuses.
func (u *turn) request(method, flag string, params object, result any) (refusal json.RawMessage, err error) {
	answer := make(chan *message, 1)
	u.s.mu.Lock()
	n := u.s.nextID
	u.s.nextID++
	u.s.pending[strconv.Itoa(n)] = answer
	u.s.mu.Unlock()
	if flag != "" {
		u.status(object{"type": "active", "activeFlags": []string{flag}})
		defer u.status(object{"type": "active", "activeFlags": []any{}})
	}
	params["threadId"], params["turnId"] = u.t.ID, u.id
	u.s.send(object{"method": method, "id": n, "params": params})
	// Codex sends this for a request without an answer too.
	defer func() { u.notify("serverRequest/resolved", object{"requestId": n}) }()
	select {
	case m := <-answer:
		if m.Error != nil {
			u.s.log("codex_app_server: request failed with client error: " + string(m.Error))
		} else if err := json.Unmarshal(m.Result, result); err != nil {
			u.s.log("codex_app_server: failed to deserialize the answer: " + string(m.Result))
		}
		return m.Error, nil
	case <-u.ctx.Done():
		return nil, u.interrupted()
	}
}

// approval asks for the approval of an item. It returns the decision, after which an item that was refused has its status.
func (u *turn) approval(method string, item, params object) (string, error) {
	var answer struct{ Decision string }
	params["itemId"], params["startedAtMs"] = item["id"], item["startedAtMs"]
	_, err := u.request(method, "waitingOnApproval", params, &answer)
	item["status"] = "failed"
	if answer.Decision == "decline" || answer.Decision == "cancel" {
		item["status"] = "declined"
	}
	return answer.Decision, err
}

func (u *turn) askCommand(line string) error {
	u.s.mu.Lock()
	granted := u.s.granted[line]
	u.s.mu.Unlock()
	item := u.started(commandItem(line, u.t.Cwd), "call")
	decision := "accept"
	if !granted {
		var err error
		decision, err = u.approval("item/commandExecution/requestApproval", item, object{
			"kind": "command", "environmentId": "local", "reason": "needs to run outside the sandbox", "command": item["command"],
			"cwd": u.t.Cwd, "commandActions": item["commandActions"], "proposedExecpolicyAmendment": []string{line},
			"availableDecisions": []any{"accept", object{"acceptWithExecpolicyAmendment": object{"execpolicy_amendment": []string{line}}}, "cancel"},
		})
		if err != nil {
			return err
		}
	}
	switch decision {
	case "acceptForSession":
		u.s.mu.Lock()
		u.s.granted[line] = true
		u.s.mu.Unlock()
		fallthrough
	case "accept":
		u.command(line, item)()
	case "cancel":
		u.completed(item)
		return &end{status: "interrupted"}
	default:
		u.completed(item)
	}
	return u.interrupted()
}

func (u *turn) askFile(name string) error {
	item := u.started(fileItem(filepath.Join(u.t.Cwd, name), "asked for"), "call")
	decision, err := u.approval("item/fileChange/requestApproval", item, object{"reason": nil, "grantRoot": nil})
	if err != nil {
		return err
	}
	switch decision {
	case "accept", "acceptForSession":
		u.patch(item, name, "asked for")
	case "cancel":
		return &end{status: "interrupted"} // the item never completes
	default:
		u.completed(item)
	}
	return u.interrupted()
}

// tool calls a dynamic tool of the client. A script may name a tool that the thread does not have, to see the refusal.
func (u *turn) tool(name string, args json.RawMessage) error {
	if args == nil {
		args = json.RawMessage("{}")
	}
	item := u.started(newItem("dynamicToolCall", object{"tool": name, "arguments": args}), "call")
	var answer struct {
		ContentItems []json.RawMessage
		Success      bool
	}
	refusal, err := u.request("item/tool/call", "", object{"callId": item["id"], "namespace": nil, "tool": name, "arguments": args}, &answer)
	if err != nil {
		return err
	}
	item["contentItems"], item["success"], item["status"] = answer.ContentItems, answer.Success, "completed"
	if refusal != nil {
		item["contentItems"] = []object{{"type": "inputText", "text": "dynamic tool request failed"}}
	} else if answer.ContentItems == nil {
		item["contentItems"] = []object{{"type": "inputText", "text": "dynamic tool response was invalid"}}
	}
	if !answer.Success {
		item["status"] = "failed"
	}
	item["durationMs"] = now() - item["startedAtMs"].(int64)
	u.completed(item)
	return u.interrupted()
}
