package reconcile

import (
	"fmt"
	"strings"
	"time"
)

// MessageSpawnFailed is the specification's text for a worker that could not be started (16).
const MessageSpawnFailed = "failed to spawn agent"

// MessageNoSlot is the specification's text for a due retry without a slot (8.4).
const MessageNoSlot = "no available orchestrator slots"

// ended reaps and settles the runs without a worker.
func (p *planner) ended() {
	for _, r := range p.s.Runs {
		if p.concerns(r.IssueID) && p.lives(r.ID) && p.unblock(r) {
			p.plan.Updates = append(p.plan.Updates, Change{AgentBlock: &Block{}})
		}
	}
	for _, r := range p.s.Runs {
		if !p.concerns(r.IssueID) || p.lives(r.ID) {
			continue
		}
		run, live := p.runs[r.ID], p.s.Liveness[r.ID]
		if run.Outcome == "" || len(live.Left) > 0 {
			p.reap(run, live)
		}
		p.settle(*run)
	}
}

// lives reports whether the run is left alone: its worker lives, or it is not known whether it does.
func (p *planner) lives(runID string) bool {
	live := p.s.Liveness[runID]
	return live.Alive && !p.frozen(runID) && !p.overdue(runID) || live.Unknown || live.Pending
}

const (
	// frozenAfter is four heartbeats. A counter that has not changed for so long means a frozen worker.
	frozenAfter = 20 * time.Second
	// ShortestStop bounds a stop without after_run.
	ShortestStop = 10 * time.Second
)

// frozen reports whether a worker holds its alive file but has not beaten since an earlier pass.
func (p *planner) frozen(runID string) bool {
	r, live := p.runs[runID], p.s.Liveness[runID]
	age, known := p.since(r.Seen.At)
	return known && live.Beats == r.Seen.Beats && age >= frozenAfter
}

// overdue reports whether a worker was asked to end and has taken longer than it may.
func (p *planner) overdue(runID string) bool {
	age, known := p.since(p.runs[runID].StopAt)
	return known && age > max(p.s.Policy.StopGrace, ShortestStop)
}

// since is the time since an instant; false where that belongs to another boot.
func (p *planner) since(at Instant) (time.Duration, bool) {
	return p.s.Mono - at.Mono, at.Boot != "" && at.Boot == p.s.Boot
}

// unblock clears the agent's block if the run shows that the fault is over.
func (p *planner) unblock(r Run) bool {
	if p.s.AgentBlock == nil || !p.s.AgentBlock.overBy(r) {
		return false
	}
	p.s.AgentBlock = nil
	return true
}

// reap ends the remaining processes of a dead worker and records how the run ended.
func (p *planner) reap(r *Run, live Liveness) {
	a := Action{Kind: ActReap, IssueID: r.IssueID, Identifier: r.Identifier, RunID: r.ID, Kill: live.Alive, GiveUp: p.givesUp(r, live)}
	if r.Outcome == "" {
		r.Outcome, r.ErrorCode, r.ErrorText = p.afterDeath(r)
		r.EndedAt = p.s.Now
		a.Outcome, a.Reason, a.Message = r.Outcome, r.ErrorCode, r.ErrorText
	}
	if n := len(live.Left); n > 0 {
		a.Message = strings.TrimSpace(fmt.Sprintf("%s (processes left: %d)", a.Message, n))
	}
	p.plan.Actions = append(p.plan.Actions, a)
}

// reapLimit is how many passes try to end the remaining processes of a run before its issue is held.
const reapLimit = 3

// givesUp reports whether remaining processes could not be ended. The run is settled nevertheless, and its claim held.
func (p *planner) givesUp(r *Run, live Liveness) bool {
	return len(live.Left) > 0 && r.ReapTries >= reapLimit
}

// afterDeath is the outcome, code and message of a run whose worker died without recording them.
func (p *planner) afterDeath(r *Run) (Outcome, string, string) {
	switch {
	case r.StopReason != "" && p.overdue(r.ID):
		return Canceled, r.StopReason, "its worker did not end in time after the stop, and was killed"
	case r.StopReason != "":
		return Canceled, r.StopReason, "its worker ended after the stop without recording an outcome"
	case p.s.Liveness[r.ID].Alive:
		return Lost, CodeWorkerFrozen, "its worker was frozen and was killed"
	case r.Worker.Boot != "" && p.s.Boot != "" && r.Worker.Boot != p.s.Boot:
		return InterruptedRun, CodeRebooted, "the machine was restarted"
	case r.Phase == Starting && p.s.Liveness[r.ID].Refused != "":
		return Lost, p.s.Liveness[r.ID].Refused, MessageSpawnFailed
	case p.s.Liveness[r.ID].Refused != "":
		return Lost, p.s.Liveness[r.ID].Refused, "its worker could not store how it ended"
	case r.Phase == Starting:
		return Lost, CodeSpawnFailed, MessageSpawnFailed
	}
	return Lost, CodeWorkerLost, "its worker died"
}

// settle turns an ended run into the next state of its claim.
func (p *planner) settle(r Run) {
	delete(p.runs, r.ID)
	var block *Block
	if p.unblock(r) {
		block = &Block{}
	}
	if r.Kind == CleanupRun {
		delete(p.removing, r.IssueID)
	}
	c := p.claims[r.IssueID]
	if r.Kind == CleanupRun || c == nil || c.Status != Running || c.RunID != r.ID {
		p.settled(r, &Change{AgentBlock: block})
		return
	}
	next, keep := p.afterRun(*c, r)
	var change *Change
	if keep {
		change = p.put(next)
	} else {
		change = p.drop(*c, StopProject)
	}
	if next := p.blockAfter(r); next != nil {
		p.s.AgentBlock, block = next, next
	}
	change.AgentBlock = block
	p.settled(r, change)
}

// settled adds the action that settles the run with this change.
func (p *planner) settled(r Run, change *Change) {
	change.Settle = r.ID
	message := r.ErrorText
	if r.ErrorCode != "" && message != "" && r.ErrorCode != r.StopReason {
		message = r.ErrorCode + ": " + message
	}
	p.plan.Actions = append(p.plan.Actions, Action{
		Kind: ActSettle, IssueID: r.IssueID, Identifier: r.Identifier, RunID: r.ID,
		Reason: string(r.Outcome), Message: message, Change: change,
	})
}

// afterRun is the claim after its run has ended, by outcome. It returns false where the claim is released.
func (p *planner) afterRun(c Claim, r Run) (Claim, bool) {
	c.ErrorCode, c.ErrorMessage = r.ErrorCode, r.ErrorText
	c.Status, c.Attempt, c.DueAt = Waiting, r.Attempt, endOf(r, p.s.Now)
	if r.TurnsDone > 0 {
		c.Interruptions = 0
	}
	switch live := p.s.Liveness[r.ID]; {
	case p.givesUp(&r, live):
		left := live.Left[0]
		return p.hold(c, HoldLeftover, fmt.Sprintf("leftover process %d (%s)", left.PID, left.Name)), true
	case r.StopReason == StopProject:
		return c, false
	case c.HoldNext: // not by the run's stop reason: a later retry takes the hold back
		return p.hold(c, HoldOperator, "held by an operator"), true
	case r.Outcome == Succeeded:
		return p.afterSuccess(c, r), true
	case r.Outcome == Canceled && r.ErrorCode == CodeMaxTokens:
		// The run counts as work done. The cap holds the issue after the refresh, unless the limit was raised.
		c.Kind, c.ErrorCode, c.ErrorMessage = Continuation, "", ""
		return c, true
	case r.Outcome == Canceled && r.StopReason != StopAll:
		// The reason for the stop may be over: the tracker's next answer decides.
		c.Kind, c.ErrorCode, c.ErrorMessage = Continuation, "", ""
		return uncounted(c), true
	case r.Outcome == Canceled:
		c.Kind = Interrupted
		return uncounted(c), true
	case r.ErrorCode == CodeWorkspaceBusy:
		c.Kind, c.DueAt = Backoff, c.DueAt.Add(firstBackoff)
		return uncounted(c), true
	case MachineFault(r.ErrorCode): // also for an interrupted run: a fault of the tracker never counts
		c.Kind = Blocked
		if TrackerFault(r.ErrorCode) || unstored(r) { // these set no block
			c.DueAt = c.DueAt.Add(firstBackoff)
		}
		return uncounted(c), true
	case r.Outcome == InterruptedRun:
		return p.afterInterruption(c, r), true
	}
	return p.afterFailure(c, r), true
}

func (p *planner) afterSuccess(c Claim, r Run) Claim {
	c.Kind, c.Attempt, c.DueAt = Continuation, 1, c.DueAt.Add(continuationDelay)
	c.Failures, c.Interruptions = 0, 0
	c.ErrorCode, c.ErrorMessage = "", ""
	if r.Progress || c.Issue.Fingerprint() != r.Fingerprint {
		c.IdleRuns = 0
	} else {
		c.IdleRuns++
	}
	return c
}

func (p *planner) afterFailure(c Claim, r Run) Claim {
	c.Kind, c.Attempt = Backoff, r.Attempt+1
	c.DueAt = c.DueAt.Add(Delay(c.Attempt, p.s.Policy.MaxRetryBackoff))
	c.Failures++
	if r.Outcome != InterruptedRun {
		c.Interruptions = 0
	}
	return c
}

// afterInterruption does not count the first interruption and counts the second in a row as a failure. The third holds
// the issue, as a cap after the refresh: a comment of the agent itself, made before the interruption, must not end the hold.
func (p *planner) afterInterruption(c Claim, r Run) Claim {
	c.Interruptions++
	if c.Interruptions == 2 {
		return p.afterFailure(c, r)
	}
	c.Kind = Interrupted
	return uncounted(c)
}

// uncounted takes back the count of the dispatch, because the run says nothing about the issue.
func uncounted(c Claim) Claim {
	c.Runs = max(c.Runs-1, 0)
	return c
}

// blockAfter gives the block that a run's end sets, nil for none.
func (p *planner) blockAfter(r Run) *Block {
	if r.Outcome == Succeeded || !MachineFault(r.ErrorCode) || TrackerFault(r.ErrorCode) {
		return nil
	}
	if unstored(r) {
		return nil // the database works again: this pass writes to it
	}
	if p.s.Account.shared(r) {
		return nil // the account has the block for all projects
	}
	b := p.s.AgentBlock.After(r.ErrorCode, r.ErrorText, endOf(r, p.s.Now))
	for _, other := range p.runs {
		if b.overBy(*other) {
			return nil
		}
	}
	return &b
}

// unstored reports whether a run took place and only its outcome could not be stored, by a fault of the machine.
func unstored(r Run) bool {
	return r.Outcome == Lost && r.Phase != Starting && MachineFault(r.ErrorCode)
}

// endOf is when the run ended, at most now.
func endOf(r Run, now time.Time) time.Time {
	if r.EndedAt.IsZero() || r.EndedAt.After(now) {
		return now
	}
	return r.EndedAt
}
