package calls

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// An answer that is larger than hosts take is refused.
func TestAnswerTooLarge(t *testing.T) {
	for size, refused := range map[int]bool{MaxAnswer: false, MaxAnswer + 1: true} {
		content := []mcp.Content{&mcp.TextContent{Text: strings.Repeat("x", size)}}
		err := tooLarge(&mcp.CallToolResult{Content: content})
		if (err != nil) != refused {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}
