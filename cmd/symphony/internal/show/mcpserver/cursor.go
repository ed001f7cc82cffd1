package mcpserver

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/reconcile"
)

// seen is the last news of an agent that a host got.
type seen struct {
	turn    int64 // the order of the last turn whose end it knows
	request int   // the number of the last request
	ended   int   // 1 if it ended
}

// cursorOf writes a host's knowledge of agents as a cursor, such as "a:3.1.0,b:0.0.1".
func cursorOf(known map[string]seen) string {
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(known)) {
		k := known[id]
		parts = append(parts, fmt.Sprintf("%s:%d.%d.%d", id, k.turn, k.request, k.ended))
	}
	return strings.Join(parts, ",")
}

// parseCursor reads a cursor that cursorOf wrote. Other cursors are refused.
func parseCursor(cursor string) (map[string]seen, error) {
	known := map[string]seen{}
	for part := range strings.SplitSeq(cursor, ",") {
		if part == "" {
			continue
		}
		id, numbers, _ := strings.Cut(part, ":")
		var k seen
		_, _ = fmt.Sscanf(numbers, "%d.%d.%d", &k.turn, &k.request, &k.ended) // compared below
		k.ended &= 1
		known[id] = k
	}
	if cursorOf(known) != cursor {
		return nil, reconcile.NewError(
			agents.CodeCursor,
			fmt.Sprintf("cursor %q is not one of wait_agent", cursor),
			"use the cursor of its last result, or none",
		)
	}
	return known, nil
}
