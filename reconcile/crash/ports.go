//go:build crashpoints

package crash

import (
	"context"

	"github.com/symphony-cron/symphony/reconcile"
)

// Deps puts points before and after each call of a pass to the tracker, and each that changes a process or workspace. The
// store has its own, see Method.
func Deps(d reconcile.Deps) reconcile.Deps {
	d.Runners = runners{d.Runners}
	if d.Tracker != nil {
		adapter := *d.Tracker
		adapter.Tracker = tracker{adapter.Tracker}
		d.Tracker = &adapter
	}
	return d
}

// Around is a pair of points around a call.
func Around[T any](name string, call func() (T, error)) (T, error) {
	At(name + ".before")
	v, err := call()
	At(name + ".after")
	return v, err
}

// AroundErr is Around for a call without an answer.
func AroundErr(name string, call func() error) error {
	_, err := Around(name, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

type tracker struct{ reconcile.Tracker }

func (t tracker) ByIDs(ctx context.Context, ids []string) (map[string]reconcile.Issue, error) {
	return Around("tracker.ByIDs", func() (map[string]reconcile.Issue, error) { return t.Tracker.ByIDs(ctx, ids) })
}

func (t tracker) Candidates(ctx context.Context, states []string) ([]reconcile.Issue, error) {
	return Around("tracker.Candidates", func() ([]reconcile.Issue, error) { return t.Tracker.Candidates(ctx, states) })
}

type runners struct{ reconcile.Runners }

func (r runners) Prepare(ctx context.Context, run reconcile.Run) error {
	return AroundErr("runners.Prepare", func() error { return r.Runners.Prepare(ctx, run) })
}

func (r runners) Start(ctx context.Context, run reconcile.Run) error {
	return AroundErr("runners.Start", func() error { return r.Runners.Start(ctx, run) })
}

func (r runners) Stop(ctx context.Context, run reconcile.Run) error {
	return AroundErr("runners.Stop", func() error { return r.Runners.Stop(ctx, run) })
}

func (r runners) Kill(ctx context.Context, run reconcile.Run) error {
	return AroundErr("runners.Kill", func() error { return r.Runners.Kill(ctx, run) })
}

func (r runners) Reap(ctx context.Context, run reconcile.Run, record func([]reconcile.Process) error) ([]reconcile.Process, error) {
	return Around("runners.Reap", func() ([]reconcile.Process, error) { return r.Runners.Reap(ctx, run, record) })
}
