package reconcile

import (
	"cmp"
	"fmt"
	"time"
)

// deliveries starts a delivery run for each claim whose work is due. For that a pass needs
// neither the tracker's answer nor a slot of an agent.
func (p *planner) deliveries() {
	if p.s.DispatchOff || p.s.MachineBlock != nil {
		return
	}
	free := p.s.Policy.MaxConcurrent
	for _, c := range p.claims {
		if c.delivering() {
			free--
		}
	}
	for _, c := range p.byAge() {
		if c.Project != p.s.Policy.Project {
			continue // it belongs to another repository, too
		}
		asked := p.asked[c.IssueID] // a pause does not concern an operator's command
		due := (asked || c.Status == Waiting) && p.s.undelivered(*c) && !c.DueAt.After(p.s.Now)
		if !due {
			continue
		}
		wait := p.s.deliveryWait(*c, p.unverifiedHost(c.IssueID), p.s.Now)
		if wait.Reason == SkipUnverified || wait.Reason == SkipBlocked && !asked {
			skip := Skip{
				IssueID:    c.IssueID,
				Identifier: c.Identifier,
				Reason:     wait.Reason,
				Message:    wait.Message + "; " + wait.Ends,
			}
			p.plan.Waits = append(p.plan.Waits, skip)
			continue
		}
		if !p.removing[c.IssueID] && (asked || free > 0 && !p.s.Paused) {
			free--
			p.deliver(*c)
		}
	}
}

func (p *planner) deliver(c Claim) {
	reason := string(c.Kind)
	c.Status = Running
	c.Kind = Delivering
	c.DueAt = time.Time{}
	change := p.put(c)
	change.Insert = &Run{
		Kind:          DeliveryRun,
		IssueID:       c.IssueID,
		Identifier:    c.Identifier,
		Phase:         Starting,
		Issue:         c.Issue,
		Fingerprint:   c.Issue.Fingerprint(),
		StartedAt:     p.s.Now,
		WorkspaceRoot: cmp.Or(c.Delivery.Root, c.WorkspaceRoot),
		Host:          c.Delivery.runsOn(),
		Delivery:      DeliveryResult{Handover: c.Delivery.Handover},
	}
	p.act(ActDeliver, c, reason, "", change)
}

// deliverNow carries out the command deliver. It returns the claim due for delivery; false if
// it cannot be delivered now. A held claim stays held until its delivery run starts.
func (p *planner) deliverNow(c *Claim, cmd Command) (Claim, bool) {
	if c == nil || c.Status == Running {
		return Claim{}, false
	}
	next := *c
	next.Delivery.Handover = c.Delivery.Handover.forCommand(cmd)
	if !p.s.Policy.Deliver && next.Delivery.Handover == nil {
		return Claim{}, false
	}
	p.asked[c.IssueID] = true
	next.Delivery.Due = true
	next.Delivery.WaitsForAgent = false
	next.Kind = Delivering
	next.DueAt = p.s.Now
	return next, true
}

// forCommand returns the handover for the delivery run of the command deliver; nil if nothing
// is to be handed over, unless a user takes the work as it is.
func (h *Handover) forCommand(cmd Command) *Handover {
	if h == nil && cmd.UnverifiedBy != "" {
		h = &Handover{}
	}
	if h == nil {
		return nil
	}
	next := *h
	next.UnverifiedBy = cmd.UnverifiedBy
	if h.At.After(cmd.CreatedAt) {
		next.UnverifiedBy = "" // the command was about an earlier handover
	}
	if h.Refused() {
		next.Verification = nil
	}
	return &next
}

// afterWork returns the claim after the end of an agent's run, whose worker may have pushed
// the commits or may have failed to.
func (s *Snapshot) afterWork(c Claim, r Run) Claim {
	ended := endOf(r, s.Now)
	c.Delivery = c.Delivery.verified(r)
	if r.Turns > 0 || r.Delivery.Done {
		c.Delivery.Host = r.Host
		c.Delivery.Root = r.WorkspaceRoot
	}
	// an agent that worked may have changed the work that an earlier handover is about
	if r.Turns > 0 || r.Delivery.Handover != nil {
		c.Delivery.Handover = r.Delivery.Handover
	}
	d := r.Delivery
	switch {
	case r.Remote == RemoteGone:
		c.Delivery = Delivery{}
	case !s.Policy.Deliver && !c.Delivery.Handover.Waits():
		// a due delivery stays due until the workflow delivers again
	case d.Done:
		c.Delivery = c.Delivery.done()
	case d.OthersPushed:
		c.Delivery = c.Delivery.afterOthersPushed()
	case d.Code != "":
		c.Delivery = c.Delivery.failed(d.Code, d.Message, ended)
	case r.Turns > 0:
		c.Delivery.Due = true
		c.Delivery.WaitsForAgent = false
		if c.Delivery.Handover.Waits() { // an earlier refusal was about other commits
			c.Delivery.Code = ""
			c.Delivery.Message = ""
		}
	}
	return s.awaitDelivery(c, ended)
}

// deliverAnyway returns a claim whose delivery waits for an agent, when no agent can work on
// the issue any more. Passes try the delivery again, and say why it fails.
func (s *Snapshot) deliverAnyway(c Claim) Claim {
	c.Delivery.WaitsForAgent = false
	if c.Status == Waiting && s.undelivered(c) && c.Delivery.RefusedByRule() {
		return s.deliverAgain(c, s.Now)
	}
	return s.awaitDelivery(c, s.Now)
}

// maxRefusals is how often commits are delivered that only other commits can mend.
const maxRefusals = 3

// awaitDelivery makes a waiting claim with undelivered commits wait for its delivery, or holds it
// if the delivery was refused too often. Another hold, such as an operator's, stays.
func (s *Snapshot) awaitDelivery(c Claim, since time.Time) Claim {
	tries := c.Delivery.Tries
	ofDelivery := isOfDelivery(c.HoldReason)
	heldOtherwise := c.HoldNext || c.HoldReason != "" && !ofDelivery
	switch {
	case c.Status != Waiting || !s.undelivered(c):
	case c.Delivery.Code == CodeIncomplete && c.Delivery.Repeats >= maxRefusals && !heldOtherwise:
		// Only a change of the commits can help, and no agent changes them meanwhile.
		message := fmt.Sprintf(
			"the delivery was refused %d times for the same reason: %s",
			c.Delivery.Repeats,
			c.Delivery.Message,
		)
		return s.hold(c, HoldRefused, message)
	case c.Delivery.RefusedByRule() && c.Delivery.Refusals >= maxRefusals && !heldOtherwise:
		return s.hold(c, c.Delivery.Code, c.Delivery.Message)
	case c.Delivery.RefusedByRule():
		// The same commits would be refused again. An agent hands over others.
		c.Delivery.WaitsForAgent = true
		c.Delivery.Handover = nil
		c.Kind = Continuation
		c.DueAt = since
	case tries > 0:
		return s.deliverAgain(c, since)
	default:
		c.Kind = Delivering
		c.DueAt = since
	}
	return c
}

// isOfDelivery reports whether a hold is about commits that a delivery or hand_over refused.
func isOfDelivery(hold string) bool {
	return hold == HoldRefused || hold == CodeDeliveryRefused || hold == CodeBaseReplaced
}

// deliverAgain returns a claim that waits for another try of its delivery, later after each failure.
func (s *Snapshot) deliverAgain(c Claim, since time.Time) Claim {
	c.Kind = DeliveryFailed
	c.DueAt = since.Add(BackoffDelay(c.Delivery.Tries, s.Policy.MaxRetryBackoff))
	return c
}

// afterDelivery returns the claim after the end of a delivery run. A hold that the operator's
// command interrupted continues.
func (s *Snapshot) afterDelivery(c Claim, r Run) Claim {
	ended := endOf(r, s.Now)
	c.Status = Waiting
	c.DueAt = ended
	c.Delivery = c.Delivery.verified(r)
	c.Delivery.Handover = cmp.Or(r.Delivery.Handover, c.Delivery.Handover)
	staysHeld := c.HoldReason != "" || c.HoldNext
	switch {
	case r.Delivery.OthersPushed && staysHeld:
		// No agent comes to hand over again: the present handover stays.
		const message = "others have pushed to its branch meanwhile, and no agent merges that while it is held"
		c.Delivery = c.Delivery.failed(CodeDeliveryConflict, message, ended)
		c = s.awaitDelivery(c, ended)
	case r.Delivery.OthersPushed:
		c.Delivery = c.Delivery.afterOthersPushed()
		c.Kind = Continuation
	case r.Outcome.IsRegular():
		ofDelivery := isOfDelivery(c.HoldReason)
		if ofDelivery && c.Delivery.OfContent() {
			c = s.endHold(c)
		}
		c.Delivery = c.Delivery.done()
		c.Kind = Continuation
		if c.Failures > 0 {
			c.Kind = Backoff
			c.DueAt = ended.Add(BackoffDelay(c.Attempt, s.Policy.MaxRetryBackoff))
		}
	case r.Outcome == Canceled || r.Outcome == InterruptedRun || r.ErrorCode == CodeWorkspaceBusy:
		c = s.awaitDelivery(c, ended)
		c.DueAt = ended.Add(firstBackoff)
	default:
		c.Delivery = c.Delivery.failed(r.ErrorCode, r.ErrorText, ended)
		c = s.awaitDelivery(c, ended)
	}
	switch {
	case c.HoldNext:
		return s.holdByOperator(c)
	case c.HoldReason != "":
		c.Status = Held
	}
	return c
}
