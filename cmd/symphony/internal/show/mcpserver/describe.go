package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// describeTools is the middleware of tools/list. It completes the schemas for models: each
// tool gets a title, each parameter a description, and a closed word its values. A value has
// one type, because some models refuse several. Calls are checked against the schemas as they
// were: their errors explain more.
func (o Options) describeTools(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		list, ok := result.(*mcp.ListToolsResult)
		if err != nil || !ok {
			return result, err
		}
		described := *list
		described.Tools = nil
		for _, tool := range list.Tools {
			t := *tool
			t.Title = titleOf(t.Name)
			if t.InputSchema, err = complete(t.InputSchema); err != nil {
				return nil, err
			}
			// those of all tools take more than everything else, and models do not see them
			if !o.outputSchemas {
				t.OutputSchema = nil
			}
			described.Tools = append(described.Tools, &t)
		}
		return &described, nil
	}
}

// titleOf returns "Spawn agent" for spawn_agent.
func titleOf(name string) string {
	words := strings.NewReplacer("_", " ", "-", " ").Replace(name)
	return strings.ToUpper(words[:1]) + words[1:]
}

// values are those of parameters that have few.
var values = map[string][]string{
	"sandbox":         {"read-only", "workspace-write", "danger-full-access"},
	"approvalPolicy":  {"untrusted", "on-request", "never"},
	"approval-policy": {"untrusted", "on-request", "never"},
	"mode":            {"any", "all"},
	"type":            {"text", "image", "localImage"},
	"detail":          {"concise", detailFull},
	"decision":        {"approve", "approve_for_session", "deny", "answer"},
}

// meanings are descriptions of parameters whose types have none.
var meanings = map[string]string{
	"agentId": "from spawn_agent", "agentIds": "the agents to wait for",
	"params":         "or beside agentId",
	"conversationId": "from new_conversation", "items": "in order",
	"requestId": "from wait_agent, such as one.1", "model": "default: codex's own",
	"prompt": "what the agent is to do", "developerInstructions": "added to codex's own",
}

// complete returns a schema with what describeTools promises.
func complete(schema any) (any, error) {
	data, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	var s map[string]any
	if err = json.Unmarshal(data, &s); err == nil {
		completeMembers(s)
	}
	return s, err
}

func completeMembers(s map[string]any) {
	if types, ok := s["type"].([]any); ok {
		for _, t := range types {
			if t != "null" {
				s["type"] = t
			}
		}
	}
	if items, ok := s["items"].(map[string]any); ok {
		completeMembers(items)
	}
	properties, _ := s["properties"].(map[string]any)
	for name, property := range properties {
		p, ok := property.(map[string]any)
		if !ok {
			continue
		}
		completeMembers(p)
		described, _ := p["description"].(string)
		p["description"] = cmp.Or(described, meanings[name])
		if values[name] != nil && p["type"] == "string" {
			p["enum"] = values[name]
		}
	}
}
