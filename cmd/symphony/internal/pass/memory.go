package pass

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/workers"
	"github.com/symphony-cron/symphony/state"
)

// What a pass leaves in the database for later passes, and what it deletes.

const lastGoodKey = "last_good_workflow"

// lastGoodConfig returns the last valid configuration, with which runs are reconciled while the present one is invalid.
// hasKey is false if the tracker's key stood in the file itself: that is never stored, so the tracker can't be asked.
func lastGoodConfig(ctx context.Context, p *project.Project, db *state.DB, r *Result) (cfg *workflow.Config, hasKey bool) {
	text, known, err := db.Meta(ctx, lastGoodKey)
	if err == nil && known {
		var src workflow.Source
		if src, err = workflow.NewSource(p.Path, p.Path, []byte(text)); err == nil {
			env := p.Environment(nil)
			env.KeyOptional = true
			cfg, err = workflow.Parse(src, env)
		}
	}
	if err != nil || !known {
		r.addError(err)
		return nil, false
	}
	if cfg.Tracker.APIKey == "" && strings.Contains(text, "$"+workflow.LiteralKeyVar) {
		r.Errors[0].Hint += "; until then the tracker can't be asked, because the key stood in the file itself and was not stored: write api_key: $" + workflow.APIKeyVar
	}
	return cfg, cfg.Tracker.APIKey != ""
}

// rootsKept is how many former workspace roots are remembered: every pass looks at each.
const rootsKept = 5

// loadOldRoots passes the former workspace roots on to the runners, which remove workspaces there when their issues are
// done. Unless readOnly, it remembers the present root.
func loadOldRoots(ctx context.Context, db *state.DB, runners *workers.Local, readOnly bool) error {
	roots, err := project.RootsOf(ctx, db)
	if err != nil {
		return err
	}
	runners.OldRoots = slices.DeleteFunc(slices.Clone(roots), func(r string) bool { return r == runners.Root })
	if readOnly || len(roots) > 0 && roots[0] == runners.Root {
		return nil
	}
	roots = append([]string{runners.Root}, runners.OldRoots...)
	next, err := json.Marshal(roots[:min(len(roots), rootsKept)])
	if err != nil {
		return fmt.Errorf("%s: %w", project.RootsKey, err)
	}
	return db.SetMeta(ctx, project.RootsKey, string(next))
}

// saveLowBudget stores until when the tracker's request budget is low, and warns about it. until is the time that earlier
// passes stored.
func saveLowBudget(ctx context.Context, p *project.Project, db *state.DB, tracker *reconcile.TrackerAdapter, until time.Time, r *Result) error {
	if tracker == nil || tracker.Budget == nil {
		return nil
	}
	if b := tracker.Budget(); !b.At.IsZero() {
		until = b.LowUntil()
	}
	if r.TrackerLow {
		r.warn("less than a tenth of the tracker's allowance is left: until " + until.UTC().Format(time.RFC3339) + " passes look at running issues only")
	}
	text := ""
	if until.After(p.Env.Now()) {
		text = until.UTC().Format(time.RFC3339)
	}
	return db.SetMeta(ctx, project.LowKey, text)
}

const (
	prunedPerPass = 50  // old runs
	orphanEvery   = 500 // passes
)

// removeOldRuns deletes old runs and their directories.
func removeOldRuns(ctx context.Context, p *project.Project, db *state.DB, r *Result) {
	ids, err := db.Store.Prune(ctx, p.Env.Now(), prunedPerPass)
	r.addError(err)
	for _, id := range ids {
		crash.At("tidy.pruned")
		if err := os.RemoveAll(runner.RunDir(p.StateDir, id)); err != nil {
			r.addError(fmt.Errorf("old run: %w", err))
		}
	}
	if r.Pass.ID%orphanEvery != 0 {
		return
	}
	if err := removeOrphans(ctx, p, db); err != nil {
		r.addError(fmt.Errorf("run directories: %w", err))
	}
}

// removeOrphans deletes run directories without a row, left by a pass that was killed between the two deletions.
func removeOrphans(ctx context.Context, p *project.Project, db *state.DB) error {
	orphans, err := project.Rowless(ctx, p, db)
	for _, e := range orphans {
		info, err := e.Info()
		if err != nil || p.Env.Now().Sub(info.ModTime()) < project.OrphanAge || project.Alive(p.StateDir, e.Name()) {
			continue // deleted meanwhile, just being created, or of a takeover, which has no row
		}
		if err := os.RemoveAll(runner.RunDir(p.StateDir, e.Name())); err != nil {
			return err
		}
	}
	return err
}
