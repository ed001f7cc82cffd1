package mcpserver

import (
	"fmt"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/mcpserver/calls"
)

const (
	// maxRead limits the content of a result, in bytes. Most contents of that size have fewer
	// than resultTokens.
	maxRead = 64 << 10
	// resultTokens are the tokens of a result, with some room below what hosts take.
	resultTokens = calls.MaxTokens - 1000
	// noteTokens is the room for what cutText adds.
	noteTokens = 50
	// seeFull tells how to get the rest of a message that was cut.
	seeFull = "see read_events with the detail full"
)

// cutText returns s, cut to so many bytes and tokens if it is longer, followed by how to get the
// rest.
func cutText(s string, bytes, tokens int, how string) string {
	kept := calls.Within(s, bytes, tokens)
	cut := len(s) - len(kept)
	if cut == 0 {
		return s
	}
	return kept + fmt.Sprintf("… (%d bytes more: %s)", cut, how)
}
