package wiring

import (
	"fmt"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// A kind of tracker without an adapter must not be taken for another kind.
func TestEachKindHasAnAdapter(t *testing.T) {
	for _, kind := range append(workflow.TrackerKinds(), "trello") {
		p := &Project{Env: &environ.Env{Now: time.Now}, StateDir: t.TempDir()}
		cfg := &workflow.Config{}
		cfg.Tracker.Kind = kind
		_, err := NewTracker(p, cfg, TrackerOptions{})
		if kind == "trello" {
			test.Contains(t, kind, fmt.Sprint(err), "unsupported_tracker_kind: ", kind)
		} else {
			test.Lacks(t, kind, fmt.Sprint(err), "unsupported_tracker_kind")
		}
	}
}
