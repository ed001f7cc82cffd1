package calls

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// otherNames are names by which models call an argument that they have not looked up, in small
// letters: prompt is called task or message, for instance.
var otherNames = map[string][]string{
	"agentId":        {"agent", "agentname", "id", "name", "agentids", "recipient", "target", "to"},
	"agentIds":       {"agent", "agents", "agentid", "id", "ids", "name", "names", "target", "targets"},
	"answers":        {"answer", "choice", "choices", "response", "text", "texts"},
	"commit":         {"sha", "head"},
	"conversationId": {"conversation", "threadid", "thread"},
	"cwd":            {"dir", "directory", "folder", "path", "workdir", "workingdirectory", "workspace"},
	"decision":       {"action", "approve", "approved", "deny"},
	"id":             {"agentid", "name", "taskname"},
	"items":          {"content", "input", "message", "prompt", "text"},
	"issue":          {"id", "identifier", "issueid", "issues"},
	"prompt":         {"content", "input", "instructions", "items", "message", "task", "text"},
	"requestId":      {"id", "request"},
	"sandbox":        {"sandboxmode", "sandboxpolicy"},
	"timeoutSeconds": {"seconds", "timeout", "timeoutms"},
	"worktree":       {"gitworktree", "isolation"},
}

// kindNames are names by which hosts ask spawn_agent for another agent than the default.
var kindNames = []string{"kind", "agentkind", "agenttype"}

// checkNames refuses a call with an argument that the tool does not have, or without one that
// it needs, and says which one is meant: the SDK's error names only what is wrong.
func (t *Tools) checkNames(tool string, arguments json.RawMessage) error {
	schema := t.inputs[tool]
	members := membersOf(arguments)
	if schema == nil || members == nil {
		return nil // other errors explain that
	}
	params := schema.Properties["params"]
	if params == nil {
		return wrongName(tool, schema, members)
	}
	inner := membersOf(members["params"])
	if members["params"] != nil && inner == nil {
		return nil
	}
	return wrongName(tool, flat(schema, params), flatMembers(members, inner))
}

// flat returns a schema in which the arguments in params are beside agentId, where a host may
// send them.
func flat(schema, params *jsonschema.Schema) *jsonschema.Schema {
	all := &jsonschema.Schema{Properties: maps.Clone(schema.Properties)}
	delete(all.Properties, "params")
	maps.Copy(all.Properties, params.Properties)
	for _, name := range append(slices.Clone(schema.Required), params.Required...) {
		if name != "params" {
			all.Required = append(all.Required, name)
		}
	}
	return all
}

func flatMembers(members, inner map[string]json.RawMessage) map[string]json.RawMessage {
	all := maps.Clone(members)
	delete(all, "params")
	maps.Copy(all, inner)
	return all
}

// wrongName returns the error of the first name that is unknown or missing.
func wrongName(tool string, schema *jsonschema.Schema, members map[string]json.RawMessage) error {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if schema.Properties[name] != nil {
			continue
		}
		if tool == "spawn_agent" && slices.Contains(kindNames, plainName(name)) {
			return reconcile.NewError(
				agents.CodeInvalid,
				"spawn_agent starts "+workflow.DefaultAgent+", and no other kind of agent yet",
				"leave out "+name+"; another kind works on the issues of a project whose workflow names it (agent.kind)",
			)
		}
		message := fmt.Sprintf("%s has no argument %q", tool, text.Within(name, maxID))
		meant := meantBy(name, schema, members)
		if meant == "" {
			return reconcile.NewError(agents.CodeInvalid, message, useInstead(tool, name, schema)+"; "+signature(schema))
		}
		return reconcile.NewError(
			agents.CodeInvalid,
			message,
			fmt.Sprintf("use %q, %s; %s", meant, kindOf(schema.Properties[meant]), signature(schema)),
		)
	}
	for _, name := range schema.Required {
		if _, given := members[name]; !given {
			return reconcile.NewError(
				agents.CodeInvalid,
				fmt.Sprintf("%s needs the argument %q", tool, name),
				fmt.Sprintf("add it, %s; %s", kindOf(schema.Properties[name]), signature(schema)),
			)
		}
	}
	return nil
}

// useInstead returns what to do with an argument that a tool does not have. Only in the group
// lean does spawn_agent take a prompt.
func useInstead(tool, name string, schema *jsonschema.Schema) string {
	plain := plainName(name)
	isPrompt := plain == "prompt" || slices.Contains(otherNames["prompt"], plain)
	if tool == "spawn_agent" && isPrompt && schema.Properties["prompt"] == nil {
		return "new_conversation and then send_user_turn give the agent its work, " +
			"or a host of symphony mcp --tools lean, or of the address /mcp?tools=lean, gives spawn_agent the prompt"
	}
	if tool == "new_conversation" && isPrompt {
		return "send_user_turn gives the agent its work, in the conversation that this opens"
	}
	return "leave it out"
}

// meantBy returns the argument that an unknown name most likely stands for, "" for none.
func meantBy(name string, schema *jsonschema.Schema, members map[string]json.RawMessage) string {
	var missing []string
	for _, known := range slices.Sorted(maps.Keys(schema.Properties)) {
		if _, given := members[known]; !given {
			missing = append(missing, known)
		}
	}
	plain := plainName(name)
	for _, known := range missing {
		if plainName(known) == plain {
			return known
		}
	}
	for _, known := range missing {
		if slices.Contains(otherNames[known], plain) {
			return known
		}
	}
	near := text.Nearest(name, missing)
	if len(near) == 0 {
		return ""
	}
	return near[0]
}

// plainName returns agentid for agentId, agent_id and agent-id.
func plainName(name string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
}

// kindOf describes the value of an argument, such as "a list" or "true or false".
func kindOf(schema *jsonschema.Schema) string {
	switch typeIn(schema) {
	case "array":
		return "a list"
	case "boolean":
		return "true or false"
	case "integer", "number":
		return "a number"
	case "object":
		return "an object"
	}
	return "a text"
}

// typeIn returns the type of a schema that also allows null.
func typeIn(schema *jsonschema.Schema) string {
	if schema.Type != "" {
		return schema.Type
	}
	for _, one := range schema.Types {
		if one != "null" {
			return one
		}
	}
	return ""
}

// signature lists the arguments of a tool: "its arguments are agentId, prompt, [id]".
func signature(schema *jsonschema.Schema) string {
	names := slices.Clone(schema.Required)
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if !slices.Contains(schema.Required, name) {
			names = append(names, "["+name+"]")
		}
	}
	return "its arguments are " + strings.Join(names, ", ")
}
