package view

import (
	"context"
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile"
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
	starts, holds, releases bool
	// reason and message say why it would not start: a Skip of the planner, or one of the reasons above.
	reason, message string
	limit           *reconcile.Limit // of codex's account, where it stops every issue
	accountFull     bool             // all slots of the account are taken
}

// forecast asks the planner about an issue that waits or is not claimed, at the time at which it is due. Nothing of the
// plan is carried out.
func (r *issueReader) forecast(ctx context.Context) (f forecast, err error) {
	if r.cfg == nil || r.issue == nil || r.claim != nil && r.claim.Status != reconcile.Waiting {
		return f, nil
	}
	policy := project.Policy(r.cfg)
	if r.claim == nil {
		switch state := r.issue.State; {
		case r.issue.Elsewhere:
			return forecast{reason: outsideProject, message: "it is not in the project " + r.cfg.Tracker.ProjectSlug}, nil
		case r.issue.Archived:
			return forecast{reason: outsideArchived, message: "it is archived"}, nil
		case policy.Terminal(state):
			return forecast{reason: outsideTerminal, message: "its state " + state + " is terminal"}, nil
		case !policy.Active(state):
			return forecast{reason: outsideInactive, message: "its state " + state + " is not active"}, nil
		case r.source != SourceTracker:
			return f, nil // the issue may have changed since
		}
	}
	s, err := r.snapshot(ctx, policy)
	if err != nil {
		return f, err
	}
	f.limit = s.Account.Limit
	f.accountFull = s.Account.Slots != nil && s.Account.Slots.Free <= 0
	plan := reconcile.Compute(s)
	for _, skip := range slices.Concat(plan.Skips, plan.Waits) {
		if skip.IssueID == r.id {
			f.reason, f.message = skip.Reason, skipSentence(skip)
			return f, nil
		}
	}
	for _, a := range plan.Actions {
		switch {
		case a.IssueID != r.id || f.reason != "":
		case a.Kind == reconcile.ActDispatch:
			f.starts = true
			return f, nil
		case a.Kind == reconcile.ActHold && a.Change != nil && a.Change.Claim != nil:
			f.holds, f.reason, f.message = true, "hold_"+a.Reason, a.Change.Claim.HoldMessage
		case a.Kind == reconcile.ActRelease:
			f.releases, f.reason, f.message = true, "release_"+a.Reason, a.Message
		}
	}
	return f, nil
}

// snapshot is that of a pass for this issue alone, at the time at which the issue is due.
func (r *issueReader) snapshot(ctx context.Context, policy reconcile.Policy) (reconcile.Snapshot, error) {
	runners, err := project.NewRunners(r.p, r.cfg)
	if err != nil {
		return reconcile.Snapshot{}, err
	}
	account := project.OpenPassAccount(r.p, r.cfg.Codex.Home, func(string) {}) // ps shows the account's faults
	s := reconcile.Snapshot{
		Now: latest(r.due(), r.now), Boot: r.instant.Boot, Mono: r.instant.Mono, Policy: policy,
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
