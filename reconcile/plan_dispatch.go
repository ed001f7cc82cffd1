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

// slots counts what is taken, globally and per state (specification 8.3).
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
		reason, message := p.refuse(c, &used, probes)
		skip := Skip{IssueID: c.issue.ID, Identifier: c.issue.Identifier, Reason: reason, Message: message}
		switch {
		case reason == "":
			p.start(c)
			used.take(c.issue.State)
			probes--
		case c.claim == nil:
			p.plan.Skips = append(p.plan.Skips, skip)
		default:
			p.plan.Waits = append(p.plan.Waits, skip)
			if reason == SkipNoSlot || reason == SkipNoSlotInState {
				p.markNoSlot(*c.claim, message)
			}
		}
	}
	if p.s.Tracker.Fetched && p.plan.Skips == nil {
		p.plan.Skips = []Skip{} // fetched, and nobody was skipped
	}
}

// takenSlots counts the running claims, and the runs of which processes are left: they are settled only if
// these can be ended, so the slot is not given away in the same plan.
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

// contenders lists due retries and unclaimed candidates in dispatch order. A retry whose issue is blocked
// again is let go and stands among the candidates.
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
		if seen[issue.ID] || p.claims[issue.ID] != nil || !p.concerns(issue.ID) || issue.Archived || !p.s.Policy.Active(issue.State) {
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

// probed is when the contender's last run ended in vain under the block; zero if it has not been tried. After the first
// they take turns: for one of them it may be its own work that brings the fault about, time after time.
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

// refuse says why a contender can't start now; an empty reason lets it.
func (p *planner) refuse(c contender, used *slots, probes int) (reason, message string) {
	pol := p.s.Policy
	if c.claim == nil {
		if !pol.Labelled(c.issue) {
			return SkipLabel, "lacks a label of " + strings.Join(pol.RequiredLabels, ", ")
		}
		if !pol.Ours(c.issue) {
			return SkipAssignee, "is not assigned to " + pol.Assignee
		}
		if names, blocked := p.blockers(c.issue); blocked {
			return SkipBlockedBy, "waits for " + names
		}
	}
	anySlot := p.s.AnySlot && p.s.Only == c.issue.ID
	state := NormalizeState(c.issue.State)
	limit, limited := pol.MaxByState[state]
	shut, why := p.refuseByAccount(probes)
	full := p.noAccountSlot()
	switch {
	case p.s.Paused:
		return SkipPaused, "symphony resume ends the pause"
	case p.removing[c.issue.ID]:
		return SkipWorkspaceBusy, "its old workspace is being removed"
	case p.s.HostBlock != nil:
		return SkipBlocked, p.s.HostBlock.Code + ": " + p.s.HostBlock.Message
	case shut != "":
		return shut, why
	case p.s.AgentBlock != nil && probes <= 0:
		return SkipBlocked, p.s.AgentBlock.Code + ": " + p.s.AgentBlock.Message
	case p.s.Tracker.Low:
		return SkipRateLimited, "less than a tenth of the tracker's allowance is left"
	case p.s.FreeBytes >= 0 && p.s.FreeBytes < pol.MinFreeBytes:
		return SkipDiskLow, fmt.Sprintf("%d MiB free, workspace.min_free_bytes asks for %d", p.s.FreeBytes>>20, pol.MinFreeBytes>>20)
	case !anySlot && used.taken >= pol.MaxConcurrent:
		return SkipNoSlot, fmt.Sprintf("%d of %d slots taken", used.taken, pol.MaxConcurrent)
	case !anySlot && limited && used.byState[state] >= limit:
		return SkipNoSlotInState, fmt.Sprintf("%d of %d slots taken in %s", used.byState[state], limit, c.issue.State)
	case full != "":
		return SkipNoSlot, full
	}
	return "", ""
}

// blockers names the open blockers of an issue in Todo; in other states they do not count.
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

// probes is how many runs may start: all of them, or while the agent's side is blocked one at a time.
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

// start makes the contender's claim running and asks for its worker.
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

// markNoSlot says once that a due retry found no slot. It stays due and keeps its attempt.
func (p *planner) markNoSlot(c Claim, why string) {
	if c.Kind == NoSlot {
		return
	}
	c.Kind, c.ErrorCode, c.ErrorMessage = NoSlot, "", MessageNoSlot
	message := MessageNoSlot
	if why == p.noAccountSlot() {
		message += ", " + why // what else fills the slots ps shows
	}
	p.act(ActRetry, c, string(NoSlot), message, p.put(c))
}
