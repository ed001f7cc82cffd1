package wiring

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/state"
)

// An engine of the workflow that is missing here must be taken neither for another engine nor
// for a machine that ssh reaches.
func TestEachEngineStartsJobs(t *testing.T) {
	test.Equal(
		t,
		"engines",
		slices.Sorted(maps.Keys(jobEngines)),
		slices.Sorted(slices.Values(workflow.Engines())),
	)
	slurm := jobEngines[workflow.EngineSlurm]
	delete(jobEngines, workflow.EngineSlurm)
	t.Cleanup(func() { jobEngines[workflow.EngineSlurm] = slurm })

	ctx := t.Context()
	p := &Project{Env: &environ.Env{}, StateDir: t.TempDir()}
	db := test.Must(state.Create(ctx, p.StateDir, time.Now()))
	t.Cleanup(func() { _ = db.Close() })
	_, _, err := NewEngine(ctx, p, db, "slurm", workflow.Worker{})
	_, askErr := AskHost(ctx, p, "slurm")
	visitErr := Visit(
		ctx,
		p,
		db,
		reconcile.Run{Host: "slurm"},
		"diff",
		func(context.Context, host.Machine) error { return nil },
	)
	for name, err := range map[string]error{"start": err, "ask": askErr, "visit": visitErr} {
		test.Contains(t, name, fmt.Sprint(err), `no engine for worker.engine.kind "slurm"`)
	}
}
