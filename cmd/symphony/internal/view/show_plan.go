package view

import (
	"context"
	"fmt"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// forecast is what the planner says of one issue, on what is known now.
type forecast struct {
	// starts: nothing keeps it, at that time.
	starts bool
	// reason and message say what keeps it, or what is done with it instead; both empty where the planner was not asked.
	reason, message string
	// limit is that of codex's account, where it keeps every issue; nil for none.
	limit *reconcile.Limit
	// full: all slots of the account are taken, which nobody passes by.
	full bool
}

// planFor asks the planner of a pass about an issue that waits or is not claimed: at the time at which it is due, with
// the tracker's record as it is known here. Nothing of it is carried out.
func planFor(ctx context.Context, p *project.Project, f *issueFacts) (forecast, error) {
	if f.cfg == nil || f.issue == nil || f.claim != nil && f.claim.Status != reconcile.Waiting {
		return forecast{}, nil
	}
	pol := project.Policy(f.cfg)
	if f.claim == nil {
		if out := outside(pol, *f.issue, f.cfg.Tracker.ProjectSlug); out.reason != "" {
			return out, nil
		}
		if f.source != "tracker" {
			return forecast{}, nil // it may have changed since
		}
	}
	s, err := snapshotFor(ctx, p, f, pol)
	if err != nil {
		return forecast{}, err
	}
	out := read(reconcile.Compute(s), f.id)
	out.limit = s.Account.Limit
	out.full = s.Account.Slots != nil && s.Account.Slots.Free <= 0
	return out, nil
}

// outside says why no pass sees an unclaimed issue at all: it is no candidate.
func outside(pol reconcile.Policy, issue reconcile.Issue, slug string) forecast {
	switch {
	case issue.Elsewhere:
		return forecast{reason: "other_project", message: "it is not in the project " + slug}
	case issue.Archived:
		return forecast{reason: "archived", message: "it is archived"}
	case pol.Terminal(issue.State):
		return forecast{reason: "terminal", message: fmt.Sprintf("its state %s is terminal", issue.State)}
	case !pol.Active(issue.State):
		return forecast{reason: "not_active", message: fmt.Sprintf("its state %s is not active", issue.State)}
	}
	return forecast{}
}

// snapshotFor is the snapshot of a pass that is confined to the issue and comes when it is due.
func snapshotFor(ctx context.Context, p *project.Project, f *issueFacts, pol reconcile.Policy) (reconcile.Snapshot, error) {
	boot, err := proc.BootID()
	if err != nil {
		return reconcile.Snapshot{}, fmt.Errorf("boot id: %w", err)
	}
	runners, err := project.NewRunners(p, f.cfg)
	if err != nil {
		return reconcile.Snapshot{}, err
	}
	account := project.OpenPassAccount(p, f.cfg.Codex.Home, func(string) {}) // ps and each pass say what is wrong with it
	s := reconcile.Snapshot{
		Now: latest(f.due(), f.now), Boot: boot, Mono: proc.Monotonic(), Policy: pol,
		Claims: f.rec.Claims, Runs: f.rec.Runs, Paused: f.rec.Paused, Tokens: f.rec.Tokens,
		AgentBlock: f.rec.AgentBlock, TrackerBlock: f.rec.TrackerBlock, HostBlock: f.rec.HostBlock,
		Liveness: map[string]reconcile.Liveness{}, FreeBytes: runners.FreeBytes(), Only: f.id,
		Tracker: &reconcile.Tracked{
			Asked: map[string]bool{f.id: true}, ByID: map[string]reconcile.Issue{f.id: *f.issue},
			Candidates: []reconcile.Issue{*f.issue}, Fetched: true,
		},
	}
	s.Account, s.Tracker.Low = account.Look(ctx, s.Now), f.low.After(s.Now)
	if s.Account.Slots, err = account.TakeSlots(ctx, 1, true); err != nil {
		return s, err
	}
	for _, r := range f.rec.Runs {
		alive := project.Alive(p.StateDir, r.ID)
		s.Liveness[r.ID] = reconcile.Liveness{Alive: alive, Pending: !alive && !project.WorkerDead(p, r)}
	}
	return s, nil
}

// read finds what the plan does with the issue.
func read(plan reconcile.Plan, id string) forecast {
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
		case a.Kind == reconcile.ActHold, a.Kind == reconcile.ActRelease:
			return forecast{reason: string(a.Kind) + "_" + a.Reason, message: a.Message}
		}
	}
	return forecast{}
}
