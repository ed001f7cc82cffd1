package project

import (
	"context"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

// fits checks the workspace root before anything is dispatched into it.
func RootFits(p *Project, cfg *workflow.Config, dryRun bool) error {
	root := Resolve(cfg.Workspace.Root)
	for _, dir := range cfg.Agent.WritableRoots {
		dir = Resolve(dir)
		if Within(root, dir) || Within(dir, root) || Within(p.StateDir, dir) || Within(dir, p.StateDir) {
			return &reconcile.Error{
				Code: "invalid_config", Message: fmt.Sprintf("%s: agent.writable_roots: %s would let an agent write other workspaces or symphony's state", p.Path, dir),
				Hint: "name a directory apart from workspace.root and the state directory",
			}
		}
	}
	if dryRun {
		return WorkspaceError(workspace.CheckRoot(root, cfg.Policy().Project, p.StateDir))
	}
	opened, err := workspace.OpenRoot(root)
	if err != nil {
		return WorkspaceError(err)
	}
	return WorkspaceError(opened.ClaimProject(cfg.Policy().Project, p.StateDir))
}

// handsOff are the runners of a pass whose workspace root it may not use: what lies there may be somebody else's,
// so nothing in it is removed. Runs that were started before are looked after as ever.
type HandsOff struct{ reconcile.Runners }

// Workspaces implements reconcile.Runners.
func (HandsOff) Workspaces(context.Context) ([]reconcile.Workspace, error) { return nil, nil }

// TrashDue implements reconcile.Runners.
func (HandsOff) TrashDue(time.Time, int64, int64) (bool, error) { return false, nil }
