package sharing

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/team"
)

// These are the keys of the moments at which a pass last looked which machines are heard of, and last
// asked the tracker about issues whose claims may be taken.
const (
	lookedKey = "team_looked"
	askedKey  = "team_asked"
)

// looksIn is how many looks there are in the term of a claim that waits for a review.
const looksIn = 24

// TakeOver takes abandoned claims whose issues wait for a review or are finished. This machine watches
// the reviews from now on, and deletes the claims of finished issues at the end of the pass. Claims of
// active issues are taken when their runs start.
func (t *Team) TakeOver(ctx context.Context, tracker *reconcile.TrackerAdapter, handoff string) error {
	if err := t.lookIfDue(ctx); err != nil {
		return err
	}
	// once an hour, because some of them are of issues that the tracker does not have any more
	isDue, err := t.isDue(ctx, askedKey)
	if err != nil || !isDue {
		return err
	}
	abandoned, err := t.abandoned(ctx)
	if err != nil || len(abandoned) == 0 {
		return err
	}
	var ids []string
	for _, c := range abandoned {
		ids = append(ids, c.IssueID)
	}
	t.asked.ByID, err = tracker.ByIDs(ctx, ids)
	if err != nil {
		return err
	}
	t.asked.Refreshed = map[string]bool{}
	for _, id := range ids {
		t.asked.Refreshed[id] = true
	}
	var taking []team.Issue
	for _, c := range abandoned {
		issue, isVisible := t.asked.ByID[c.IssueID]
		if isVisible && (isIn(issue, handoff) || t.Policy.Terminal(issue.State)) {
			taking = append(taking, team.IssueOf(issue))
		}
	}
	missing, err := t.Member.TakeForReview(ctx, taking)
	if err != nil {
		return err
	}
	for _, c := range abandoned {
		issue, isVisible := t.asked.ByID[c.IssueID]
		isMissing := missing.Has(c.IssueID) // another machine was faster, or the first one is back
		if !isVisible || !isIn(issue, handoff) || isMissing {
			continue
		}
		mayName, err := t.mayName(ctx, c, issue)
		if err != nil {
			return err
		}
		if !mayName {
			continue
		}
		if err := t.DB.Team.InheritReview(ctx, issue, t.workIn(c), t.Member.Now()); err != nil {
			return err
		}
	}
	return t.note(ctx, askedKey, moment{Instant: t.Member.Clock()})
}

// isIn reports whether an issue is in a state; it is in none without a name.
func isIn(i reconcile.Issue, state string) bool {
	return state != "" && reconcile.SameState(i.State, state)
}

// abandoned returns the claims on whose issues no machine works. Some belong to other machines: free
// claims, and those of machines that were not heard of for too long, as this machine saw them last. The
// others are its own, of issues that do not need it now.
func (t *Team) abandoned(ctx context.Context) ([]team.Claim, error) {
	ended, err := t.Member.Ended(ctx)
	if err != nil {
		return nil, err
	}
	own, err := t.Member.Own(ctx)
	if err != nil {
		return nil, err
	}
	// one that a pass has taken is among the ended ones until the next look
	isOwn := func(c team.Claim) bool {
		return slices.ContainsFunc(own, func(o team.Claim) bool { return o.IssueID == c.IssueID })
	}
	ended = slices.DeleteFunc(ended, isOwn)
	needed, err := t.needed(ctx)
	if err != nil {
		return nil, err
	}
	isNeeded := func(c team.Claim) bool {
		return slices.ContainsFunc(needed, func(k team.Keep) bool { return k.ID == c.IssueID })
	}
	return append(ended, slices.DeleteFunc(own, isNeeded)...), nil
}

// lookIfDue looks at the claims of all machines if the last look is some time ago. If that fails, a pass a
// few minutes later tries again.
func (t *Team) lookIfDue(ctx context.Context) error {
	isDue, err := t.isDue(ctx, lookedKey)
	if err != nil || !isDue {
		return err
	}
	err = t.Member.Look(ctx)
	if err != nil {
		return errors.Join(err, t.note(ctx, lookedKey, moment{Instant: t.Member.Clock(), Failed: true}))
	}
	return t.note(ctx, lookedKey, moment{Instant: t.Member.Clock()})
}

// moment is when something was done last.
type moment struct {
	team.Instant
	Failed bool `json:",omitempty"`
}

// isDue reports whether something was last done an hour ago, or another part of a review's term; a few
// minutes ago, if it failed then.
func (t *Team) isDue(ctx context.Context, key string) (bool, error) {
	stored, _, err := t.DB.Meta(ctx, key)
	if err != nil {
		return false, err
	}
	var last moment
	_ = json.Unmarshal([]byte(stored), &last) // nothing before the first time
	age, isKnown := t.Member.Clock().Sub(last.Instant)
	interval := t.Member.Terms.Watch / looksIn
	if last.Failed {
		interval = min(interval, t.Member.Terms.Short())
	}
	return !isKnown || age >= interval, nil
}

// note records when something was done.
func (t *Team) note(ctx context.Context, key string, at moment) error {
	stored, err := json.Marshal(at)
	if err != nil {
		return err
	}
	return t.DB.SetMeta(ctx, key, string(stored))
}
