package calls

import (
	"encoding/json"
	"fmt"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// geminiOrder is an argument for Gemini CLI itself, which adds it to every tool and sends it,
// too.
const geminiOrder = "wait_for_previous"

// arrange returns the arguments of a call as its tool expects them. If the tool has nested
// arguments, params may be left out around them: {"agentId":"one","items":[]} becomes
// {"agentId":"one","params":{"items":[]}}.
func arrange(arguments json.RawMessage, nested bool) json.RawMessage {
	members := membersOf(arguments)
	if _, ok := members[geminiOrder]; ok {
		delete(members, geminiOrder)
		arguments = text.JSON(members)
	}
	_, hasParams := members["params"]
	if hasParams || members == nil || !nested {
		return arguments
	}
	outer := map[string]any{"params": members}
	if id, ok := members["agentId"]; ok {
		outer["agentId"] = id
		delete(members, "agentId")
	}
	return text.JSON(outer)
}

// membersOf returns the members of an object, nil for other values.
func membersOf(value json.RawMessage) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(value, &members) != nil {
		return nil
	}
	return members
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

// summarize adds the size of each member, and of the members of params.
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

// summary returns the size of a value, such as "12 bytes".
func summary(value json.RawMessage) string { return fmt.Sprintf("%d bytes", len(value)) }
