package wiring

import (
	"maps"
	"slices"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// Each kind of forge that a workflow may name has an adapter.
func TestForgesHaveAdapters(t *testing.T) {
	names := slices.Sorted(slices.Values(workflow.ForgeNames()))
	test.Equal(t, "adapters", slices.Sorted(maps.Keys(forgeAdapters)), names)
}
