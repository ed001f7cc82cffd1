package runner

import (
	"context"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// otherPushes lets the agent of an issue take up what others push to the branch meanwhile.
type otherPushes struct {
	*parts
	branch *issueBranch

	// came lists others' pushes during the last turn, if the handover looked for them.
	came *host.Pushed
}

// returnForMerge drops the handover if others have pushed to the branch while the agent
// worked, and reports whether they have. The agent learns that in its next turn, and hands
// over again: without their commits nothing could be pushed.
func (p *otherPushes) returnForMerge(ctx context.Context, wish reconcile.Handover) bool {
	if wish.Blocked != "" {
		return false
	}
	pushed, err := p.branch.pushedMeanwhile(ctx)
	warn(p.Log, "branch not fetched", err)
	if pushed == nil {
		return false
	}
	p.Log.Info("others have pushed meanwhile", "commit", pushed.Commit)
	p.came = pushed
	p.rec.change(func(r *reconcile.Run) { r.Delivery.Handover = nil })
	return true
}

// catchUp looks before a further turn whether others pushed to the branch meanwhile. Its next turn
// tells the agent about them, once, unless it hands over without a merge.
func (p *otherPushes) catchUp(ctx context.Context) {
	came := p.came
	p.came = nil
	if came == nil {
		pushed, err := p.branch.pushedMeanwhile(ctx)
		warn(p.Log, "branch not fetched", err)
		if pushed == nil {
			return
		}
		told := p.branch.base.Pushed
		if told != nil && told.Commit == pushed.Commit {
			return
		}
		came = pushed
	}
	p.branch.takePushed(ctx, came)
}
