package calls

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/internal/test"
)

// An answer that is longer than hosts take is refused.
func TestAnswerTooLarge(t *testing.T) {
	for size, refused := range map[int]bool{MaxBytes: false, MaxBytes + 1: true} {
		content := []mcp.Content{&mcp.TextContent{Text: strings.Repeat("x", size)}}
		err := tooLarge(&mcp.CallToolResult{Content: content})
		if (err != nil) != refused {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// A tool that the server does not have gets the list of those that it has.
func TestUnknownTool(t *testing.T) {
	tools := &Tools{nested: map[string]bool{"wait_agent": false, "interrupt": true}}
	const want = `unknown tool "stop_agent": the tools are interrupt, wait_agent`
	test.Contains(t, "the error", tools.unknown("stop_agent").Error(), want)
}
