package runner

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/team"
)

// claimStep is how often a worker looks whether its claim is to be renewed. The shortest term is a
// minute.
const claimStep = 5 * time.Second

// claimKeeper keeps the claim of the run's issue in the git remote, which keeps the other machines of
// the team from the issue, and without which nothing is delivered.
type claimKeeper struct {
	*parts
	issue team.Issue

	looking sync.Mutex
	looked  team.Instant // when checkBeforeCall looked last
}

func (p *parts) newClaimKeeper() *claimKeeper {
	return &claimKeeper{
		parts: p,
		issue: team.IssueOf(p.run.Issue),
	}
}

// keep describes the claim of an issue on which an agent works, or whose commits are delivered.
func (k *claimKeeper) keep() team.Keep { return team.Keep{Issue: k.issue, Status: team.Working} }

// takeForDelivery claims the issue of work that waits for its delivery. It has no claim yet if claims
// were switched on meanwhile. If another machine has one, the first renewal ends the run.
func (k *claimKeeper) takeForDelivery(ctx context.Context, kind reconcile.RunKind) error {
	if k.Team == nil || kind != reconcile.DeliveryRun {
		return nil
	}
	missing, err := k.Team.Take(ctx, []team.Issue{k.issue})
	if err != nil {
		return err
	}
	return missing.Refused[k.issue.ID]
}

// startRenewing renews the claim until stop is called. It ends the run if another machine has the
// claim, or if the claim could not be renewed in time.
func (k *claimKeeper) startRenewing(ctx context.Context) (stop func()) {
	if k.Team == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		repeat(ctx, claimStep, func() {
			err := k.renew(ctx)
			if err != nil && ctx.Err() == nil {
				k.rec.cancel(err)
			}
		})
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// renew renews the claim if that is due. An error is the end of the run.
func (k *claimKeeper) renew(ctx context.Context) error {
	left, err := k.Team.Renew(ctx, k.keep())
	if team.IsLost(err) {
		return endOfLostClaim(err)
	}
	warn(k.Log, "claim not renewed", err)
	if left > 0 || err == nil {
		return nil
	}
	_, message := codeOf(err)
	return runEnd{
		reconcile.InterruptedRun,
		host.CodeClaimsUnavailable,
		"its claim in the remote could not be renewed before it ended: " + message,
	}
}

// These bound the looks at the claims before calls of the agent's tools: how often, and how long.
const (
	lookStep  = 5 * time.Second
	lookLimit = 10 * time.Second
)

// checkBeforeCall returns an error if another machine has the issue, before the agent calls a tool of the
// tracker. If the remote can't be asked, the claim counts as long as it holds.
func (k *claimKeeper) checkBeforeCall(ctx context.Context) error {
	if k.Team == nil {
		return nil
	}
	k.looking.Lock()
	defer k.looking.Unlock()
	now := k.Team.Clock()
	age, isKnown := now.Sub(k.looked)
	if !isKnown || age >= lookStep {
		bounded, cancel := context.WithTimeout(ctx, lookLimit)
		defer cancel()
		warn(k.Log, "claims not read before a call of a tool", k.Team.Look(bounded))
		k.looked = now
	}
	return k.renew(ctx)
}

// confirm returns an error unless this machine still has the claim. It comes before every step that
// people see, such as a move of the issue. Afterwards the claim says what was delivered last, and for
// which causes the pull request has brought the issue back.
func (k *claimKeeper) confirm(ctx context.Context, work reconcile.Delivered, watch reconcile.Watch) error {
	if k.Team == nil {
		return nil
	}
	keep := k.keep()
	keep.Branch = work.Branch
	keep.Commit = work.Commit
	keep.PullRequest = work.PullRequest
	keep.Handled, keep.Rounds = watch.Answered()
	return k.Team.Confirm(ctx, keep)
}

// takenElsewhere looks at the claims after a conflict of a delivery. It returns an error if another machine
// has the issue, whose work is then on the branch; nil if none has it, or if the remote can't be asked.
func (k *claimKeeper) takenElsewhere(ctx context.Context) error {
	if k.Team == nil {
		return nil
	}
	err := k.Team.Look(ctx)
	if err == nil {
		err = k.Team.Check(ctx, k.issue)
	}
	if team.IsLost(err) {
		return err
	}
	warn(k.Log, "claims not read after a conflict", err)
	return nil
}

// mayContinue looks at the claims before the work goes on from a branch that this machine knows nothing
// of. It returns an error if the branch belongs to another issue.
func (k *claimKeeper) mayContinue(ctx context.Context, branch string) error {
	if k.Team == nil {
		return nil
	}
	if err := k.Team.Look(ctx); err != nil {
		return err
	}
	return k.checkBranch(ctx, branch)
}

// checkBranch returns an error if the claim of another issue says that commits were delivered to a branch,
// as this machine saw it last: two projects that share a remote may have the same identifiers.
func (k *claimKeeper) checkBranch(ctx context.Context, branch string) error {
	if k.Team == nil {
		return nil
	}
	other, isOthers, err := k.Team.OtherIssueOn(ctx, branch, k.issue)
	if err != nil || !isOthers {
		return err
	}
	return reconcile.NewError(
		host.CodeInvalidBranch,
		fmt.Sprintf("the branch %s belongs to %s in another project (%s), which %s has",
			branch, other.Identifier, other.Project, other.Holder()),
		"begin repository.branch with a name of this project, such as web/{{ issue.identifier }}",
	)
}

// fence is the Fence of a delivery to a branch that may take as long as limit; nil without a team.
func (k *claimKeeper) fence(
	branch string,
	limit time.Duration,
) func(ctx context.Context, push host.PushFenced) error {
	if k.Team == nil {
		return nil
	}
	keep := k.keep()
	keep.Branch = branch
	return func(ctx context.Context, push host.PushFenced) error {
		return k.Team.Fence(ctx, keep, limit, push)
	}
}
