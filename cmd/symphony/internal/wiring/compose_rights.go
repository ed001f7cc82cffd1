package wiring

import (
	"context"
	"fmt"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// Rights keep agents from starting while the tokens of the workflow lack a right that their work needs in
// the end: to change issues, to read pull requests, to merge. They implement reconcile.IssueClaims. The
// tracker and the forge are asked before the first agent starts, and again if the workflow names others.
type Rights struct {
	reconcile.NoClaims
	Project *Project
	Config  *workflow.Config
	DB      *state.DB
	Tracker *reconcile.TrackerAdapter
}

// rightsKey is the name under which the database has what was asked about when nothing was missing.
const rightsKey = "rights"

// Take implements reconcile.IssueClaims: it takes all issues, or returns the missing right as its error.
func (r Rights) Take(ctx context.Context, _ []reconcile.Issue, dryRun bool) (not reconcile.NotTaken, err error) {
	repository := r.Config.Repository
	asked := fmt.Sprintf(
		"%q %q %q %t",
		r.Config.Policy.Project,
		r.Config.Handoff.State,
		repository.OwnerName,
		r.Config.Feedback.Merge.On(),
	)
	known, _, err := r.DB.Meta(ctx, rightsKey)
	if err != nil || dryRun || known == asked {
		return not, err
	}
	if r.Tracker.Verify != nil && r.Config.Handoff.State != "" {
		found, err := r.Tracker.Verify(ctx, TrackerNames(r.Config))
		if err != nil {
			return not, err
		}
		if found.Denied != nil {
			return not, reconcile.NewError("tracker_api_status", found.Denied.Message, found.Denied.Hint)
		}
	}
	if err := r.askForge(ctx); err != nil {
		return not, err
	}
	return not, r.DB.SetMeta(ctx, rightsKey, asked)
}

func (r Rights) askForge(ctx context.Context) error {
	connect := NewForge(r.Project, r.Config, r.DB)
	if connect == nil {
		return nil
	}
	forge, err := connect(ctx, r.Project.Env.Environ)
	if err != nil && r.Config.Repository.ForgeKind().Gh {
		return nil // a run may find the login of gh, whose login shell has another PATH
	}
	if err != nil {
		return err
	}
	return CheckForge(ctx, r.Config, forge)
}

// CheckForge reads a pull request, and looks whether the account may merge if the workflow wants that.
func CheckForge(ctx context.Context, cfg *workflow.Config, forge *reconcile.Forge) error {
	if _, err := forge.Read(ctx, []int{1}); err != nil { // there need not be one
		return err
	}
	if !cfg.Feedback.Merge.On() || forge.MayMerge == nil {
		return nil
	}
	may, err := forge.MayMerge(ctx, cfg.Repository.Base)
	if err != nil || may {
		return err
	}
	return reconcile.NewError(
		"forge_api_status",
		"the account of the token for "+cfg.Repository.OwnerName+" may not merge there, as merge.when wants",
		"give the account the right to write, and to merge into the base if that is protected, or leave out merge.when",
	)
}
