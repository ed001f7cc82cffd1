package sharing

import (
	"context"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/team"
)

// Release implements reconcile.IssueClaims: the claims stay until the issues need no more work.
func (t *Team) Release() {}

// Settle implements reconcile.IssueClaims.
func (t *Team) Settle(ctx context.Context, tracked *reconcile.Tracked) error {
	keep, err := t.kept(ctx, tracked)
	if err != nil {
		return err
	}
	return t.Member.Settle(ctx, keep)
}

// kept are the issues whose claims stay. Those that need this machine now are its own. Any other machine
// may take one that is not finished, such as an issue that was sent back while this machine has no free
// slot: its claim becomes free, and says where the work goes on.
func (t *Team) kept(ctx context.Context, tracked *reconcile.Tracked) (keep []team.Keep, err error) {
	keep, err = t.needed(ctx)
	if err != nil {
		return nil, err
	}
	needed := map[string]bool{}
	for _, k := range keep {
		needed[k.ID] = true
	}
	own, err := t.Member.Own(ctx)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, c := range own {
		ids = append(ids, c.IssueID)
	}
	news, err := t.DB.Team.HasNews(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, c := range own {
		if needed[c.IssueID] {
			continue
		}
		fate, err := t.fateOf(ctx, c.IssueID, tracked)
		if err != nil {
			return nil, err
		}
		k := team.Keep{
			Issue:  team.Issue{ID: c.IssueID, Identifier: c.Identifier},
			Status: team.Free,
		}
		switch {
		case fate == isFinished:
		case news[c.IssueID] && fate != isIdle: // no other machine could tell the agent
			k.Status = team.Working
			keep = append(keep, k)
		case c.Branch != "":
			keep = append(keep, k)
		}
	}
	return keep, t.addWork(ctx, keep)
}

// fate is what becomes of an issue on which no machine works.
type fate string

const (
	isFinished fate = "finished" // it is in a terminal state, or the tracker does not have it any more
	isIdle     fate = "idle"     // no agent would work on it now
	isAwaited  fate = "awaited"  // an agent is to work on it, or it is not known what becomes of it
)

// fateOf returns what becomes of an issue. The tracker's answers in this pass decide. If it was not
// asked about the issue, the issue is finished if its agent has moved it to a terminal state.
func (t *Team) fateOf(ctx context.Context, issueID string, tracked *reconcile.Tracked) (fate, error) {
	for _, answer := range []*reconcile.Tracked{tracked, &t.asked} {
		if answer == nil || !answer.Refreshed[issueID] {
			continue
		}
		issue, isVisible := answer.ByID[issueID]
		switch {
		case !isVisible, t.Policy.Terminal(issue.State):
			return isFinished, nil
		case !t.Policy.Active(issue.State):
			return isIdle, nil
		}
		return isAwaited, nil
	}
	last, err := t.DB.Views.Releases(ctx, issueID, 1)
	if err != nil {
		return "", err
	}
	if len(last) > 0 && last[0].To != nil && t.Policy.Terminal(*last[0].To) {
		return isFinished, nil
	}
	return isAwaited, nil
}

// needed are the issues that need this machine: those that it works on, and those whose review it waits
// for.
func (t *Team) needed(ctx context.Context) (keep []team.Keep, err error) {
	stored, err := t.DB.Store.State(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range stored.Claims {
		keep = append(keep, team.Keep{
			Issue:     team.Issue{ID: c.IssueID, Identifier: c.Identifier},
			Status:    team.Working,
			HasWorker: c.Status == reconcile.Running,
		})
	}
	reviews, err := t.DB.Views.Reviews(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range reviews {
		keep = append(keep, team.Keep{
			Issue:  team.Issue{ID: r.IssueID, Identifier: r.Identifier},
			Status: team.Watching,
		})
	}
	return keep, nil
}

// addWork adds to the claims what was delivered for their issues. A machine that takes one over goes
// on from there.
func (t *Team) addWork(ctx context.Context, keep []team.Keep) error {
	var ids []string
	for _, k := range keep {
		ids = append(ids, k.ID)
	}
	done, err := t.DB.Team.Work(ctx, ids)
	if err != nil {
		return err
	}
	for i := range keep {
		work := done[keep[i].ID]
		keep[i].Branch = work.Branch
		keep[i].Commit = work.Commit
		keep[i].PullRequest = work.PullRequest
		keep[i].Handled = work.Handled
		keep[i].Rounds = work.Rounds
	}
	return nil
}
