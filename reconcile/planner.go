package reconcile

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// draft is a plan in the making, with the snapshot as it would be after it.
type draft struct {
	s      Snapshot
	claims map[string]*Claim // by issue id
	runs   map[string]*Run   // unsettled runs, by run id
	// runsOf are the runs of the snapshot by issue id, also those that the plan settles.
	runsOf map[string][]*Run
	plan   Plan
}

// planner makes the decisions of a plan. Methods of Snapshot decide about a single claim.
type planner struct {
	draft
	removing map[string]bool // by issue id: the workspace is being removed
	eligible map[string]bool // by issue id: the tracker confirmed the waiting claim in this pass
	asked    map[string]bool // by issue id: an operator asked for a delivery
}

// byAge lists the claims that the pass may change, oldest first.
func (d *draft) byAge() []*Claim {
	return slices.DeleteFunc(d.everyClaim(), func(c *Claim) bool { return !d.s.concerns(c.IssueID) })
}

func (d *draft) everyClaim() []*Claim {
	return slices.SortedFunc(maps.Values(d.claims), func(a, b *Claim) int {
		return cmp.Or(
			a.ClaimedAt.Compare(b.ClaimedAt),
			cmp.Compare(a.Identifier, b.Identifier),
			cmp.Compare(a.IssueID, b.IssueID),
		)
	})
}

// remaining returns the claims as the plan leaves them.
func (d *draft) remaining() []Claim {
	claims := make([]Claim, 0, len(d.claims))
	for _, c := range d.everyClaim() {
		claims = append(claims, *c)
	}
	return claims
}

// put makes next the working claim and returns the change that stores it.
func (d *draft) put(next Claim) *Change {
	next.UpdatedAt = d.s.Now
	stored := next
	next.Version++
	d.claims[next.IssueID] = &next
	return &Change{Claim: &stored}
}

// update stores a change that needs no report.
func (d *draft) update(c *Change) {
	a := Action{Kind: actUpdate, Change: c}
	if c.Claim != nil {
		a.IssueID = c.Claim.IssueID
	}
	d.plan.Actions = append(d.plan.Actions, a)
}

// drop removes the claim from the working copy and returns the change that deletes it.
func (d *draft) drop(c Claim, reason string) *Change {
	delete(d.claims, c.IssueID)
	release := Release{Reason: reason}
	if d.s.Tracker != nil {
		issue := d.s.Tracker.ByID[c.IssueID]
		release.State = issue.State
		release.Archived = issue.Archived
	}
	return &Change{Claim: &c, Delete: true, Release: &release}
}

func (d *draft) act(kind ActionKind, c Claim, reason, message string, change *Change) {
	a := Action{
		Kind:       kind,
		IssueID:    c.IssueID,
		Identifier: c.Identifier,
		Reason:     reason,
		Message:    message,
		Change:     change,
	}
	if kind == ActStop {
		a.RunID = c.RunID
	}
	d.plan.Actions = append(d.plan.Actions, a)
}

func (d *draft) release(c Claim, reason, message string) {
	d.act(ActRelease, c, reason, message, d.drop(c, reason))
}

// stop asks the run of a claim to end, unless that was asked before. The change, if any, is
// stored after the request, so that after a crash between the two the stop is repeated. If the
// run is ending already, only the change is stored. Only an operator's stop has a change: it
// holds the issue, and is reported as a hold.
func (d *draft) stop(c Claim, reason string, change *Change) {
	r := d.runs[c.RunID]
	ending := r == nil || r.Outcome != "" || r.StopReason != ""
	switch {
	case !ending:
		r.StopReason = reason
		d.act(ActStop, c, reason, "", change)
	case change != nil:
		d.act(ActHold, c, reason, "its run is ending", change)
	}
}

// freshStart returns the claim due now, without its hold, its last error and its counters.
func (s *Snapshot) freshStart(c Claim, kind RetryKind) Claim {
	c.Status = Waiting
	c.Kind = kind
	c.Wanted = kind == Requested
	c.DueAt = s.Now
	c.Attempt = min(c.Attempt, 1)
	c.Failures = 0
	c.IdleRuns = 0
	c.Runs = 0
	c.Interruptions = 0
	c.TokenBase = s.Tokens[c.IssueID]
	c = s.endHold(c)
	c.ErrorCode = ""
	c.ErrorMessage = ""
	if c.Delivery.OfContent() && kind != Delivering {
		c.Delivery.WaitsForAgent = true
		c.Delivery.Tries = 0
		c.Delivery.Repeats = 0
		c.Delivery.Refusals = 0
	}
	// the run of a delivery needs to know where the work is
	if c.Delivery.Code == CodeWorkspaceGone && kind != Delivering {
		c.Delivery = Delivery{}
	}
	c.Delivery.Handover = c.Delivery.Handover.withoutRounds()
	return c
}

// endHold returns the claim without its hold. Its status stays.
func (s *Snapshot) endHold(c Claim) Claim {
	if c.HoldReason == HoldNeedsHelp {
		c.Delivery.Handover = nil // the agent has its answer
	}
	c.HoldReason = ""
	c.HoldMessage = ""
	c.HoldNext = false
	c.HeldAt = time.Time{}
	c.HoldCommentAt = time.Time{}
	return c
}

// endOf returns when the run ended, or now if that is unknown or in the future.
func endOf(r Run, now time.Time) time.Time {
	if r.EndedAt.IsZero() || r.EndedAt.After(now) {
		return now
	}
	return r.EndedAt
}
