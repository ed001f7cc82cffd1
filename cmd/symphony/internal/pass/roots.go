package pass

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/state"
)

// rootsKept is how many roots are remembered: each is looked at by every pass.
const rootsKept = 5

// rememberRoots lets the runners know the roots that the workflow named before, so that what was made there is cleaned
// up when its issue is done. The present one is remembered for later.
func rememberRoots(ctx context.Context, p *project.Project, db *state.DB, runners reconcile.Runners, dryRun bool) error {
	local, ok := runners.(*runner.Local)
	if !ok {
		return nil
	}
	text, known, err := db.Meta(ctx, project.RootsKey)
	if err != nil {
		return err
	}
	var roots []string
	if known {
		if err := json.Unmarshal([]byte(text), &roots); err != nil {
			return fmt.Errorf("%s: %w", project.RootsKey, err)
		}
	}
	local.OldRoots = slices.DeleteFunc(slices.Clone(roots), func(r string) bool { return r == local.Root })
	if dryRun || len(roots) > 0 && roots[0] == local.Root {
		return nil
	}
	roots = append([]string{local.Root}, local.OldRoots...)
	next, err := json.Marshal(roots[:min(len(roots), rootsKept)])
	if err != nil {
		return fmt.Errorf("%s: %w", project.RootsKey, err)
	}
	return db.SetMeta(ctx, project.RootsKey, string(next))
}
