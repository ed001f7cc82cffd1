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

// toolsOf are tools with these names.
func toolsOf(names ...string) *Tools {
	tools := &Tools{inputs: map[string]*jsonschema.Schema{}}
	for _, name := range names {
		tools.inputs[name] = &jsonschema.Schema{}
	}
	return tools
}

// A name that a model makes up gets the tool that does the same, not one with a similar name.
func TestUnknownTool(t *testing.T) {
	issues := []string{"hold_issue", "list_issues", "retry_issue", "run_issue", "send_back_issue", "show_issue"}
	lean := []string{"decide_request", "kill_agent", "send_message", "spawn_agent", "wait_agent"}
	agents := []string{
		"answer", "approve", "deliver_changes", "deny", "exec_one_off_command", "interrupt", "kill_agent", "list_agents",
		"list_requests", "new_conversation", "read_changes", "read_events", "send_user_message", "send_user_turn",
		"spawn_agent", "wait_agent",
	}
	for _, group := range []struct {
		tools []string
		says  map[string]string
	}{
		{issues, map[string]string{
			"get_issue":     "use show_issue",
			"merge_issue":   "use show_issue",
			"start_issue":   "use run_issue",
			"stop_issue":    "use hold_issue",
			"list_issue":    "use list_issues",
			"list_tickets":  "use list_issues",
			"comment_issue": "use send_back_issue",
			"report":        "use list_issues",
			"create_issue":  "no tool changes issues in their tracker: symphony issues new TITLE",
			"close_issue":   "no tool changes issues in their tracker",
			"update-ticket": "no tool changes issues in their tracker",
		}},
		{agents, map[string]string{
			"stop_agent":      "use interrupt",
			"cancel_task":     "use interrupt",
			"close_agent":     "use kill_agent",
			"create_agent":    "use spawn_agent",
			"Task":            "use spawn_agent",
			"delegate":        "use spawn_agent",
			"get_agent":       "use list_agents",
			"agent_status":    "use list_agents",
			"task_output":     "use wait_agent",
			"resume_agent":    "use send_user_message",
			"send_input":      "use send_user_message",
			"send_message":    "use send_user_message",
			"decide_request":  "use approve",
			"get_agent_logs":  "use read_events",
			"get_diff":        "use read_changes",
			"push":            "use deliver_changes",
			"run_shell":       "use exec_one_off_command",
			"interrupt_agent": "use interrupt",
			"show_issue":      "the tools for issues come with symphony mcp --tools issues",
		}},
		{lean, map[string]string{
			"new_conversation":  "use spawn_agent",
			"send_user_turn":    "use send_message",
			"list_agents":       "use wait_agent",
			"stop_agent":        "use kill_agent",
			"approve":           "use decide_request",
			"read_events":       "use wait_agent",
			"respond_to_prompt": "use decide_request",
			"followup_message":  "use send_message",
		}},
	} {
		tools := toolsOf(group.tools...)
		for name, says := range group.says {
			test.Contains(t, name, tools.unknown(name).Error(), "; "+says)
			test.Contains(t, name, tools.unknown(name).Error(), "; the tools are "+group.tools[0]+", ")
		}
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
