package view

import (
	"context"
	"fmt"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// Reasons for which no pass sees an issue at all.
const (
	outsideProject  = "other_project"
	outsideArchived = "archived"
	outsideTerminal = "terminal"
	outsideInactive = "not_active"
)

// forecast is what a pass would do with one issue, by what is known now. The zero value is: not known.
type forecast struct {
	starts bool
	// reason and message say why it would not start: a Skip of the planner, or one of the reasons above.
	reason, message string
	hold            *reconcile.Claim // the claim that it would put on hold
	releases        bool
	limit           *reconcile.Limit // of codex's account, where it stops every issue
	accountFull     bool             // all slots of the account are taken
}

// forecast asks the planner about an issue that waits or is not claimed, at the time at which it is due. Nothing of the
// plan is carried out.
func (r *issueReader) forecast(ctx context.Context) (forecast, error) {
	if r.cfg == nil || r.issue == nil || r.claim != nil && r.claim.Status != reconcile.Waiting {
		return forecast{}, nil
	}
	policy := project.Policy(r.cfg)
	if r.claim == nil {
		if f := r.outside(policy); f.reason != "" {
			return f, nil
		}
		if r.source != SourceTracker {
			return forecast{}, nil // the issue may have changed since
		}
	}
	s, err := r.snapshot(ctx, policy)
	if err != nil {
		return forecast{}, err
	}
	f := forecastOf(reconcile.Compute(s), r.id)
	f.limit = s.Account.Limit
	f.accountFull = s.Account.Slots != nil && s.Account.Slots.Free <= 0
	return f, nil
}

func (r *issueReader) outside(policy reconcile.Policy) forecast {
	switch state := r.issue.State; {
	case r.issue.Elsewhere:
		return forecast{reason: outsideProject, message: "it is not in the project " + r.cfg.Tracker.ProjectSlug}
	case r.issue.Archived:
		return forecast{reason: outsideArchived, message: "it is archived"}
	case policy.Terminal(state):
		return forecast{reason: outsideTerminal, message: fmt.Sprintf("its state %s is terminal", state)}
	case !policy.Active(state):
		return forecast{reason: outsideInactive, message: fmt.Sprintf("its state %s is not active", state)}
	}
	return forecast{}
}

// snapshot is that of a pass for this issue alone, at the time at which the issue is due.
func (r *issueReader) snapshot(ctx context.Context, policy reconcile.Policy) (reconcile.Snapshot, error) {
	boot, err := proc.BootID()
	if err != nil {
		return reconcile.Snapshot{}, fmt.Errorf("boot id: %w", err)
	}
	runners, err := project.NewRunners(r.p, r.cfg)
	if err != nil {
		return reconcile.Snapshot{}, err
	}
	account := project.OpenPassAccount(r.p, r.cfg.Codex.Home, func(string) {}) // ps shows the account's faults
	s := reconcile.Snapshot{
		Now: latest(r.due(), r.now), Boot: boot, Mono: proc.Monotonic(), Policy: policy,
		State: r.recorded, Options: reconcile.Options{Only: r.id},
		Liveness: map[string]reconcile.Liveness{}, FreeBytes: runners.FreeBytes(),
		Tracker: &reconcile.Tracked{
			Asked: map[string]bool{r.id: true}, ByID: map[string]reconcile.Issue{r.id: *r.issue},
			Candidates: []reconcile.Issue{*r.issue}, Fetched: true,
		},
	}
	s.Commands = nil
	s.Account, s.Tracker.Low = account.Look(ctx, s.Now), r.low.After(s.Now)
	if s.Account.Slots, err = account.TakeSlots(ctx, 1, true); err != nil {
		return s, err
	}
	for _, run := range r.recorded.Runs {
		alive := project.Alive(r.p.StateDir, run.ID)
		s.Liveness[run.ID] = reconcile.Liveness{Alive: alive, Pending: !alive && !project.WorkerDead(r.p, run)}
	}
	return s, nil
}

// forecastOf finds in a plan what it does with the issue.
func forecastOf(plan reconcile.Plan, id string) forecast {
	for _, list := range [][]reconcile.Skip{plan.Skips, plan.Waits} {
		for _, s := range list {
			if s.IssueID == id {
				return forecast{reason: s.Reason, message: s.Message}
			}
		}
	}
	for _, a := range plan.Actions {
		switch {
		case a.IssueID != id:
		case a.Kind == reconcile.ActDispatch:
			return forecast{starts: true}
		case a.Kind == reconcile.ActHold && a.Change != nil && a.Change.Claim != nil:
			return forecast{reason: "hold_" + a.Reason, hold: a.Change.Claim}
		case a.Kind == reconcile.ActRelease:
			return forecast{reason: "release_" + a.Reason, message: a.Message, releases: true}
		}
	}
	return forecast{}
}
