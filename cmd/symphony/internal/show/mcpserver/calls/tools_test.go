package calls

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
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
