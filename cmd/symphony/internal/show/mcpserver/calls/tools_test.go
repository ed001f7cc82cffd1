package calls

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/internal/test"
)

// An answer with more tokens than hosts take is refused.
func TestAnswerTooLarge(t *testing.T) {
	for tokens, refused := range map[int]bool{MaxTokens: false, MaxTokens + 1: true} {
		content := []mcp.Content{&mcp.TextContent{Text: strings.Repeat("é", tokens)}}
		err := tooLarge(&mcp.CallToolResult{Content: content})
		if (err != nil) != refused {
			t.Errorf("%d tokens: %v", tokens, err)
		}
	}
}

// A name that a model makes up gets the tool that does the same, not one with a similar name.
func TestUnknownTool(t *testing.T) {
	tools := &Tools{inputs: map[string]*jsonschema.Schema{}}
	for _, name := range []string{"hold_issue", "list_issues", "retry_issue", "run_issue", "show_issue"} {
		tools.inputs[name] = &jsonschema.Schema{}
	}
	for name, meant := range map[string]string{
		"get_issue":   "show_issue",
		"merge_issue": "show_issue",
		"start_issue": "run_issue",
		"stop_issue":  "hold_issue",
		"list_issue":  "list_issues",
	} {
		test.Contains(t, name, tools.unknown(name).Error(), "; use "+meant+"; the tools are hold_issue, ")
	}
}

// A call whose tool is in another member, such as params.tool, says which member is missing.
func TestNoTool(t *testing.T) {
	tools := &Tools{inputs: map[string]*jsonschema.Schema{"show_issue": {}}}
	const want = "the name of the tool, params.name, is missing; the tools are show_issue"
	test.Contains(t, "the error", tools.unknown("").Error(), want)
}

// An agent that is named by another argument is the one that the tool is about.
func TestAgentIsNamedOtherwise(t *testing.T) {
	for known, names := range map[string][]string{
		"agentId":  {"agent", "id", "to"},
		"agentIds": {"agent_id", "id", "name"},
	} {
		schema := &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{known: {}}}
		for _, name := range names {
			err := wrongName("a_tool", schema, map[string]json.RawMessage{name: nil})
			test.Contains(t, name, exit.From(err).Hint, `use "`+known+`", `)
		}
	}
}

// A prompt for spawn_agent of the group agents, or for new_conversation, names the tools that take it.
func TestPromptElsewhere(t *testing.T) {
	agents := &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"cwd": {}}}
	for _, name := range []string{"prompt", "task"} {
		err := wrongName("spawn_agent", agents, map[string]json.RawMessage{name: nil})
		test.Contains(t, name, exit.From(err).Hint, "send_user_turn", "symphony mcp --tools lean")
		err = wrongName("new_conversation", agents, map[string]json.RawMessage{name: nil})
		test.Contains(t, name, exit.From(err).Hint, "send_user_turn gives the agent its work")
	}
	err := wrongName("spawn_agent", agents, map[string]json.RawMessage{"fork_turns": nil})
	test.Contains(t, "another argument", exit.From(err).Hint, "leave it out; ")
}
