package calls

import (
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

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
