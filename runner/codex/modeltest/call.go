package modeltest

import (
	"encoding/json"
	"strings"

	"github.com/symphony-cron/symphony/runner/codex/codextest"
)

// isCall says which directives end a response with a call of a tool.
func isCall(verb string) bool {
	switch verb {
	case "sh", "background", "tool", "patch", "ask-command", "ask-permissions", "ask-user", "steal-turn":
		return true
	}
	return false
}

// call asks codex for a tool.
func (a *answer) call(s *codextest.Step) {
	if s.Verb == "patch" {
		a.item(a.patch(s))
		return
	}
	name, args := a.function(s)
	a.item(a.functionCall(name, args))
}

func (a *answer) functionCall(name string, args any) object {
	text, err := json.Marshal(args)
	if err != nil {
		panic(err) // args are made here, or JSON already
	}
	item := object{"type": "function_call", "id": a.s.id("fc"), "call_id": a.s.id("call"), "name": name, "arguments": string(text)}
	if space, short, ok := strings.Cut(name, "."); ok {
		item["namespace"], item["name"] = space, short
	}
	return item
}

func (a *answer) function(s *codextest.Step) (name string, args any) {
	switch s.Verb {
	case "tool":
		return s.Name, s.JSON
	case "ask-permissions":
		return "request_permissions", object{"reason": "needs more", "permissions": object{"network": object{"enabled": true}}}
	case "ask-user":
		return "request_user_input", object{"questions": []object{{
			"id": "q1", "header": "Choice", "question": s.Text,
			"options": []object{{"label": "Yes", "description": "go on"}, {"label": "No", "description": "stop"}},
		}}}
	case "steal-turn":
		return "create_goal", object{"objective": "go on"}
	}
	return a.run(s)
}
