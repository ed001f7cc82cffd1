package reconcile

import (
	"encoding/json"
	"fmt"
	"time"
)

// refresh compares every claim with the tracker's record of its issue (specification 8.5, part B).
func (p *planner) refresh() {
	for _, c := range p.byAge() {
		if !p.s.Tracker.Asked[c.IssueID] {
			continue
		}
		issue, visible := p.s.Tracker.ByID[c.IssueID]
		reason := p.leave(issue, visible)
		switch {
		case reason == "":
			p.stillActive(*c, issue)
		case c.Status == Running && p.handingOver(*c, issue, visible):
			p.update(*c, issue, visible)
		case c.Status == Running:
			p.stop(*c, reason, nil)
		case reason == StopTerminal:
			p.act(ActRelease, *c, reason, "is "+issue.State, p.drop(*c, reason))
			p.removeWorkspace(c.IssueID, reason)
		case c.Status == Held && c.HoldReason == HoldOperator:
			p.update(*c, issue, visible)
		default:
			p.act(ActRelease, *c, reason, leaveMessage(reason, issue), p.drop(*c, reason))
		}
	}
}

const (
	// handoffGrace is how long a run may go on after its own agent has moved the issue: the turn completes and reports its
	// tokens.
	handoffGrace = 2 * time.Minute
	// handoffPending is the same while the agent's change is under way, when the new state is not known yet.
	handoffPending = 30 * time.Second
)

// handingOver reports whether the issue is in the state that the run's own agent has moved it to. Such a run ends by itself
// when its turn is done. A run whose issue was moved otherwise is stopped at once.
func (p *planner) handingOver(c Claim, issue Issue, visible bool) bool {
	r := p.runs[c.RunID]
	if r == nil || r.HandoffAt.IsZero() || !visible {
		return false
	}
	// Measured to the worker's last heartbeat, so that a suspend or a step of the clock since then does not count.
	now := r.HeartbeatAt
	if now.IsZero() {
		now = p.s.Now
	}
	since := now.Sub(r.HandoffAt).Abs()
	if r.HandoffState == "" {
		return since < handoffPending
	}
	return NormalizeState(r.HandoffState) == NormalizeState(issue.State) && since < handoffGrace
}

// leave is the reason to let an issue go, empty where there is none.
func (p *planner) leave(issue Issue, visible bool) string {
	switch {
	case !visible:
		return StopMissing
	case p.s.Policy.Terminal(issue.State):
		return StopTerminal
	case issue.Elsewhere:
		return StopMoved
	case issue.Archived || !p.s.Policy.Active(issue.State):
		return StopInactive
	case !p.s.Policy.Labelled(issue):
		return StopLabel
	case !p.s.Policy.Ours(issue):
		return StopAssignee
	}
	return ""
}

func leaveMessage(reason string, issue Issue) string {
	switch reason {
	case StopMissing:
		return "the tracker no longer returns it"
	case StopMoved:
		return "it is in another project now"
	case StopLabel:
		return "a required label is gone"
	case StopAssignee:
		return "it is assigned to another person"
	}
	return "is " + issue.State
}

// stillActive stores changes of the issue, and ends a hold that was answered with a comment.
func (p *planner) stillActive(c Claim, issue Issue) {
	p.update(c, issue, true)
	c = *p.claims[c.IssueID]
	switch {
	case c.Status == Waiting:
		p.eligible[c.IssueID] = true
		if c.Kind == Blocked && answeredFault(c.ErrorCode) && c.DueAt.After(p.s.Now) {
			c.DueAt = p.s.Now // it waited for the tracker, which has answered
			p.plan.Updates = append(p.plan.Updates, *p.put(c))
		}
	case c.Status == Held && c.HoldReason != HoldOperator && commentedSince(c, issue):
		next := p.freshStart(c, Requested)
		p.act(ActRetry, next, "comment", "a comment ended the hold", p.put(next))
		p.eligible[c.IssueID] = true
	}
}

// answeredFault reports whether an answer of the tracker shows that the fault is over. An answer to the pass says nothing
// about what the worker lacks, for instance its key.
func answeredFault(code string) bool { return faults[code].class == ClassTracker }

func commentedSince(c Claim, issue Issue) bool {
	return issue.LastCommentAt != nil && issue.LastCommentAt.After(c.HoldCommentAt)
}

// update stores the issue's new record. A change of state or description is progress and resets the counts of runs.
func (p *planner) update(c Claim, issue Issue, visible bool) {
	if !visible || sameIssue(c.Issue, issue) {
		return
	}
	if c.Issue.Fingerprint() != issue.Fingerprint() {
		c.IdleRuns, c.Runs = 0, 0
	}
	c.Issue, c.Identifier = issue, issue.Identifier
	p.plan.Updates = append(p.plan.Updates, *p.put(c))
}

// sameIssue compares the stored form, in which a record equals itself after it was read back.
func sameIssue(a, b Issue) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && string(x) == string(y)
}

// sweep removes the workspaces of unclaimed issues that are terminal (specification 8.6).
func (p *planner) sweep() {
	if !p.s.SweepDue || p.s.Only != "" {
		return
	}
	p.emptyTrash()
	for _, w := range p.s.Workspaces {
		issue, visible := p.s.Tracker.ByID[w.IssueID]
		if p.claims[w.IssueID] == nil && visible && p.s.Policy.Terminal(issue.State) {
			p.removeWorkspace(w.IssueID, StopTerminal)
		}
	}
}

// emptyTrash starts a cleanup run without an issue, which deletes workspaces that were removed long enough ago.
func (p *planner) emptyTrash() {
	if !p.s.TrashDue || p.s.HostBlock != nil || p.removing[""] {
		return
	}
	p.removing[""] = true
	run := Run{Kind: CleanupRun, Phase: Starting, StartedAt: p.s.Now, WorkspaceRoot: p.s.Policy.WorkspaceRoot}
	p.plan.Actions = append(p.plan.Actions, Action{
		Kind: ActRemoveWorkspace, Reason: "trash", Message: "removed workspaces have been kept for their time",
		Change: &Change{Insert: &run},
	})
}

// removeWorkspace starts the removal of the issue's workspace, unless one is under way.
func (p *planner) removeWorkspace(issueID, reason string) {
	if p.removing[issueID] || p.s.HostBlock != nil { // a later sweep tries again
		return
	}
	for _, w := range p.s.Workspaces {
		if w.IssueID != issueID || w.Project != p.s.Policy.Project {
			continue
		}
		if w.unsavedLately(p.s.Now) {
			continue
		}
		p.removing[issueID] = true
		run := Run{
			Kind: CleanupRun, IssueID: w.IssueID, Identifier: w.Identifier, Phase: Starting, StartedAt: p.s.Now,
			WorkspaceRoot: w.Root, WorkspacePath: w.Path, Issue: p.s.Tracker.ByID[issueID],
		}
		p.plan.Actions = append(p.plan.Actions, Action{
			Kind: ActRemoveWorkspace, IssueID: w.IssueID, Identifier: w.Identifier, Reason: reason, Message: w.Path,
			Workspace: &w, Change: &Change{Insert: &run},
		})
	}
}

// recheckUnsaved is how long a workspace with unsaved work is left alone before another cleanup run examines it.
const recheckUnsaved = time.Hour

// unsavedLately reports whether a cleanup run has just left the workspace alone because of unsaved work.
func (w Workspace) unsavedLately(now time.Time) bool {
	age := now.Sub(w.UnsavedAt)
	return w.Unsaved != "" && age >= 0 && age < recheckUnsaved
}

// unsavedSkips reports, in every pass that fetches candidates, the workspaces that stay because of unsaved work.
func (p *planner) unsavedSkips() {
	listed := map[string]bool{}
	for _, issue := range p.s.Tracker.Candidates {
		listed[issue.ID] = true // it is worked on again, and so is its workspace
	}
	for _, w := range p.s.Workspaces {
		if w.Unsaved != "" && w.Project == p.s.Policy.Project && p.claims[w.IssueID] == nil && !listed[w.IssueID] {
			p.plan.Skips = append(p.plan.Skips, Skip{
				IssueID: w.IssueID, Identifier: w.Identifier, Reason: SkipUnsavedWork,
				Message: fmt.Sprintf("its workspace %s stays: %s; push that, or symphony prune --force gives it up", w.Path, w.Unsaved),
			})
		}
	}
}
