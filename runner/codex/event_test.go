package codex

import (
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/runner/agent"
)

// TestEventsAfterTheEnd checks that events emitted after the agent's end are delivered too, the end of the turn above all.
func TestEventsAfterTheEnd(t *testing.T) {
	for range 50 {
		_, p, wait := inTurn(t, t.Context(), agent.Options{})
		if err := p.out.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := wait(); err == nil {
			t.Fatal("the turn ended well")
		}
		if names := p.names(); !strings.HasSuffix(names, agent.EventTurnEndedWithError) {
			t.Fatalf("events: %s", names)
		}
	}
}
