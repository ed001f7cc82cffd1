package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// ShortestStop is how long a worker may take at least to end after a stop.
	ShortestStop = 10 * time.Second
	// reapLimit is how many passes try to end the remaining processes of a run. After that the
	// run is settled nevertheless, and its issue is held.
	reapLimit = 3
)

// ended reaps and settles the runs whose worker is dead, frozen or overdue.
func (p *planner) ended() {
	for _, r := range p.s.Runs {
		if !p.s.concerns(r.IssueID) {
			continue
		}
		if b, blocked := p.s.RemoteBlocks[r.Host]; blocked && b.overBy(r) {
			p.update(&Change{RemoteBlocks: p.s.setRemoteBlock(r.Host, Block{})})
		}
		if own := p.s.AgentBlock; own != nil && own.stopsRunsOn(r.Host) && own.overBy(r) {
			p.s.AgentBlock = nil
			p.update(&Change{AgentBlock: &Block{}})
		}
	}
	for _, known := range p.s.Runs {
		r := p.runs[known.ID]
		live := p.s.Liveness[r.ID]
		if !p.s.concerns(r.IssueID) || p.s.working(*r, live) {
			continue
		}
		if r.Outcome == "" || len(live.Left) > 0 || live.Alive {
			p.reap(r, live)
		}
		if r.Remote == RemoteBegun {
			p.endOnHost(*r, live)
			continue
		}
		p.settle(*r, len(live.Left) > 0 && r.ReapTries >= reapLimit)
	}
}

// working reports whether a worker is, or may be, at work. A worker that only ends its run on
// a host is not overdue, and not needed once an operator gave up the host.
func (s *Snapshot) working(r Run, live Liveness) bool {
	switch {
	case live.Unknown:
		return true
	case !live.Alive || live.Frozen || r.Remote == RemoteGone:
		return false
	}
	return r.Phase == EndingThere || !s.overdue(r)
}

// overdue reports whether a worker did not end in time after a stop.
func (s *Snapshot) overdue(r Run) bool {
	return r.StopAt.Boot != "" && r.StopAt.Boot == s.Boot &&
		s.Mono-r.StopAt.Mono > max(s.Policy.StopGrace, ShortestStop)
}

// reap plans to end the remaining processes of a run, and to record how the run ended if its
// worker did not.
func (p *planner) reap(r *Run, live Liveness) {
	a := Action{
		Kind:       ActReap,
		IssueID:    r.IssueID,
		Identifier: r.Identifier,
		RunID:      r.ID,
		Kill:       live.Alive,
		GiveUp:     len(live.Left) > 0 && r.ReapTries >= reapLimit,
	}
	if r.Outcome == "" {
		r.Outcome, r.ErrorCode, r.ErrorText = p.s.afterDeath(r, live)
		r.EndedAt = p.s.Now
		a.Outcome = r.Outcome
		a.Reason = r.ErrorCode
		a.Message = r.ErrorText
	}
	if n := len(live.Left); n > 0 {
		a.Message = strings.TrimSpace(fmt.Sprintf("%s (processes left: %d)", a.Message, n))
	}
	p.plan.Actions = append(p.plan.Actions, a)
}

// afterDeath returns the outcome, code and message of a run whose worker recorded none.
func (s *Snapshot) afterDeath(r *Run, live Liveness) (Outcome, string, string) {
	switch {
	case r.StopReason != "" && s.overdue(*r):
		return Canceled, r.StopReason, "its worker did not end in time after the stop, and was killed"
	case r.StopReason != "":
		return Canceled, r.StopReason, "its worker ended after the stop without recording an outcome"
	case live.Alive:
		return Lost, CodeWorkerFrozen, "its worker was frozen and was killed"
	case r.Worker.Boot == BootOfBackup:
		return InterruptedRun, CodeRebooted, "a backup was restored"
	case r.Worker.Boot != "" && s.Boot != "" && r.Worker.Boot != s.Boot:
		return InterruptedRun, CodeRebooted, "the machine was restarted"
	case r.Phase == Starting && live.Fault != "":
		return Lost, live.Fault, MessageSpawnFailed
	case live.Fault != "":
		return Lost, live.Fault, "its worker could not store how it ended"
	case r.Phase == Starting:
		return Lost, CodeSpawnFailed, MessageSpawnFailed
	}
	return Lost, CodeWorkerLost, "its worker died"
}

// settle turns an ended run into the next state of its claim. With giveUp it does so although
// processes remain, and holds the claim.
func (p *planner) settle(r Run, giveUp bool) {
	delete(p.runs, r.ID)
	change := &Change{}
	c := p.claims[r.IssueID]
	if c != nil && c.Status == Held && c.HoldReason == HoldHostLost && c.RunID == r.ID {
		// It was held only because its end was not confirmed: it continues like the claim of
		// any ended run.
		next := *c
		next.Status = Running
		next.HoldReason = ""
		next.HoldMessage = ""
		next.HeldAt = time.Time{}
		next.HoldCommentAt = time.Time{}
		c = &next
	}
	switch {
	case r.Kind == CleanupRun:
		delete(p.removing, r.IssueID)
	case c == nil || c.Status != Running || c.RunID != r.ID: // no claim waits for it
	case giveUp:
		left := p.s.Liveness[r.ID].Left[0]
		held := p.s.hold(*c, HoldLeftover, fmt.Sprintf("leftover process %d (%s)", left.PID, left.Name))
		change = p.put(p.s.afterWork(held, r))
		p.blockAfter(r, change)
	case r.StopReason == StopProject || r.StopReason == StopClaim:
		change = p.drop(*c, r.StopReason)
	case r.Remote == RemoteGone && !c.HoldNext: // the operator asked for a new start
		change = p.put(p.s.startElsewhere(*c))
	case r.Kind == DeliveryRun:
		change = p.put(p.s.afterDelivery(*c, r))
	default:
		change = p.put(p.s.afterWork(p.s.afterRun(*c, r), r))
		p.blockAfter(r, change)
	}
	if next := change.Claim; next != nil && p.s.isHelpless(*next, r) {
		next.Issue.State = r.MovedTo
		change.Claim = p.put(p.s.holdForHelp(*next)).Claim
	}
	change.Settle = r.ID
	message := r.ErrorText
	if r.ErrorCode != "" && message != "" && r.ErrorCode != r.StopReason {
		message = r.ErrorCode + ": " + message
	}
	p.plan.Actions = append(p.plan.Actions, Action{
		Kind:       ActSettle,
		IssueID:    r.IssueID,
		Identifier: r.Identifier,
		RunID:      r.ID,
		Reason:     string(r.Outcome),
		Message:    message,
		StoppedBy:  r.StoppedBy(),
		Change:     change,
	})
}

// isHelpless reports whether a run handed its issue over because its agent needs a person. Where
// the tracker tells no times of comments, the next look at the issue begins the hold: the comment
// of the run itself must not end it.
func (s *Snapshot) isHelpless(c Claim, r Run) bool {
	h := c.Delivery.Handover
	isMoved := r.MovedTo != "" && !s.Policy.Active(r.MovedTo) && !s.Policy.Terminal(r.MovedTo)
	return c.Status == Waiting && r.Delivery.Done && isMoved && h.AsksHelp() && !h.AnsweredAfter().IsZero()
}

// afterRun returns the claim after the end of its run.
func (s *Snapshot) afterRun(c Claim, r Run) Claim {
	ended := endOf(r, s.Now)
	refusedAgain := r.ErrorCode == HoldRefused && c.ErrorCode == HoldRefused
	c.Status = Waiting
	c.Agent = r.Agent
	c.Attempt = r.Attempt
	c.DueAt = ended
	c.ErrorCode = r.ErrorCode
	c.ErrorMessage = r.ErrorText
	if r.TurnsDone > 0 {
		c.Interruptions = 0
	}
	if r.ErrorCode == CodeWorkspaceForeign {
		c.WorkspaceRoot = "" // the issue has no workspace there: the next run takes the workflow's root
	}
	uncounted := max(c.Runs-1, 0) // for a run that is no evidence about the issue
	switch {
	case c.HoldNext: // not the run's stop reason, because a later retry clears HoldNext
		return s.holdByOperator(c)
	case refusedAgain:
		return s.hold(c, HoldRefused, r.ErrorText)
	case r.Outcome.IsRegular():
		c.Kind = Continuation
		c.Attempt = 1
		c.DueAt = ended.Add(continuationDelay)
		c.Failures = 0
		c.Interruptions = 0
		c.IdleRuns++
		if r.Progress || c.Issue.Fingerprint() != r.Fingerprint {
			c.IdleRuns = 0
		}
	case r.Outcome == Canceled && r.ErrorCode == CodeMaxTokens:
		// The run counts as work. After the refresh the cap holds the issue, unless the limit
		// was raised.
		c.Kind = Continuation
		c.ErrorCode = ""
		c.ErrorMessage = ""
	case r.Outcome == Canceled && r.StopReason != StopAll:
		// The reason for the stop may no longer exist: the tracker's next answer decides.
		c.Kind = Continuation
		c.Runs = uncounted
		c.ErrorCode = ""
		c.ErrorMessage = ""
	case r.Outcome == Canceled:
		c.Kind = Interrupted
		c.Runs = uncounted
	case r.ErrorCode == CodeWorkspaceBusy, r.ErrorCode == CodeBranchCheckedOut:
		c.Kind = Backoff
		c.Runs = uncounted
		c.DueAt = ended.Add(firstBackoff)
	case HoldStep(r.ErrorCode) != "":
		if holdRules[r.ErrorCode].uncounted {
			c.Runs = uncounted
		}
		return s.hold(c, r.ErrorCode, r.ErrorText)
	case MachineFault(r.ErrorCode): // before InterruptedRun: see the decisions in doc.go
		c.Kind = Blocked
		c.Runs = uncounted
		if !blocks(r) {
			c.DueAt = ended.Add(firstBackoff)
		}
		if r.ErrorCode == CodeIssueElsewhere { // for as long as the other machine needs
			c.DueAt = ended.Add(s.Policy.MaxRetryBackoff)
		}
	case r.Outcome == InterruptedRun:
		c.Interruptions++
		if c.Interruptions == 2 { // the second in a row is a failure of the issue
			return s.afterFailure(c, ended)
		}
		// The first is no evidence about the issue. The third makes it reach a cap, see
		// doc.go.
		c.Kind = Interrupted
		c.Runs = uncounted
	default:
		c.Interruptions = 0
		return s.afterFailure(c, ended)
	}
	return c
}

// afterFailure returns the claim after a failure of its issue.
func (s *Snapshot) afterFailure(c Claim, ended time.Time) Claim {
	c.Failures++
	c.Attempt++
	c.Kind = Backoff
	c.DueAt = ended.Add(BackoffDelay(c.Attempt, s.Policy.MaxRetryBackoff))
	return c
}

// blocks reports whether a run ended with a fault that blocks dispatch. Faults of the tracker
// do not, because the next pass asks it again. Nor does an outcome that the worker could not
// store: the database works again, because this pass writes to it.
func blocks(r Run) bool {
	unstored := r.Outcome == Lost && r.Phase != Starting
	return !r.Outcome.IsRegular() && RunClass(r.ErrorCode) == ClassMachine && !unstored
}

// blockAfter sets the block that follows from the end of a run, if any, and adds it to a
// change.
func (p *planner) blockAfter(r Run, change *Change) {
	// The fault of a run that began before the blocks were last ended may be repaired, unless
	// the clock was set back since.
	outdated := r.StartedAt.Before(p.s.Unblocked) && !p.s.Unblocked.After(p.s.Now)
	if r.Kind != AgentRun || !blocks(r) || outdated {
		return
	}
	fault := Block{Code: r.ErrorCode}
	if fault.stopsRunsOn(r.Host) {
		p.blockMachine(r, change)
	} else {
		p.blockHost(r, change)
	}
}

// blockMachine blocks this machine after a run, unless another run shows that the fault is
// over.
func (p *planner) blockMachine(r Run, change *Change) {
	if p.s.keptByAccount(r) {
		return
	}
	b := p.s.AgentBlock.After(r.ErrorCode, r.ErrorText, endOf(r, p.s.Now))
	for _, other := range p.runs {
		if b.stopsRunsOn(other.Host) && b.overBy(*other) {
			return
		}
	}
	p.s.AgentBlock = &b
	change.AgentBlock = &b
}

// blockHost blocks the host of a run, unless another run there shows that the fault is over.
func (p *planner) blockHost(r Run, change *Change) {
	var before *Block
	if b, blocked := p.s.RemoteBlocks[r.Host]; blocked {
		before = &b
	}
	message := r.Host + ": " + strings.TrimPrefix(r.ErrorText, r.Host+": ")
	b := before.After(r.ErrorCode, message, endOf(r, p.s.Now))
	for _, other := range p.runs {
		if other.Host == r.Host && b.overBy(*other) {
			return
		}
	}
	change.RemoteBlocks = p.s.setRemoteBlock(r.Host, b)
}

// keptByAccount reports whether a run leaves its block to the account of its agent: all projects
// of the account know of the fault, or the workflow does not use the account any more.
func (s *Snapshot) keptByAccount(r Run) bool {
	isUsed := slices.Contains(s.Policy.AllAgents(), r.Agent)
	return s.account(r.Agent).shared(r) || AccountFault(r.ErrorCode) && !isUsed
}

// shared reports whether all projects of the account know of the fault that a run ended with,
// or the fault is over. The project then needs no separate block.
func (a Account) shared(r Run) bool {
	return AccountFault(r.ErrorCode) && (a.Block != nil || a.Over.After(r.StartedAt)) ||
		r.ErrorCode == CodeAgentQuota && a.Limit != nil
}
