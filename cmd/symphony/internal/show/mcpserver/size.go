package mcpserver

import (
	"fmt"

	"github.com/symphony-cron/symphony/internal/text"
)

const (
	// maxRead limits the content of a result, in bytes, to less than the 25,000 tokens that
	// hosts take.
	maxRead = 64 << 10
	// seeFull tells how to get the rest of a message that was cut.
	seeFull = "see read_events with the detail full"
)

// cutText returns s, cut to limit bytes if it is longer, followed by how to get the rest.
func cutText(s string, limit int, how string) string {
	kept := text.Within(s, limit)
	cut := len(s) - len(kept)
	if cut == 0 {
		return s
	}
	return kept + fmt.Sprintf("… (%d bytes more: %s)", cut, how)
}
