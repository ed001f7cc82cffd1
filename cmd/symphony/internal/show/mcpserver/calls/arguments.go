package calls

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// geminiOrder is an argument for Gemini CLI itself, which adds it to every tool and sends it,
// too.
const geminiOrder = "wait_for_previous"

// arrange returns the arguments of a call as its tool expects them. A string that holds JSON
// is refused. If the tool has nested arguments, params may be left out around them:
// {"agentId":"one","items":[]} becomes {"agentId":"one","params":{"items":[]}}.
func arrange(arguments json.RawMessage, nested bool) (json.RawMessage, error) {
	const hint = "send the object itself, without quotes around it"
	if isString(arguments) {
		return nil, reconcile.NewError(agents.CodeInvalid, "arguments is a string that holds JSON", hint)
	}
	members := membersOf(arguments)
	if _, ok := members[geminiOrder]; ok {
		delete(members, geminiOrder)
		arguments = text.JSON(members)
	}
	params, hasParams := members["params"]
	if isString(params) {
		return nil, reconcile.NewError(
			agents.CodeInvalid,
			"params is a string that holds JSON",
			hint+`: "params": {…}`,
		)
	}
	if hasParams || members == nil || !nested {
		return arguments, nil
	}
	outer := map[string]any{"params": members}
	if id, ok := members["agentId"]; ok {
		outer["agentId"] = id
		delete(members, "agentId")
	}
	return json.Marshal(outer)
}

// membersOf returns the members of an object, nil for other values.
func membersOf(value json.RawMessage) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(value, &members) != nil {
		return nil
	}
	return members
}

func isString(value json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimSpace(value), []byte(`"`))
}

// agentOf returns the id of the agent that the arguments of a call are about, "" if they name
// no agent. The request one.1 is about the agent one.
func agentOf(members map[string]json.RawMessage) string {
	var id string
	if json.Unmarshal(members["agentId"], &id) == nil && id != "" {
		return id
	}
	if json.Unmarshal(members["requestId"], &id) != nil {
		return ""
	}
	agent, _ := reconcile.RequestRef(id)
	return agent
}

// summarize adds the type and size of each member, and of the members of params.
func summarize(sizes map[string]string, members map[string]json.RawMessage) {
	for name, value := range members {
		inner := membersOf(value)
		if name != "params" || inner == nil {
			sizes[name] = summary(value)
			continue
		}
		for innerName, innerValue := range inner {
			sizes["params."+innerName] = summary(innerValue)
		}
	}
}

// summary returns the type and size of a value, such as "string, 12 bytes".
func summary(value json.RawMessage) string {
	value = bytes.TrimSpace(value)
	return fmt.Sprintf("%s, %d bytes", typeOf(value), len(value))
}

func typeOf(value json.RawMessage) string {
	if len(value) == 0 {
		return "nothing"
	}
	switch value[0] {
	case '"':
		return "string"
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}
