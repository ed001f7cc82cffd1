package reconcile

import (
	"cmp"
	"encoding/json"
	"time"
)

// refresh compares every claim with the tracker's record of its issue (specification 8.5, part
// B).
func (p *planner) refresh() {
	for _, c := range p.byAge() {
		if p.s.Tracker.Refreshed[c.IssueID] {
			p.refreshClaim(c)
		}
	}
}

// refreshClaim compares a claim with the tracker's record of its issue.
func (p *planner) refreshClaim(c *Claim) {
	issue, visible := p.s.Tracker.ByID[c.IssueID]
	if issue.Malformed != "" && p.s.Policy.Terminal(issue.State) {
		issue = lastReadable(*c, issue) // its state is enough to end the work on it
	}
	reason, message := p.s.Policy.StopReason(issue, visible)
	leftActive := reason == StopInactive || reason == SkipUnknownState
	if leftActive && c.stateWasActive(issue) {
		reason = StopStates
		message = "its state " + issue.State + " is no longer in tracker.active_states"
	}
	if reason != "" && issue.Malformed == "" && c.Delivery.WaitsForAgent && c.Status != Running {
		p.update(p.put(p.s.deliverAnyway(*c)))
		c = p.claims[c.IssueID]
	}
	switch {
	case issue.Malformed != "": // nothing else is known of it: a run goes on, and none starts
		p.noteUnreadable(*c, issue)
		p.eligible[c.IssueID] = c.Status == Waiting && !p.s.undelivered(*c)
	case reason == "":
		back := !p.s.Policy.Active(c.Issue.State)
		p.stillActive(p.renew(*c, issue), issue, back)
	case c.Status == Running && !c.delivering() && !p.handingOver(*c, issue, visible):
		p.stop(*c, reason, nil)
	case p.staysInactive(*c, issue, reason):
		if visible {
			p.renew(*c, issue)
		}
	case c.Status == Waiting && leftActive && c.Delivery.Handover.AsksHelp():
		next := p.s.holdForHelp(p.renew(*c, issue))
		p.act(ActHold, next, HoldNeedsHelp, next.HoldMessage+"; "+next.HoldEnds(), p.put(next))
	default:
		p.release(*c, c.releaseReason(reason), message)
		if reason == StopTerminal {
			p.removeWorkspace(c.IssueID, StopTerminal)
		}
	}
}

// stateWasActive reports whether an issue, whose state is not active, is in the state in which
// its agent began: nobody moved it, but WORKFLOW.md has changed.
func (c Claim) stateWasActive(issue Issue) bool {
	return c.StartedIn != "" && !issue.Archived && SameState(issue.State, c.StartedIn)
}

// staysInactive reports whether a claim stays although no run of its issue may start any more,
// for this reason.
func (p *planner) staysInactive(c Claim, issue Issue, reason string) bool {
	switch {
	case c.Status == Running: // it is released when its run has ended
		return true
	case p.unverifiedHost(c.IssueID) != "":
		return true
	case p.s.undelivered(c):
		return true
	case reason == StopTerminal:
		return false
	case c.Delivery.Due: // until its commits are pushed, also while the workflow delivers nothing
		return true
	}
	return c.stays(issue, reason)
}

// lastReadable returns the last readable record of an issue, with the state of the unreadable
// record.
func lastReadable(c Claim, now Issue) Issue {
	issue := c.Issue
	issue.State = now.State
	issue.Unreadable = now.Malformed
	return issue
}

// noteUnreadable records why the record of an issue at work can't be read, and reports it in
// each pass while a run or a hold goes on. A waiting claim is reported when it is not started.
func (p *planner) noteUnreadable(c Claim, issue Issue) {
	if c.Issue.Unreadable != issue.Malformed {
		c.Issue.Unreadable = issue.Malformed
		p.update(p.put(c))
	}
	if c.Status == Waiting {
		return
	}
	p.plan.Waits = append(p.plan.Waits, Skip{
		IssueID:    c.IssueID,
		Identifier: c.Identifier,
		Title:      c.Issue.Title,
		Labels:     c.Issue.Labels,
		Reason:     SkipUnreadable,
		Message:    "the tracker's record can't be read: " + issue.Malformed,
	})
}

// handoffGrace is how long a run may continue after its own agent moved the issue, to complete
// the turn and report tokens.
const handoffGrace = 2 * time.Minute

// handingOver reports whether the run's own agent moved the issue to its present state, or may
// have, because the worker did not read that state yet. Such a run ends by itself after its
// turn. If someone else moved the issue, the run is stopped.
func (p *planner) handingOver(c Claim, issue Issue, visible bool) bool {
	r := p.runs[c.RunID]
	if r == nil || r.MovedAt.IsZero() || !visible {
		return false
	}
	// The grace is measured up to the worker's last heartbeat, so that a suspend or a step of
	// the clock since then does not use it up.
	now := cmp.Or(r.HeartbeatAt, p.s.Now)
	here := r.MovedTo == "" || SameState(r.MovedTo, issue.State)
	return here && now.Sub(r.MovedAt).Abs() < handoffGrace
}

// MessageArchived is the message of an action about an issue that was archived.
const MessageArchived = "it is archived"

// StopReason returns the reason to stop working on an issue, empty if there is none. A pass
// uses it, and a worker between two turns.
func (p Policy) StopReason(issue Issue, visible bool) (reason, message string) {
	switch {
	case !visible:
		return StopMissing, "the tracker no longer returns it"
	case p.Terminal(issue.State):
		return StopTerminal, "is " + issue.State
	case issue.Elsewhere:
		return StopMoved, "it is now in another project or team"
	case issue.Archived:
		return StopInactive, MessageArchived
	case !p.Active(issue.State) && issue.StateMeant != "":
		return SkipUnknownState, UnknownState(issue.State, issue.StateMeant)
	case !p.Active(issue.State):
		return StopInactive, "is " + issue.State
	case !p.Labelled(issue):
		return StopLabel, "lost a required label"
	case !p.Ours(issue):
		return StopAssignee, "is not assigned to " + p.Assignee
	}
	return "", ""
}

// stillActive makes a waiting claim eligible for dispatch, and ends a hold after a new comment
// or a move. back: the issue came back to the active states, while its claim was kept for its
// undelivered work.
func (p *planner) stillActive(c Claim, issue Issue, back bool) {
	switch c.Status {
	case Running:
	case Waiting:
		if !p.s.undelivered(c) {
			p.eligible[c.IssueID] = true
			p.endTrackerWait(c)
		}
	case Held:
		reason, message := endOfHold(c, issue, back)
		if reason != "" {
			next := p.s.freshStart(c, Requested)
			p.act(ActRetry, next, reason, message, p.put(next))
			p.eligible[c.IssueID] = true
		}
	}
}

// endTrackerWait makes a claim due that waited for the tracker, which answers now. A fault of
// another class, such as a missing key, keeps its delay.
func (p *planner) endTrackerWait(c Claim) {
	f, _ := faultOf(c.ErrorCode)
	waited := c.Kind == Blocked && f.class == ClassTracker
	if waited && c.DueAt.After(p.s.Now) {
		c.DueAt = p.s.Now
		p.update(p.put(c))
	}
}

// endOfHold returns why the hold of an issue in an active state ends; empty if it does not.
func endOfHold(c Claim, issue Issue, back bool) (reason, message string) {
	byComment := CommentEnds(c.HoldReason)
	switch {
	case c.HoldReason == HoldNeedsHelp:
		return "answered", "a person has answered its agent"
	case holdRules[c.HoldReason].moveEnds, back && byComment:
		return "moved", "a person has moved it, which ended the hold"
	case byComment && issue.CommentedAfter(c.HoldCommentAt):
		return "comment", "a comment ended the hold"
	}
	return "", ""
}

// renew stores the issue's new record in its claim. A change of state or description is
// progress: it resets the counts of runs.
func (p *planner) renew(c Claim, issue Issue) Claim {
	if sameRecord(c.Issue, issue) {
		return c
	}
	if !c.Issue.sameTask(issue) {
		c.IdleRuns = 0
		c.Runs = 0
	}
	c.Issue = issue
	c.Identifier = issue.Identifier
	p.update(p.put(c))
	return *p.claims[c.IssueID]
}

// sameRecord reports whether two records are stored as the same JSON. The records themselves may
// differ in form, such as in the location of a time.
func sameRecord(stored, now Issue) bool {
	if stored.UpdatedAt != nil && now.UpdatedAt != nil && !stored.UpdatedAt.Equal(*now.UpdatedAt) {
		return false // as after most changes, which need no JSON
	}
	before, err := json.Marshal(stored)
	if err != nil {
		return false
	}
	after, err := json.Marshal(now)
	return err == nil && string(before) == string(after)
}

// reviews ends the wait for a review of each issue that is no longer where its agent has handed
// it over.
func (p *planner) reviews() {
	for _, r := range p.s.Reviews {
		issue, visible := p.s.Tracker.ByID[r.IssueID]
		if !p.s.Tracker.Refreshed[r.IssueID] || issue.Malformed != "" {
			continue
		}
		here := visible && !issue.Elsewhere && !issue.Archived && SameState(issue.State, r.State)
		if !here {
			p.update(&Change{Reviewed: r.IssueID})
		}
	}
}

// sweep removes the workspaces of unclaimed issues that are terminal (specification 8.6), and
// empties the trash when it is due.
func (p *planner) sweep() {
	if !p.s.SweepDue || !p.s.all() {
		return
	}
	if p.s.TrashDue {
		p.cleanUp(
			Workspace{Root: p.s.Policy.WorkspaceRoot},
			"trash",
			"removed workspaces are due for deletion",
		)
	}
	for _, w := range p.s.Workspaces {
		issue, visible := p.s.Tracker.ByID[w.IssueID]
		if p.claims[w.IssueID] == nil && visible && p.s.Policy.Terminal(issue.State) {
			p.removeWorkspace(w.IssueID, StopTerminal)
		}
	}
}

// recheckUnsaved is how long after a cleanup run found unsaved work the next run examines the
// workspace again.
const recheckUnsaved = time.Hour

// removeWorkspace starts cleanup runs for the workspaces of an issue. A run keeps what exists nowhere else.
func (p *planner) removeWorkspace(issueID, reason string) {
	for _, w := range p.s.Workspaces {
		age := p.s.Now.Sub(w.UnsavedAt)
		examined := w.Unsaved != "" && age >= 0 && age < recheckUnsaved
		if w.IssueID == issueID && w.Project == p.s.Policy.Project && !examined && !w.Restored {
			p.cleanUp(w, reason, w.Where())
		}
	}
}

// cleanUp starts a cleanup run, unless a cleanup of the same issue is under way, a run may still
// be at work on its host, or no worker can be started here: then a later sweep starts it.
// Without an issue, the run empties the trash.
func (p *planner) cleanUp(w Workspace, reason, message string) {
	if p.removing[w.IssueID] || p.s.MachineBlock != nil ||
		w.IssueID != "" && p.unverifiedHost(w.IssueID) != "" {
		return
	}
	p.removing[w.IssueID] = true
	run := Run{
		Kind:          CleanupRun,
		IssueID:       w.IssueID,
		Identifier:    w.Identifier,
		Phase:         Starting,
		StartedAt:     p.s.Now,
		WorkspaceRoot: w.Root,
		WorkspacePath: w.Path,
		Issue:         p.s.Tracker.ByID[w.IssueID],
		Host:          w.Host,
	}
	p.plan.Actions = append(p.plan.Actions, Action{
		Kind:       ActRemoveWorkspace,
		IssueID:    w.IssueID,
		Identifier: w.Identifier,
		Reason:     reason,
		Message:    message,
		Change:     &Change{Insert: &run},
	})
}
