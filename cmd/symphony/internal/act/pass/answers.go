package pass

import (
	"context"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/answers"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/feedback"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// wantsComments reports whether the workflow wants passes to comment on issues.
func wantsComments(t workflow.Tracker) bool { return len(t.Operators) > 0 || t.ExplainHolds }

// exchangeComments asks operators in comments, and reads their replies. It is left to the next
// pass if the tracker failed just before.
func exchangeComments(
	ctx context.Context,
	p *wiring.Project,
	db *state.DB,
	o Options,
	t *reconcile.TrackerAdapter,
	r *Result,
) {
	cfg := r.Config.Tracker
	if t == nil || !wantsComments(cfg) || ctx.Err() != nil {
		return
	}
	for _, e := range r.Errors {
		if reconcile.ClassOf(e) == reconcile.ClassTracker {
			return
		}
	}
	if problem := wiring.NoComments(t); problem != nil {
		r.warn(problem.Message + ": " + problem.Hint)
		return
	}
	at, err := view.Instant()
	if err != nil {
		r.addError(err)
		return
	}
	exchange := answers.Exchange{
		Tracker:      t,
		DB:           db,
		Operators:    cfg.Operators,
		ExplainHolds: cfg.ExplainHolds,
		Now:          p.Env.Now,
		At:           at,
		Alive:        func(runID string) bool { return wiring.Alive(p.StateDir, runID) },
	}
	if o.Trigger != wiring.TriggerWorker { // nothing reads the output of such a pass
		exchange.Ignore = func(issue, reply string) { p.Env.Warn(issue + ": ignored " + reply) }
	}
	for _, err := range exchange.Pass(ctx) {
		r.addError(err)
	}
}

// watchPulls brings issues back for which their pull requests ask, in a pass over all issues.
func watchPulls(
	ctx context.Context,
	p *wiring.Project,
	db *state.DB,
	o Options,
	t *reconcile.TrackerAdapter,
	r *Result,
) {
	cfg := r.Config
	forge := wiring.NewForge(p, cfg, db)
	if t == nil || !cfg.Feedback.On() || forge == nil || len(o.Only) > 0 || ctx.Err() != nil {
		return
	}
	watcher := feedback.Watcher{
		Tracker:  t,
		DB:       db,
		Feedback: cfg.Feedback,
		Policy:   wiring.Policy(cfg),
		Handoff:  cfg.Handoff.State,
		Now:      p.Env.Now,
		Forge:    func(ctx context.Context) (*reconcile.Forge, error) { return forge(ctx, p.Env.Environ) },
	}
	for _, err := range watcher.Pass(ctx) {
		r.addError(err)
	}
}
