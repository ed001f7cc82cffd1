package codextest

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// asking returns the function for a directive that sends a request to the client; ok is false for other directives.
func (u *turn) asking(s *Step) (ask func() error, ok bool) {
	switch s.Verb {
	case "ask-command":
		return func() error { return u.askCommand(s.Text) }, true
	case "ask-file":
		return func() error { return u.askFile(s.Text) }, true
	case "ask-user":
		return func() error { return u.askUser(s.Text) }, true
	case "ask-form":
		return func() error { return u.askForm(s.Text) }, true
	case "ask-permissions":
		return u.askPermissions, true
	case "request":
		return func() error { return u.askAny(s) }, true
	case "unknown-request":
		return func() error { return u.askAny(&Step{Name: "item/unheardOf/request", JSON: json.RawMessage(`{}`)}) }, true
	}
	return nil, false
}

// ask sends a request and waits for the answer, without a limit, as codex does. The thread's status shows flag meanwhile.
func (u *turn) ask(method, flag string, params object) (*message, error) {
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
		}
		return m, nil
	case <-u.ctx.Done():
		return nil, u.interrupted()
	}
}

// decision reads {"decision": …}. It returns "" for an error or another shape, which codex treats as a refusal.
func (u *turn) decision(m *message) string {
	var r struct {
		Decision json.RawMessage `json:"decision"`
	}
	var word string
	if m.Error != nil {
		return ""
	}
	if json.Unmarshal(m.Result, &r) != nil || json.Unmarshal(r.Decision, &word) != nil {
		u.s.log("codex_app_server: failed to deserialize the answer: " + string(m.Result))
		return ""
	}
	return word
}

const waitingOnApproval = "waitingOnApproval"

func (u *turn) askCommand(line string) error {
	u.s.mu.Lock()
	granted := u.s.granted[line]
	u.s.mu.Unlock()
	if granted {
		return u.shell(line)
	}
	id := u.itemID("call")
	item := commandItem(id, line, u.t.Cwd)
	at := u.itemStarted(item, id)
	m, err := u.ask("item/commandExecution/requestApproval", waitingOnApproval, object{
		"kind": "command", "itemId": id, "startedAtMs": at, "environmentId": "local", "reason": "needs to run outside the sandbox",
		"command": item["command"], "cwd": u.t.Cwd, "commandActions": item["commandActions"], "proposedExecpolicyAmendment": []string{line},
		"availableDecisions": []any{"accept", object{"acceptWithExecpolicyAmendment": object{"execpolicy_amendment": []string{line}}}, "cancel"},
	})
	if err != nil {
		return err
	}
	switch u.decision(m) {
	case "acceptForSession":
		u.s.mu.Lock()
		u.s.granted[line] = true
		u.s.mu.Unlock()
		fallthrough
	case "accept":
		return u.startItem(line, id, item, at)()
	case "decline":
		item["status"] = "declined"
		u.itemCompleted(item, id, at)
	case "cancel":
		item["status"] = "declined"
		u.itemCompleted(item, id, at)
		return &end{status: "interrupted"}
	default:
		item["status"] = "failed"
		u.itemCompleted(item, id, at)
	}
	return u.interrupted()
}

func (u *turn) askFile(name string) error {
	id := u.itemID("call")
	item := fileItem(id, u.path(name), "asked for")
	at := u.itemStarted(item, id)
	m, err := u.ask("item/fileChange/requestApproval", waitingOnApproval, object{
		"itemId": id, "startedAtMs": at, "reason": nil, "grantRoot": nil,
	})
	if err != nil {
		return err
	}
	switch u.decision(m) {
	case "accept", "acceptForSession":
		item["status"] = "completed"
		if err := u.writeFile(name, "asked for"); err != nil {
			item["status"] = "failed"
			u.s.log("codex_core::tools::router: error=" + err.Error())
		}
	case "cancel":
		return &end{status: "interrupted"} // the item never completes
	case "decline":
		item["status"] = "declined"
	default:
		item["status"] = "failed"
	}
	u.itemCompleted(item, id, at)
	return u.interrupted()
}

func (u *turn) askUser(question string) error {
	m, err := u.ask("item/tool/requestUserInput", "waitingOnUserInput", object{
		"itemId": u.itemID("call"), "isBlocking": true, "autoResolutionMs": nil,
		"questions": []object{{
			"id": "q1", "header": "Choice", "question": question, "isOther": true, "isSecret": false,
			"options": []object{{"label": "Yes", "description": "go on"}, {"label": "No", "description": "stop"}},
		}},
	})
	if err != nil {
		return err
	}
	var r struct {
		Answers map[string]struct {
			Answers []string `json:"answers"`
		} `json:"answers"`
	}
	if m.Error != nil || json.Unmarshal(m.Result, &r) != nil || r.Answers == nil {
		return u.say("the question was not answered")
	}
	return u.say(fmt.Sprintf("answered: %q", r.Answers["q1"].Answers))
}

// askForm sends the form of an MCP server named forms.
func (u *turn) askForm(text string) error {
	m, err := u.ask("mcpServer/elicitation/request", "", object{
		"serverName": "forms", "mode": "form", "_meta": nil, "message": text,
		"requestedSchema": object{"type": "object", "required": []string{"region"}, "properties": object{
			"n":      object{"type": "integer", "description": "how many", "minimum": 1},
			"region": object{"type": "string", "title": "Region", "description": "where it runs", "enum": []string{"eu", "us"}},
			"sure":   object{"type": "boolean"},
		}},
	})
	if err != nil {
		return err
	}
	var r struct {
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content"`
	}
	if m.Error != nil || json.Unmarshal(m.Result, &r) != nil || r.Action == "" {
		return u.say("form: refused")
	}
	return u.say("form: " + r.Action + " " + string(r.Content))
}

func (u *turn) askPermissions() error {
	m, err := u.ask("item/permissions/requestApproval", waitingOnApproval, object{
		"itemId": u.itemID("call"), "environmentId": "local", "startedAtMs": now(), "cwd": u.t.Cwd, "reason": "needs more",
		"permissions": object{
			"network": object{"enabled": true},
			"fileSystem": object{
				"read": nil, "write": []string{"/opt"},
				"entries": []object{{"path": object{"type": "path", "path": "/opt"}, "access": "write"}},
			},
		},
	})
	if err != nil {
		return err
	}
	var r struct {
		Permissions map[string]json.RawMessage `json:"permissions"`
		Scope       string                     `json:"scope"`
	}
	if m.Error != nil || json.Unmarshal(m.Result, &r) != nil || r.Scope == "" {
		return u.say("permissions: refused")
	}
	return u.say(fmt.Sprintf("permissions: %d granted for the %s", len(r.Permissions), r.Scope))
}

// askAny sends any request and repeats the answer in an agent message.
func (u *turn) askAny(s *Step) error {
	params := object{}
	if err := json.Unmarshal(s.JSON, &params); err != nil {
		return fmt.Errorf("line %d: request wants an object: %w", s.Line, err)
	}
	m, err := u.ask(s.Name, "", params)
	if err != nil {
		return err
	}
	if m.Error != nil {
		return u.say("refused: " + string(m.Error))
	}
	return u.say("answered: " + string(m.Result))
}

// tool calls a dynamic tool of the client. A script may name a tool that the thread does not have, to see the refusal.
func (u *turn) tool(name string, args json.RawMessage) error {
	id := u.itemID("call")
	item := toolItem(id, name, args)
	at := u.itemStarted(item, id)
	m, err := u.ask("item/tool/call", "", object{"callId": id, "namespace": nil, "tool": name, "arguments": args})
	if err != nil {
		return err
	}
	var r struct {
		ContentItems []json.RawMessage `json:"contentItems"`
		Success      bool              `json:"success"`
	}
	failed := func(text string) {
		item["contentItems"] = []object{{"type": "inputText", "text": text}}
		item["success"], item["status"] = false, "failed"
	}
	switch {
	case m.Error != nil:
		failed("dynamic tool request failed")
	case json.Unmarshal(m.Result, &r) != nil || r.ContentItems == nil:
		u.s.log("codex_app_server::dynamic_tools: missing field `contentItems`")
		failed("dynamic tool response was invalid")
	default:
		item["contentItems"], item["success"], item["status"] = r.ContentItems, r.Success, "completed"
		if !r.Success {
			item["status"] = "failed"
		}
	}
	item["durationMs"] = now() - at
	u.itemCompleted(item, id, at)
	return u.interrupted()
}
