package reconcile

import (
	"fmt"
	"time"
)

// Delivery is what remains to be done about the commits of an issue's runs: they are not in the repository of the workflow yet.
// The zero value means that nothing remains.
type Delivery struct {
	Due      bool      `json:"due,omitempty"`      // the workspace may contain commits to push
	Tries    int       `json:"tries,omitempty"`    // how many deliveries failed in a row
	FailedAt time.Time `json:"failed_at,omitzero"` // the first of them
	Code     string    `json:"code,omitempty"`     // of the last of them
	Message  string    `json:"message,omitempty"`
}

// DeliveryResult is what became of the commits of one run.
type DeliveryResult struct {
	Done    bool   `json:"done"` // nothing remains to be pushed
	Branch  string `json:"branch"`
	Commit  string `json:"commit"`
	Commits int    `json:"commits"` // how many are on the branch and not on its base; 0: there was nothing to push
	Code    string `json:"code"`    // of a failure; empty if Done is false and no delivery was tried
	Message string `json:"message"`
}

// Delivered is what symphony pushed last for an issue.
type Delivered struct {
	URL    string    `json:"-"` // of the repository
	Branch string    `json:"branch"`
	Commit string    `json:"commit"`
	Base   string    `json:"base"`
	At     time.Time `json:"at"`
}

// attentionTries is how many deliveries in a row fail before an operator is notified.
const attentionTries = 3

// DeliveryAttention returns the notification of a delivery that fails again and again; false before the third failure.
func DeliveryAttention(c Claim) (Attention, bool) {
	d := c.Delivery
	return Attention{
		Key:  fmt.Sprintf("delivery:%s:%d", c.IssueID, d.FailedAt.UnixMilli()),
		Kind: AttentionDelivery, IssueID: c.IssueID, Identifier: c.Identifier,
		Text: fmt.Sprintf("the work on %s was not delivered after %d tries: %s: %s; symphony deliver %s tries again now",
			c.Identifier, d.Tries, d.Code, d.Message, c.Identifier),
	}, d.Due && d.Tries >= attentionTries
}

// failed returns the delivery after one more failure.
func (d Delivery) failed(code, message string, at time.Time) Delivery {
	if d.Tries == 0 {
		d.FailedAt = at
	}
	return Delivery{Due: true, Tries: d.Tries + 1, FailedAt: d.FailedAt, Code: code, Message: message}
}

// undelivered reports whether commits of the claim's runs must be pushed before a run may start or the claim may be released.
func (s *Snapshot) undelivered(c Claim) bool { return s.Policy.Deliver && c.Delivery.Due }

// delivering reports whether a delivery run owns the claim.
func (c Claim) delivering() bool { return c.Status == Running && c.Kind == Delivering }

// Fault returns why a waiting claim waits: the failure of its delivery, or else that of its last run. Both are empty if nothing
// failed.
func (c Claim) Fault() (code, message string) {
	if c.Delivery.Due && c.Delivery.Code != "" {
		return c.Delivery.Code, c.Delivery.Message
	}
	return c.ErrorCode, c.ErrorMessage
}

// afterWork returns the claim after the end of an agent's run, whose worker may have pushed the commits or may have failed to.
func (s *Snapshot) afterWork(c Claim, r Run) Claim {
	ended := endOf(r, s.Now)
	switch d := r.Delivery; {
	case !s.Policy.Deliver:
	case d.Done:
		c.Delivery = Delivery{}
	case d.Code != "":
		c.Delivery = c.Delivery.failed(d.Code, d.Message, ended)
	case r.Turns > 0:
		c.Delivery.Due = true
	}
	return s.awaitDelivery(c, ended)
}

// awaitDelivery makes a waiting claim with undelivered commits wait for its delivery.
func (s *Snapshot) awaitDelivery(c Claim, since time.Time) Claim {
	switch tries := c.Delivery.Tries; {
	case c.Status != Waiting || !s.undelivered(c):
	case tries > 0:
		c.Kind, c.DueAt = DeliveryFailed, since.Add(Delay(tries, s.Policy.MaxRetryBackoff))
	default:
		c.Kind, c.DueAt = Delivering, since
	}
	return c
}

// afterDelivery returns the claim after a delivery run has ended. A hold that the operator's command interrupted continues.
func (s *Snapshot) afterDelivery(c Claim, r Run) Claim {
	ended := endOf(r, s.Now)
	c.Status, c.DueAt = Waiting, ended
	switch {
	case r.Outcome == Succeeded:
		c.Delivery, c.Kind = Delivery{}, Continuation
		if c.Failures > 0 {
			c.Kind, c.DueAt = Backoff, ended.Add(Delay(c.Attempt, s.Policy.MaxRetryBackoff))
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
		return s.hold(c, HoldOperator, "held by an operator")
	case c.HoldReason != "":
		c.Status = Held
	}
	return c
}

// deliveries starts a delivery run for each claim whose commits are due. It needs neither the tracker nor a slot of an agent.
func (p *planner) deliveries() {
	if p.s.DispatchOff || p.s.HostBlock != nil {
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
		due := c.Status == Waiting && p.s.undelivered(*c) && !c.DueAt.After(p.s.Now) && !p.removing[c.IssueID]
		if due && (asked || free > 0 && !p.s.Paused) {
			free--
			p.deliver(*c)
		}
	}
}

func (p *planner) deliver(c Claim) {
	reason := string(c.Kind)
	c.Status, c.Kind, c.DueAt = Running, Delivering, time.Time{}
	change := p.put(c)
	change.Insert = &Run{
		Kind: DeliveryRun, IssueID: c.IssueID, Identifier: c.Identifier, Phase: Starting,
		Issue: c.Issue, Fingerprint: c.Issue.Fingerprint(), StartedAt: p.s.Now, WorkspaceRoot: c.WorkspaceRoot,
	}
	p.plan.Actions = append(p.plan.Actions, Action{
		Kind: ActDeliver, IssueID: c.IssueID, Identifier: c.Identifier, Reason: reason, Change: change,
	})
}

// deliverNow carries out the command deliver. It returns the claim due for delivery; false if it cannot be delivered now.
func (p *planner) deliverNow(c *Claim) (Claim, bool) {
	if c == nil || c.Status == Running || !p.s.Policy.Deliver {
		return Claim{}, false
	}
	p.asked[c.IssueID] = true
	next := *c // a held claim keeps the reason of its hold
	next.Delivery.Due = true
	next.Status, next.Kind, next.DueAt = Waiting, Delivering, p.s.Now
	return next, true
}
