package mcpserver

import (
	"fmt"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/mcpserver/calls"
)

const (
	// resultBytes are the bytes of a result, with some room below what hosts take.
	resultBytes = calls.MaxBytes - 2000
	// noteBytes is the room for what cutText adds.
	noteBytes = 100
	// seeFull tells how to get the rest of a message that was cut.
	seeFull = "see read_events with the detail full"
)

// cutText returns s, cut to so many bytes of JSON if it is longer, followed by how to get the rest.
func cutText(s string, bytes int, how string) string {
	kept := calls.Within(s, bytes)
	cut := len(s) - len(kept)
	if cut == 0 {
		return s
	}
	return kept + fmt.Sprintf("… (%d bytes more: %s)", cut, how)
}
