// Package sharing decides which issues this machine takes from a team, keeps, and gives back: when a pass
// looks at the claims in the remote, whose issues it takes over, and what becomes of a claim when its
// issue needs this machine no more. Package team has the protocol.
package sharing

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
	"github.com/symphony-cron/symphony/team"
)

// Team is the team of a project, as a pass uses it. It implements reconcile.IssueClaims.
type Team struct {
	Member *team.Member
	// Tip returns the commit of a branch of the remote; empty if it is gone.
	Tip       func(ctx context.Context, branch string) (string, error)
	DB        *state.DB
	Policy    reconcile.Policy
	URL, Base string // of the repository
	// Branch returns the name that repository.branch gives the branch of an issue.
	Branch func(reconcile.Issue) (string, error)
	Warn   func(string)
	// Closing ends the processes that git has left behind.
	Closing func(context.Context) error

	looked team.Instant // when CheckFresh looked last
	// asked is what the tracker has answered about the issues of abandoned claims
	asked reconcile.Tracked
}

// Open returns the team of a project; nil if it has none, or before its first pass.
func Open(p *wiring.Project, cfg *workflow.Config, db *state.DB) (*Team, error) {
	of, err := wiring.NewTeamOfPass(p, cfg, db)
	if of == nil || err != nil {
		return nil, err
	}
	return &Team{
		Member:  of.Member,
		Tip:     of.Tip,
		DB:      db,
		Policy:  cfg.Policy,
		URL:     cfg.Repository.URL,
		Base:    cfg.Repository.Base,
		Branch:  func(i reconcile.Issue) (string, error) { return cfg.Repository.Render(i, 0) },
		Warn:    p.Env.Warn,
		Closing: of.Close,
	}, nil
}

// Close ends the processes that git has left behind during the pass.
func (t *Team) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.Closing(ctx)
}

// Known implements reconcile.IssueClaims. It leaves out an issue whose claim may be free by now: if that
// issue could start, Take looks who has it.
func (t *Team) Known(ctx context.Context) (known reconcile.Claimed, err error) {
	all, err := t.Member.Known(ctx)
	if err != nil {
		return known, err
	}
	maps.DeleteFunc(all.Others, func(_ string, e team.Elsewhere) bool { return e.MayBeFree })
	return reconcile.Claimed{
		Elsewhere: team.Sentences(all.Others),
		Taken:     team.Sentences(all.Lost),
		Refused:   all.Refused,
	}, nil
}

// Take implements reconcile.IssueClaims.
func (t *Team) Take(
	ctx context.Context,
	issues []reconcile.Issue,
	dryRun bool,
) (not reconcile.NotTaken, err error) {
	if dryRun {
		return not, nil
	}
	wanted := text.Map(issues, team.IssueOf)
	own, err := t.Member.Own(ctx)
	if err != nil {
		return not, err
	}
	missing, err := t.Member.Take(ctx, wanted)
	if err != nil {
		return not, err
	}
	for _, i := range issues {
		if missing.Has(i.ID) {
			continue
		}
		isNew := !slices.ContainsFunc(own, func(c team.Claim) bool { return c.IssueID == i.ID })
		if err := t.inherit(ctx, i, isNew); err != nil {
			return not, err
		}
	}
	return reconcile.NotTaken{Elsewhere: team.Sentences(missing.Elsewhere), Refused: missing.Refused}, nil
}

// inherit records what another machine has delivered for an issue that this one has taken from it, so
// that the work goes on from there. The claim of the issue names the branch. If the claim is new here,
// what this machine has delivered before is older, and forgotten.
func (t *Team) inherit(ctx context.Context, i reconcile.Issue, isNew bool) error {
	claim, isHeld, err := t.Member.Held(ctx, i.ID)
	if err != nil || !isHeld || claim.Branch == "" {
		return err
	}
	mayName, err := t.mayName(ctx, claim, i)
	if err != nil || !mayName {
		return err
	}
	if isNew {
		err := t.DB.Store.Commit(ctx, t.Member.Now(), reconcile.Change{ForgetWork: i.ID})
		if err != nil {
			return err
		}
	}
	_, isKnown, err := t.DB.Delivered(ctx, i.ID)
	if err != nil || isKnown {
		return err
	}
	commit, err := t.Tip(ctx, claim.Branch)
	if err != nil || commit == "" {
		return err
	}
	work := t.workIn(claim)
	work.Commit = commit
	return t.DB.Team.Inherit(ctx, i.ID, work)
}

// mayName reports whether work may go on on the branch that a claim names. Everybody who may push can
// write a claim, and could name main. So the branch must be the one that repository.branch gives the
// issue, or one to which this machine has delivered before.
func (t *Team) mayName(ctx context.Context, c team.Claim, i reconcile.Issue) (bool, error) {
	last, _, err := t.DB.Delivered(ctx, i.ID)
	if err != nil {
		return false, err
	}
	name, err := t.Branch(i)
	if err == nil && c.Branch == name || c.Branch == last.Branch && last.URL == t.URL {
		return true, nil
	}
	t.Warn(fmt.Sprintf("%s: the claim of %s names the branch %s, which is not used: repository.branch gives %s",
		i.Identifier, c.Holder(), text.Visible(text.Within(c.Branch, mostShown)), name))
	return false, nil
}

const mostShown = 200 // bytes of a text of others

// workIn is what another machine has done for an issue, by its claim.
func (t *Team) workIn(c team.Claim) state.Work {
	return state.Work{
		Delivered: reconcile.Delivered{
			URL:         t.URL,
			Branch:      c.Branch,
			Commit:      c.Commit,
			Base:        t.Base,
			At:          t.Member.Now(),
			PullRequest: c.PullRequest,
			Proof:       reconcile.UnknownProof,
			Origin:      c.Holder(),
		},
		Handled: c.Handled,
		Rounds:  c.Rounds,
	}
}
