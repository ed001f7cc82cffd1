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
	agent  *issueAgent

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

// catchUp looks before a further turn whether others pushed to the branch meanwhile. The
// workspace is moved to their commits, where that is possible; for that the agent ends, with
// all its processes. Its next turn tells the agent about them, once, unless it hands over
// without a merge. A commit to which the workspace could not be moved in this run is not tried
// again.
func (p *otherPushes) catchUp(ctx context.Context) error {
	came := p.came
	p.came = nil
	if came == nil {
		pushed, err := p.branch.pushedMeanwhile(ctx)
		warn(p.Log, "branch not fetched", err)
		if pushed == nil {
			return nil
		}
		if p.told(pushed) {
			return nil
		}
		came = pushed
	}
	switch {
	case p.told(came) && came.TakenWithoutAgent: // a fetch of this run has found why it can't be
		came.Why = p.branch.base.Pushed.Why
	case came.TakenWithoutAgent:
		p.agent.pause(ctx)
		if err := p.processes.killAll(ctx); err != nil {
			return err
		}
		taken, err := p.branch.fetchPushed(ctx)
		if err != nil { // it may have begun: the next run goes on with it
			return err
		}
		if taken != nil {
			came = taken
		}
	}
	p.branch.takePushed(ctx, came)
	return nil
}

// told reports whether this run has told its agent to merge the newest of these commits.
func (p *otherPushes) told(pushed *host.Pushed) bool {
	before := p.branch.base.Pushed
	return before != nil && !before.Taken && before.Commit == pushed.Commit
}
