package reconcile

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// contender is a due retry or an unclaimed candidate: one list, one order, one set of slots.
type contender struct {
	issue Issue
	claim *Claim // nil for a candidate
}

// slots counts the slots in use, globally and per state (specification 8.3).
type slots struct {
	taken   int
	byState map[string]int
}

// dispatch gives the free slots to due retries and candidates in the specification's order (8.2).
func (p *planner) dispatch() {
	if p.s.DispatchOff {
		return
	}
	used := p.takenSlots()
	probes := p.probes()
	for _, c := range p.contenders() {
		why := p.refuse(c, &used, probes)
		skip := Skip{IssueID: c.issue.ID, Identifier: c.issue.Identifier, Reason: why.reason, Message: why.message}
		switch {
		case why.reason == "":
			p.start(c)
			used.take(c.issue.State)
			probes--
		case c.claim == nil:
			p.plan.Skips = append(p.plan.Skips, skip)
		default:
			p.plan.Waits = append(p.plan.Waits, skip)
			if why.reason == SkipNoSlot || why.reason == SkipNoSlotInState {
				p.markNoSlot(*c.claim, why)
			}
		}
	}
	if p.s.Tracker.Fetched {
		p.unsavedSkips()
	}
	if p.s.Tracker.Fetched && p.plan.Skips == nil {
		p.plan.Skips = []Skip{} // fetched, and no candidate was skipped
	}
}

// takenSlots counts the running claims, and the ended runs with remaining processes: they are settled only if these can be
// ended, so that their slot is free in the next plan.
func (p *planner) takenSlots() slots {
	used := slots{byState: map[string]int{}}
	for _, c := range p.claims {
		if c.Status == Running {
			used.take(c.Issue.State)
		}
	}
	for _, r := range p.s.Runs {
		if r.Kind == AgentRun && p.runs[r.ID] == nil && len(p.s.Liveness[r.ID].Left) > 0 {
			used.take(r.Issue.State)
		}
	}
	return used
}

func (s *slots) take(state string) {
	s.taken++
	s.byState[NormalizeState(state)]++
}

// contenders lists due retries and unclaimed candidates in dispatch order. A retry whose issue is blocked again is
// released, and is one of the candidates.
func (p *planner) contenders() []contender {
	var list []contender
	for _, c := range p.byAge() {
		if c.Status != Waiting || !p.eligible[c.IssueID] || c.DueAt.After(p.s.Now) {
			continue
		}
		if _, blocked := p.blockers(c.Issue); blocked {
			p.act(ActRelease, *c, SkipBlockedBy, "a blocker is open", p.drop(*c, SkipBlockedBy))
			continue
		}
		list = append(list, contender{issue: c.Issue, claim: c})
	}
	seen := map[string]bool{}
	for _, issue := range p.s.Tracker.Candidates {
		if seen[issue.ID] || p.claims[issue.ID] != nil || !p.concerns(issue.ID) {
			continue
		}
		if issue.Malformed == "" && (issue.Archived || !p.s.Policy.Active(issue.State)) {
			continue
		}
		seen[issue.ID] = true
		list = append(list, contender{issue: issue})
	}
	slices.SortStableFunc(list, func(a, b contender) int { return compareIssues(a.issue, b.issue) })
	for _, b := range p.dispatchBlocks() {
		slices.SortStableFunc(list, func(x, y contender) int { return x.probed(*b).Compare(y.probed(*b)) })
	}
	return list
}

// probed is when the contender's last probe of the block failed; zero if it was not tried. Contenders take turns, because
// the work on one of them may be what causes the fault.
func (c contender) probed(b Block) (at time.Time) {
	if c.claim != nil && c.claim.Kind == Blocked && c.claim.DueAt.After(b.Since) {
		at = c.claim.DueAt
	}
	return at
}

// compareIssues is the order of dispatch: priority 1 to 4, then the rest; oldest first; identifier.
func compareIssues(a, b Issue) int {
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(age(a), age(b)), strings.Compare(a.Identifier, b.Identifier))
}

func rank(i Issue) int {
	if i.Priority == nil || *i.Priority < 1 || *i.Priority > 4 {
		return 5
	}
	return *i.Priority
}

func age(i Issue) int64 {
	if i.CreatedAt == nil {
		return math.MaxInt64
	}
	return i.CreatedAt.UnixMilli()
}

// refusal is why a contender can't start now. Without a reason it can.
type refusal struct {
	reason, message string
	// ofAccount: other projects have the slots.
	ofAccount bool
}

// refuse checks what keeps a contender from starting, in the order in which it is reported.
func (p *planner) refuse(c contender, used *slots, probes int) refusal {
	if c.issue.Malformed != "" {
		return refusal{reason: SkipMalformed, message: "the tracker's record is malformed: " + c.issue.Malformed}
	}
	if c.claim == nil {
		if r := p.refuseCandidate(c.issue); r.reason != "" {
			return r
		}
	}
	switch low := p.s.Policy.MinFreeBytes; {
	case p.s.Paused:
		return refusal{reason: SkipPaused, message: "symphony resume ends the pause"}
	case p.removing[c.issue.ID]:
		return refusal{reason: SkipWorkspaceBusy, message: "its old workspace is being removed"}
	case p.s.HostBlock != nil:
		return refusedBy(*p.s.HostBlock)
	case p.s.Account.Limit != nil:
		return refusal{reason: SkipRateLimited, message: p.s.Account.Limit.Text(p.s.Account.Home, p.s.Now)}
	case p.s.Account.Block != nil && probes <= 0:
		return refusedBy(*p.s.Account.Block)
	case p.s.AgentBlock != nil && probes <= 0:
		return refusedBy(*p.s.AgentBlock)
	case p.s.Tracker.Low:
		return refusal{reason: SkipRateLimited, message: "less than a tenth of the tracker's allowance is left"}
	case p.s.FreeBytes >= 0 && p.s.FreeBytes < low:
		return refusal{reason: SkipDiskLow, message: fmt.Sprintf("%d MiB free, workspace.min_free_bytes asks for %d", p.s.FreeBytes>>20, low>>20)}
	}
	return p.refuseSlot(c.issue, used)
}

// refuseCandidate checks an issue without a claim for eligibility (specification 8.2).
func (p *planner) refuseCandidate(issue Issue) refusal {
	names, blocked := p.blockers(issue)
	switch pol := p.s.Policy; {
	case !pol.Labelled(issue):
		return refusal{reason: SkipLabel, message: "lacks a label of " + strings.Join(pol.RequiredLabels, ", ")}
	case !pol.Ours(issue):
		return refusal{reason: SkipAssignee, message: "is not assigned to " + pol.Assignee}
	case blocked:
		return refusal{reason: SkipBlockedBy, message: "waits for " + names}
	}
	return refusal{}
}

func refusedBy(b Block) refusal {
	return refusal{reason: SkipBlocked, message: b.Code + ": " + b.Message}
}

// refuseSlot checks the slots of the project, of the state and of the account. A pass for one issue may ignore the first
// two.
func (p *planner) refuseSlot(issue Issue, used *slots) refusal {
	anySlot := p.s.AnySlot && p.s.Only == issue.ID
	state := NormalizeState(issue.State)
	limit, limited := p.s.Policy.MaxByState[state]
	switch all, account := p.s.Policy.MaxConcurrent, p.s.Account.Slots; {
	case !anySlot && used.taken >= all:
		return refusal{reason: SkipNoSlot, message: fmt.Sprintf("%d of %d slots taken", used.taken, all)}
	case !anySlot && limited && used.byState[state] >= limit:
		return refusal{reason: SkipNoSlotInState, message: fmt.Sprintf("%d of %d slots taken in %s", used.byState[state], limit, issue.State)}
	case account != nil && account.Free <= 0:
		message := fmt.Sprintf("%s: %d of %d agents of %s run", MaxAgentsVar, account.Taken, account.Max, p.s.Account.Home)
		return refusal{reason: SkipNoSlot, message: message, ofAccount: true}
	}
	return refusal{}
}

// blockers names the open blockers of an issue in Todo. In other states they do not count.
func (p *planner) blockers(issue Issue) (names string, blocked bool) {
	if NormalizeState(issue.State) != "todo" {
		return "", false
	}
	var open []string
	for _, b := range issue.BlockedBy {
		if b.State == nil || !p.s.Policy.Terminal(*b.State) {
			open = append(open, nameOf(b))
		}
	}
	return strings.Join(open, ", "), len(open) > 0
}

func nameOf(b BlockerRef) string {
	switch {
	case b.Identifier != nil:
		return *b.Identifier
	case b.ID != nil:
		return *b.ID
	}
	return "an unnamed blocker"
}

// probes is how many runs may start: one at a time while the agent or the account is blocked, else any number.
func (p *planner) probes() int {
	n := math.MaxInt
	for _, b := range p.dispatchBlocks() {
		if p.probing(*b) || p.s.Now.Before(b.NextTry) {
			return 0
		}
		n = 1
	}
	if p.s.Account.Block != nil && p.s.Account.Probing {
		return 0
	}
	return n
}

// start makes the contender's claim running and adds the dispatch of its run.
func (p *planner) start(c contender) {
	claim := Claim{IssueID: c.issue.ID, Identifier: c.issue.Identifier, Project: p.s.Policy.Project, ClaimedAt: p.s.Now}
	if c.claim != nil {
		claim = *c.claim
	}
	claim.Status, claim.Issue = Running, c.issue
	claim.DueAt = time.Time{}
	claim.WorkspaceRoot = cmp.Or(claim.WorkspaceRoot, p.s.Policy.WorkspaceRoot)
	claim.Runs++
	run := Run{
		Kind: AgentRun, IssueID: c.issue.ID, Identifier: c.issue.Identifier, Attempt: claim.Attempt, Phase: Starting,
		Issue: c.issue, Fingerprint: c.issue.Fingerprint(), StartedAt: p.s.Now, WorkspaceRoot: claim.WorkspaceRoot,
	}
	change := p.put(claim)
	change.Insert = &run
	reason := ""
	if c.claim != nil {
		reason = string(c.claim.Kind)
	}
	probed := p.startOnAccount()
	if b := p.s.AgentBlock; b != nil {
		next := b.Tried(p.s.Now)
		p.s.AgentBlock, change.AgentBlock = &next, &next
	}
	if probed != nil || change.AgentBlock != nil {
		reason = "probe"
	}
	p.plan.Actions = append(p.plan.Actions, Action{
		Kind: ActDispatch, IssueID: c.issue.ID, Identifier: c.issue.Identifier, Reason: reason,
		Change: change, Issue: &c.issue, Attempt: claim.Attempt, Probe: probed,
	})
}

// markNoSlot records once that a due retry found no slot. It stays due and keeps its attempt.
func (p *planner) markNoSlot(c Claim, why refusal) {
	if c.Kind == NoSlot {
		return
	}
	c.Kind, c.ErrorCode, c.ErrorMessage = NoSlot, "", MessageNoSlot
	message := MessageNoSlot
	if why.ofAccount {
		message += ", " + why.message // ps shows what takes the slots of the project itself
	}
	p.act(ActRetry, c, string(NoSlot), message, p.put(c))
}

// startOnAccount takes a slot of the account for a dispatch, and returns the block that the run probes.
func (p *planner) startOnAccount() *Block {
	if s := p.s.Account.Slots; s != nil {
		left := *s
		left.Free, left.Taken = s.Free-1, s.Taken+1
		p.s.Account.Slots = &left
	}
	b := p.s.Account.Block
	if b != nil {
		next := b.Tried(p.s.Now)
		p.s.Account.Block = &next
	}
	return b
}

// dispatches counts the agents that the plan starts.
func (p Plan) dispatches() int {
	n := 0
	for _, a := range p.Actions {
		if a.Kind == ActDispatch {
			n++
		}
	}
	return n
}

// probing reports whether a run of this project, started under the block, is under way.
func (p *planner) probing(b Block) bool {
	for _, r := range p.runs {
		if b.startedUnder(*r) {
			return true
		}
	}
	return false
}

// dispatchBlocks are the blocks under which only one run may start at a time.
func (p *planner) dispatchBlocks() []*Block {
	return slices.DeleteFunc([]*Block{p.s.AgentBlock, p.s.Account.Block}, func(b *Block) bool { return b == nil })
}
