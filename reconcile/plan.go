package reconcile

import (
	"cmp"
	"maps"
	"slices"
)

// Compute decides what a pass does. It is pure: it uses no clock, disk, network or process. So every rule is a row of a table
// test, and a dry run prints the plan.
//
//	clock ─► ended runs ─► commands ─► other projects ─► due times ─► refresh ─► caps ─► dispatch ─► sweep
//
// Each step works on the copy of the claims that the earlier steps have changed, so that one pass may settle a run and
// dispatch the next one. Without the tracker's answer only the first five steps are taken. Commands come after the ended
// runs, so that a retry is due now, and not in backoff, if the run has just died.
func Compute(s Snapshot) Plan { return compute(s).plan }

// compute is Compute, and returns also the claims as the plan leaves them.
func compute(s Snapshot) *planner {
	p := newPlanner(s)
	p.clock()
	p.ended()
	p.commands()
	p.otherProjects()
	p.dueTimes()
	if p.s.Tracker != nil {
		p.refresh()
		p.caps()
		p.dispatch()
		p.sweep()
	}
	return p
}

// planner holds the working copy of a snapshot.
type planner struct {
	s      Snapshot
	claims map[string]*Claim // by issue id
	runs   map[string]*Run   // unsettled, by run id
	// removing holds the issues whose workspace is being removed.
	removing map[string]bool
	// eligible holds the waiting claims that the tracker confirmed in this pass.
	eligible map[string]bool
	plan     Plan
}

func newPlanner(s Snapshot) *planner {
	p := &planner{
		s:        s,
		claims:   make(map[string]*Claim, len(s.Claims)),
		runs:     make(map[string]*Run, len(s.Runs)),
		removing: map[string]bool{},
		eligible: map[string]bool{},
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
	return p
}

// concerns reports whether the pass may touch the issue.
func (p *planner) concerns(issueID string) bool { return p.s.Only == "" || p.s.Only == issueID }

// byAge lists the working claims that the pass may touch, in a stable order.
func (p *planner) byAge() []*Claim {
	return slices.DeleteFunc(p.everyClaim(), func(c *Claim) bool { return !p.concerns(c.IssueID) })
}

func (p *planner) everyClaim() []*Claim {
	list := slices.Collect(maps.Values(p.claims))
	slices.SortFunc(list, func(a, b *Claim) int {
		return cmp.Or(a.ClaimedAt.Compare(b.ClaimedAt), cmp.Compare(a.Identifier, b.Identifier), cmp.Compare(a.IssueID, b.IssueID))
	})
	return list
}

// remaining lists the claims as the plan leaves them.
func (p *planner) remaining() []Claim {
	list := p.everyClaim()
	claims := make([]Claim, len(list))
	for i, c := range list {
		claims[i] = *c
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
	p.plan.Actions = append(p.plan.Actions, Action{
		Kind: kind, IssueID: c.IssueID, Identifier: c.Identifier, RunID: runOf(kind, c),
		Reason: reason, Message: message, Change: change,
	})
}

// runOf is the run that an action of this kind is about, empty for none.
func runOf(kind ActionKind, c Claim) string {
	if kind == ActStop || kind == ActSettle || kind == ActReap {
		return c.RunID
	}
	return ""
}

// stop asks the claim's run to end, once. The change, if any, is stored after the request, so that a crash between the two
// repeats the stop. If the run is ending already, only the change is left to do.
func (p *planner) stop(c Claim, reason string, change *Change) {
	r := p.runs[c.RunID]
	if r == nil || r.Outcome != "" || r.StopReason != "" {
		if change != nil {
			p.act(ActHold, c, reason, "its run is ending", change)
		}
		return
	}
	r.StopReason = reason
	p.act(ActStop, c, reason, "", change)
}

// otherProjects releases claims of another endpoint or project; the workspaces stay. A workflow that can't be read gives a
// policy without a project, which says nothing about claims.
func (p *planner) otherProjects() {
	if p.s.Policy.Project == "" {
		return
	}
	for _, c := range p.byAge() {
		switch {
		case c.Project == p.s.Policy.Project:
		case c.Status == Running:
			p.stop(*c, StopProject, nil)
		default:
			p.act(ActRelease, *c, StopProject, "the workflow names another project now", p.drop(*c, StopProject))
		}
	}
}

// clock corrects the agent's block after the clock was set back. It comes first, because other steps compare with it.
func (p *planner) clock() {
	b, latest := p.s.AgentBlock, p.s.Now.Add(longestProbe)
	if b == nil || !b.Since.After(p.s.Now) && !b.NextTry.After(latest) {
		return
	}
	next := *b
	if next.Since.After(p.s.Now) {
		next.Since = p.s.Now
	}
	if next.NextTry.After(latest) {
		next.NextTry = latest
	}
	p.s.AgentBlock = &next
	p.plan.Updates = append(p.plan.Updates, Change{AgentBlock: &next})
}

// dueTimes corrects due times that only a step of the clock can have set so far ahead.
func (p *planner) dueTimes() {
	longest := max(p.s.Policy.MaxRetryBackoff, firstBackoff)
	for _, c := range p.byAge() {
		if c.Status == Waiting && c.DueAt.After(p.s.Now.Add(longest)) {
			next := *c
			next.DueAt = p.s.Now.Add(longest)
			p.plan.Updates = append(p.plan.Updates, *p.put(next))
		}
	}
}
