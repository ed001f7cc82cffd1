package calls

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// completeList is the middleware of tools/list. It completes the schemas for models: each
// parameter gets a description, and a closed word its values. A value has a
// single type, because some models refuse several. That other arguments are refused is left out:
// calls are still checked against the schemas as they were.
func (t *Tools) completeList(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		list, ok := result.(*mcp.ListToolsResult)
		if err != nil || !ok {
			return result, err
		}
		completed := *list
		completed.Tools = nil
		for _, tool := range list.Tools {
			tool, err := t.complete(*tool)
			if err != nil {
				return nil, err
			}
			completed.Tools = append(completed.Tools, &tool)
		}
		return &completed, nil
	}
}

// complete returns a tool with everything that completeList promises.
func (t *Tools) complete(tool mcp.Tool) (mcp.Tool, error) {
	if !t.options.OutputSchemas {
		tool.OutputSchema = nil
	}
	data, err := json.Marshal(tool.InputSchema)
	if err != nil {
		return tool, fmt.Errorf("encode the schema of the tool %s: %w", tool.Name, err)
	}
	var schema map[string]any
	if err := json.Unmarshal(data, &schema); err != nil {
		return tool, fmt.Errorf("decode the schema of the tool %s: %w", tool.Name, err)
	}
	completeMembers(schema)
	tool.InputSchema = schema
	return tool, nil
}

// values are the values of parameters that have few.
var values = map[string][]string{
	"sandbox":        {"read-only", "workspace-write", "danger-full-access"},
	"approvalPolicy": {"untrusted", "on-request", "never"},
	"mode":           {"any", "all"},
	"type":           {"text", "image", "localImage"},
	"detail":         {"concise", "full"},
	"decision":       {"approve", "approve_for_session", "deny", "answer"},
}

// meanings are descriptions of parameters whose types have none.
var meanings = map[string]string{
	"agentId":               "from spawn_agent",
	"agentIds":              "the agents to wait for",
	"params":                "or beside agentId",
	"conversationId":        "from spawn_agent or new_conversation",
	"items":                 "in order",
	"requestId":             "from wait_agent, such as one.1",
	"model":                 "default: the agent's own",
	"prompt":                "what the agent is to do",
	"developerInstructions": "added to the agent's own",
}

// completeMembers completes a schema and the schemas in it.
func completeMembers(schema map[string]any) {
	delete(schema, "additionalProperties")
	if types, ok := schema["type"].([]any); ok {
		for _, t := range types {
			if t != "null" {
				schema["type"] = t
			}
		}
	}
	if items, ok := schema["items"].(map[string]any); ok {
		completeMembers(items)
	}
	properties, _ := schema["properties"].(map[string]any)
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
