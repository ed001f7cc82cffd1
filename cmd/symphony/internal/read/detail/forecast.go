package detail

import (
	"context"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile"
)

// forecast tells how the next pass would act on an issue, as far as is known now. The zero
// value means unknown.
type forecast struct {
	action reconcile.ActionKind // dispatch, hold, release or none
	// reason is the code and message the sentence why it would not start: the planner skips it,
	// or no pass sees it at all.
	reason  string
	message string
	next    string // what a person has to do first; empty if nothing
	stuck   bool   // the planner skips it until a person has done that
}

// forecast asks the planner about an issue that waits or is not claimed, at the time at which
// it is due. Nothing of the plan is carried out.
func (r *issueReader) forecast(ctx context.Context) (f forecast, err error) {
	if r.Config == nil || r.issue == nil || r.claim != nil && r.claim.Status != reconcile.Waiting {
		return f, nil
	}
	policy := wiring.PassPolicy(r.Project, r.Config)
	if r.claim == nil {
		f = r.unseen(policy)
		if f.reason != "" || r.source != SourceTracker {
			return f, nil // without the tracker's answer the issue may have changed since
		}
	}
	s, err := r.snapshot(ctx, policy)
	if err != nil {
		return f, err
	}
	plan := reconcile.Compute(s)
	isBlocked := func(skip reconcile.Skip) bool { return skip.Reason == reconcile.SkipBlockedBy }
	if r.claim == nil && slices.ContainsFunc(plan.Skips, isBlocked) {
		plan = r.amongOthers(ctx, s, plan)
	}
	for _, skip := range slices.Concat(plan.Skips, plan.Waits) {
		if skip.IssueID == r.id {
			f.reason = skip.Reason
			f.message = skip.Message
			f.next = skip.Mend
			f.stuck = skip.Stuck()
			return f, nil
		}
	}
	for _, a := range plan.Actions {
		switch {
		case a.IssueID != r.id:
		case f.action != "": // the first action about the issue tells
		case a.Kind == reconcile.ActDispatch, a.Kind == reconcile.ActDeliver:
			f.action = a.Kind
		case a.Kind == reconcile.ActHold && a.Change != nil && a.Change.Claim != nil:
			f.action = a.Kind
			f.reason = "hold_" + a.Reason
			f.message = a.Change.Claim.HoldMessage
		case a.Kind == reconcile.ActRelease:
			f.action = a.Kind
			f.reason = "release_" + a.Reason
			f.message = a.Message
		}
	}
	// of other machines and projects only passes know
	byOthers := []string{reconcile.SkipElsewhere, reconcile.SkipClaimRefused}
	if r.claim == nil && r.skipped && slices.Contains(byOthers, r.skip.Reason) {
		f = forecast{reason: r.skip.Reason, message: r.skip.Message}
	}
	return f, nil
}

// amongOthers plans again with the other candidates, as a pass does: only among them it can be
// seen that an issue waits for itself, over its blockers. Without them the plan stays.
func (r *issueReader) amongOthers(
	ctx context.Context,
	s reconcile.Snapshot,
	plan reconcile.Plan,
) reconcile.Plan {
	bounded, cancel := context.WithTimeout(ctx, trackerPatience)
	defer cancel()
	candidates, err := wiring.FetchCandidates(bounded, r.Project)
	if err != nil {
		return plan
	}
	tracked := *s.Tracker
	tracked.Candidates = candidates
	s.Tracker = &tracked
	return reconcile.Compute(s)
}

// unseen is why no pass sees an issue that is not claimed; the zero value if passes see it.
func (r *issueReader) unseen(policy reconcile.Policy) forecast {
	const never = "nothing to do: no agent works on such an issue"
	state := r.issue.State
	switch {
	case r.issue.Elsewhere:
		within := r.Config.Tracker.Within()
		return forecast{
			reason:  "other_project",
			message: "it is not in the " + within,
			next:    "a pass starts it once it is in the " + within,
		}
	case r.issue.Archived:
		return forecast{reason: "archived", message: reconcile.MessageArchived, next: never}
	case policy.Terminal(state):
		return forecast{reason: "terminal", message: "its state is " + state, next: never}
	case !policy.Active(state) && r.issue.StateMeant == "":
		next := "a pass starts it once its state is " + strings.Join(r.Config.Policy.ActiveStates, " or ")
		return forecast{reason: "not_active", message: "its state is " + state, next: next}
	}
	return forecast{}
}

// snapshot returns the snapshot of a pass for this issue alone at the time at which the issue
// is due.
func (r *issueReader) snapshot(ctx context.Context, policy reconcile.Policy) (reconcile.Snapshot, error) {
	runners, err := wiring.NewRunners(r.Project, r.Config)
	if err != nil {
		return reconcile.Snapshot{}, err
	}
	workspaces, err := runners.Workspaces(ctx)
	if err != nil {
		return reconcile.Snapshot{}, err
	}
	// ps shows the accounts' faults
	accounts := wiring.OpenPassAccounts(r.Project, policy, func(string) {})
	s := reconcile.Snapshot{
		Now:        latest(r.due(), r.Now).In(r.Project.Env.Now().Location()),
		Boot:       r.Instant.Boot,
		Mono:       r.Instant.Mono,
		Policy:     policy,
		State:      r.Recorded,
		Options:    reconcile.Options{Only: []string{r.id}},
		Workspaces: slices.Concat(workspaces, r.Recorded.RemoteWorkspaces),
		Liveness:   map[string]reconcile.Liveness{},
		FreeBytes:  runners.FreeBytes(),
		Tracker: &reconcile.Tracked{
			Refreshed:  map[string]bool{r.id: true},
			ByID:       map[string]reconcile.Issue{r.id: *r.issue},
			Candidates: []reconcile.Issue{*r.issue},
			Fetched:    true,
		},
	}
	s.Commands = nil // the view names commands that wait, whatever they would change
	if reconcile.DayOf(s.Now) == reconcile.DayOf(r.Now) {
		s.Today = r.Today
	}
	s.Accounts = accounts.Look(ctx, s.Now)
	s.Slots, err = accounts.TakeSlots(ctx, 1, true)
	if err != nil {
		return s, err
	}
	for _, run := range r.Recorded.Runs {
		alive := wiring.Alive(r.Project.StateDir, run.ID)
		s.Liveness[run.ID] = reconcile.Liveness{
			Alive:   alive,
			Unknown: !alive && !wiring.WorkerDead(r.Project, run),
		}
	}
	return s, nil
}
