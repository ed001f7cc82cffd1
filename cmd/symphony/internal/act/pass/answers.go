package pass

import (
	"context"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/answers"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/feedback"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// exchangeComments asks operators in comments, reads their replies, and says in comments why issues
// are held. It is left to the next pass if the tracker failed just before.
func (c *current) exchangeComments(ctx context.Context, t *reconcile.TrackerAdapter) {
	cfg := c.r.Config.Tracker
	explains := cfg.Folder == "" // who has a folder has the views, too
	if t == nil || !explains && len(cfg.Operators) == 0 || ctx.Err() != nil {
		return
	}
	for _, e := range c.r.Errors {
		if reconcile.ClassOf(e) == reconcile.ClassTracker {
			return
		}
	}
	if problem := wiring.NoComments(t); problem != nil {
		if len(cfg.Operators) > 0 {
			c.r.warn(problem.Message + ": " + problem.Hint)
		}
		return
	}
	at, err := view.Instant()
	if err != nil {
		c.r.addError(err)
		return
	}
	exchange := answers.Exchange{
		Tracker:      t,
		DB:           c.db,
		Operators:    cfg.Operators,
		ExplainHolds: explains,
		Now:          c.p.Env.Now,
		At:           at,
		Alive:        func(runID string) bool { return wiring.Alive(c.p.StateDir, runID) },
	}
	if c.o.Trigger != wiring.TriggerWorker { // nothing reads the output of such a pass
		exchange.Ignore = func(issue, reply string) { c.p.Env.Warn(issue + ": ignored " + reply) }
	}
	for _, err := range exchange.Pass(ctx) {
		c.r.addError(err)
	}
}

// takeOver takes over the reviews of machines of the team that are not heard of any more.
func (c *current) takeOver(ctx context.Context, t *reconcile.TrackerAdapter) {
	if c.team == nil || t == nil || len(c.o.Only) > 0 || ctx.Err() != nil {
		return
	}
	err := c.team.TakeOver(ctx, t, c.r.Config.Handoff.State)
	c.r.addError(exit.About("taking over from other machines", err))
}

// watchPulls brings issues back for which their pull requests ask, in a pass over all issues.
func (c *current) watchPulls(ctx context.Context, t *reconcile.TrackerAdapter) {
	cfg := c.r.Config
	forge := wiring.NewForge(c.p, cfg, c.db)
	if t == nil || !cfg.Feedback.On() || forge == nil || len(c.o.Only) > 0 || ctx.Err() != nil {
		return
	}
	watcher := feedback.Watcher{
		Check: c.team.CheckFresh,
		Mirror: func(ctx context.Context, use func(host.Merges) error) error {
			return wiring.WithMirror(ctx, c.p, cfg, use)
		},
		Tracker:  t,
		DB:       c.db,
		Feedback: cfg.Feedback,
		Policy:   wiring.Policy(cfg),
		Handoff:  cfg.Handoff.State,
		Now:      c.p.Env.Now,
		Most:     cfg.Repository.ForgeKind().MaxPulls,
		Forge:    func(ctx context.Context) (*reconcile.Forge, error) { return forge(ctx, c.p.Env.Environ) },
	}
	if c.team != nil {
		watcher.Team = c.team.Member
	}
	for _, err := range watcher.Pass(ctx) {
		c.r.addError(err)
	}
}
