package operate

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// A run of almost a minute is not said to have taken 60.0s.
func TestStoppedRunText(t *testing.T) {
	for ms, want := range map[int64]string{
		1_250:  "stopped ABC-1 after 1.2s: free, no workspace",
		59_940: "stopped ABC-1 after 59.9s: free, no workspace",
		59_970: "stopped ABC-1 after 59.9s: free, no workspace",
	} {
		row := StoppedRun{Identifier: "ABC-1", AfterMS: ms, Claim: "free"}
		test.Equal(t, "the line", row.text(reconcile.Run{Outcome: reconcile.Canceled}), want)
	}
}
