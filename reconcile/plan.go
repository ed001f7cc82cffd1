package reconcile

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Compute decides what a pass does. It is pure: it uses no clock, disk, network or process. So every rule is a row of a table
// test, and a dry run prints the plan.
//
//	clock ─► ended runs ─► commands ─► other projects ─► refresh ─► caps ─► dispatch ─► sweep
//
// Each step works on the copy of the claims that the earlier steps have changed, so that one pass may settle a run and
// dispatch the next one. Without the tracker's answer only the first four steps are taken. Commands come after the ended
// runs, so that a retry is due now, and not in backoff, if the run has just died.
func Compute(s Snapshot) Plan { return compute(s).plan }

// compute is Compute, and returns also the claims as the plan leaves them.
func compute(s Snapshot) *planner {
	p := &planner{
		s: s, claims: map[string]*Claim{}, runs: map[string]*Run{}, removing: map[string]bool{}, eligible: map[string]bool{},
	}
	for _, c := range s.Claims {
		p.claims[c.IssueID] = &c
	}
	for _, r := range s.Runs {
		p.runs[r.ID] = &r
		if r.Kind == CleanupRun {
			p.removing[r.IssueID] = true
		}
	}
	p.clock()
	p.ended()
	p.commands()
	p.otherProjects()
	if s.Tracker != nil {
		p.refresh()
		p.caps()
		if !s.DispatchOff {
			p.dispatch()
		}
		p.sweep()
	}
	return p
}

// planner holds the working copy of a snapshot.
type planner struct {
	s        Snapshot
	claims   map[string]*Claim // by issue id
	runs     map[string]*Run   // unsettled, by run id
	removing map[string]bool   // by issue id: the workspace is being removed
	eligible map[string]bool   // by issue id: the tracker confirmed the waiting claim in this pass
	plan     Plan
}

// byAge lists the working claims that the pass may touch, in a stable order.
func (p *planner) byAge() []*Claim {
	return slices.DeleteFunc(p.everyClaim(), func(c *Claim) bool { return !p.s.concerns(c.IssueID) })
}

func (p *planner) everyClaim() []*Claim {
	return slices.SortedFunc(maps.Values(p.claims), func(a, b *Claim) int {
		return cmp.Or(a.ClaimedAt.Compare(b.ClaimedAt), cmp.Compare(a.Identifier, b.Identifier), cmp.Compare(a.IssueID, b.IssueID))
	})
}

// remaining lists the claims as the plan leaves them.
func (p *planner) remaining() []Claim {
	claims := make([]Claim, 0, len(p.claims))
	for _, c := range p.everyClaim() {
		claims = append(claims, *c)
	}
	return claims
}

// put makes next the working claim and returns the change that stores it.
func (p *planner) put(next Claim) *Change {
	next.UpdatedAt = p.s.Now
	stored := next
	next.Version++
	p.claims[next.IssueID] = &next
	return &Change{Claim: &stored}
}

// update stores a change that decides nothing.
func (p *planner) update(c *Change) {
	a := Action{Kind: actUpdate, Change: c}
	if c.Claim != nil {
		a.IssueID = c.Claim.IssueID
	}
	p.plan.Actions = append(p.plan.Actions, a)
}

// drop removes the working claim and returns the change that deletes it.
func (p *planner) drop(c Claim, reason string) *Change {
	delete(p.claims, c.IssueID)
	gone := Gone{Reason: reason}
	if p.s.Tracker != nil {
		gone.State = p.s.Tracker.ByID[c.IssueID].State
	}
	return &Change{Claim: &c, Delete: true, Gone: &gone}
}

func (p *planner) act(kind ActionKind, c Claim, reason, message string, change *Change) {
	a := Action{Kind: kind, IssueID: c.IssueID, Identifier: c.Identifier, Reason: reason, Message: message, Change: change}
	if kind == ActStop {
		a.RunID = c.RunID
	}
	p.plan.Actions = append(p.plan.Actions, a)
}

func (p *planner) release(c Claim, reason, message string) {
	p.act(ActRelease, c, reason, message, p.drop(c, reason))
}

// stop asks the claim's run to end, once. The change, if any, is stored after the request, so that a crash between the two
// repeats the stop. If the run is ending already, only the change is left to do.
func (p *planner) stop(c Claim, reason string, change *Change) {
	r := p.runs[c.RunID]
	switch ending := r == nil || r.Outcome != "" || r.StopReason != ""; {
	case !ending:
		r.StopReason = reason
		p.act(ActStop, c, reason, "", change)
	case change != nil:
		p.act(ActHold, c, reason, "its run is ending", change)
	}
}

// hold makes a claim that waits for an operator or a change of the issue.
func (p *planner) hold(c Claim, reason, message string) Claim {
	c.Status, c.HoldReason, c.HoldMessage, c.HeldAt = Held, reason, message, p.s.Now
	c.HoldNext = false
	c.HoldCommentAt = time.Time{}
	if at := c.Issue.LastCommentAt; at != nil {
		c.HoldCommentAt = *at
	}
	return c
}

// freshStart clears all that held a claim back.
func (p *planner) freshStart(c Claim, kind RetryKind) Claim {
	c.Status, c.Kind, c.DueAt = Waiting, kind, p.s.Now
	c.Attempt = min(c.Attempt, 1)
	c.Failures, c.IdleRuns, c.Runs, c.Interruptions = 0, 0, 0, 0
	c.TokenBase = p.s.Tokens[c.IssueID]
	c.HoldReason, c.HoldMessage, c.HoldNext = "", "", false
	c.HeldAt, c.HoldCommentAt = time.Time{}, time.Time{}
	c.ErrorCode, c.ErrorMessage = "", ""
	return c
}

// otherProjects releases claims of another endpoint or project; the workspaces stay. A workflow that can't be read gives a
// policy without a project, which says nothing about claims.
func (p *planner) otherProjects() {
	for _, c := range p.byAge() {
		switch {
		case p.s.Policy.Project == "" || c.Project == p.s.Policy.Project:
		case c.Status == Running:
			p.stop(*c, StopProject, nil)
		default:
			p.release(*c, StopProject, "the workflow names another project now")
		}
	}
}

// clock corrects times that only a step of the clock can have set so far ahead. It comes first, because other steps compare
// with them.
func (p *planner) clock() {
	if b := p.s.AgentBlock; b != nil && b.Unstepped(p.s.Now) != *b {
		next := b.Unstepped(p.s.Now)
		p.s.AgentBlock = &next
		p.update(&Change{AgentBlock: &next})
	}
	latest := p.s.Now.Add(max(p.s.Policy.MaxRetryBackoff, firstBackoff))
	for _, c := range p.byAge() {
		if c.Status == Waiting && c.DueAt.After(latest) {
			next := *c
			next.DueAt = latest
			p.update(p.put(next))
		}
	}
}

// commands carries out what operators asked for. A command is deleted by the change that it causes, or by a change of its
// own where it causes none.
func (p *planner) commands() {
	for _, cmd := range p.s.Commands {
		switch cmd.Verb {
		case VerbPause, VerbResume:
			p.setPaused(cmd)
		case VerbStopAll:
			// It concerns every claim, also in a pass for one issue: that pass deletes the command.
			for _, c := range p.everyClaim() {
				if c.Status == Running {
					p.stop(*c, StopAll, nil)
				}
			}
			p.setPaused(cmd) // last: a crash before this repeats the stops
		case VerbStop, VerbHold, VerbRetry:
			if p.s.concerns(cmd.IssueID) {
				p.issueCommand(cmd)
			}
		}
	}
}

func (p *planner) setPaused(cmd Command) {
	paused := cmd.Verb != VerbResume
	p.s.Paused = paused
	p.update(&Change{Paused: &paused, Commands: []int64{cmd.ID}})
}

func (p *planner) issueCommand(cmd Command) {
	c := Claim{
		IssueID: cmd.IssueID, Identifier: cmd.Identifier, Project: p.s.Policy.Project, ClaimedAt: p.s.Now,
		Issue: Issue{ID: cmd.IssueID, Identifier: cmd.Identifier},
	}
	claimed := p.claims[cmd.IssueID]
	if claimed != nil {
		c = *claimed
	}
	running := c.Status == Running
	kind, message := ActHold, ""
	switch {
	case cmd.Verb == VerbRetry && claimed == nil:
		p.update(&Change{Commands: []int64{cmd.ID}})
		return
	case cmd.Verb == VerbRetry && running:
		c = p.freshStart(c, c.Kind)
		c.Status = Running
		kind, message = ActRetry, "counters cleared, its run goes on"
	case cmd.Verb == VerbRetry:
		c = p.freshStart(c, Requested)
		kind = ActRetry
	case running:
		c.HoldNext = true
		message = "when its present run has ended"
	default:
		c = p.hold(c, HoldOperator, "held by an operator")
	}
	change := p.put(c)
	change.Commands = []int64{cmd.ID}
	if running && cmd.Verb == VerbStop {
		p.stop(c, StopOperator, change)
		return
	}
	p.act(kind, c, HoldOperator, message, change)
}
