package pass

import (
	"context"
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// dryPass plans on what is there and changes nothing: no lock, no directory, no row.
func dryPass(ctx context.Context, p *project.Project, o Options, cfg *workflow.Config, cfgErr error) (r Result, err error) {
	r.dryRun = true
	if cfgErr != nil {
		return r, cfgErr
	}
	r.Cfg, r.warnings = cfg, workflowWarnings(p, cfg)
	if err := project.RootFits(p, cfg, true); err != nil {
		return r, err
	}
	deps, err := passDeps(p, nil, cfg, o, true, &r)
	if err != nil {
		return r, err
	}
	deps.Store = emptyStore{}
	if p.HasState() {
		db, err := state.OpenReadOnly(ctx, p.StateDir)
		if err != nil {
			return r, err
		}
		defer db.Close()
		if _, err := project.OriginalPath(ctx, p, db); err != nil {
			return r, err
		}
		if _, err := project.OwnerPath(ctx, p, db); err != nil {
			return r, err
		}
		if err := rememberRoots(ctx, p, db, deps.Runners, true); err != nil {
			return r, err
		}
		deps.Store = db
	}
	r.Pass = state.Pass{Trigger: o.Trigger, StartedAt: p.Env.Now()}
	report := reconcile.Tick(ctx, deps, reconcile.Options{DryRun: true, Only: o.Only, AnySlot: o.AnySlot})
	report.Errors = slices.Concat(r.Errors, report.Errors)
	r.Report = report
	r.Pass.Duration = p.Env.Now().Sub(r.Pass.StartedAt)
	return r, nil
}

// emptyStore is what a dry run reads where no pass has run yet; it calls nothing else.
type emptyStore struct{ reconcile.Store }

// State implements reconcile.Store.
func (emptyStore) State(context.Context) (reconcile.State, error) {
	return reconcile.State{}, nil
}
