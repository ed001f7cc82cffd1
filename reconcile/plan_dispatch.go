package reconcile

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
)

// contender is a due retry or an unclaimed candidate. Both compete for the same slots, in the
// same order.
type contender struct {
	issue Issue
	claim *Claim // nil for a candidate
}

// dispatch counts the slots of a plan.
type dispatch struct {
	*planner
	taken   int
	byState map[string]int
	started int
	onHost  map[string]int           // the agents of each host
	noHost  *Obstacle                // why no host can take a run; nil if that is not known
	lost    map[string]time.Duration // of LostHosts
	// obstacle keeps every issue from starting. The block of the agent, and the budget of the
	// day, stop only contenders that no person wants (isWanted). Each is nil if it is not in
	// the way.
	obstacle, block, budget *Obstacle
	// testers are the issues whose runs test whether the blocks of accounts are over.
	testers    map[Agent]string
	candidates map[string]Issue // by id; nil until a candidate is blocked
}

// MessageNoSlot is the specification's text for a due retry without a slot (8.4). People see
// which slots are taken instead.
const MessageNoSlot = "no available orchestrator slots"

// dispatch gives the free slots to due retries and candidates in the specification's order
// (8.2).
func (p *planner) dispatch() {
	if p.s.Tracker.Fetched {
		p.plan.Skips = []Skip{}
	}
	d := p.newDispatch()
	queued := 0
	_, noAgent := d.chooseAgent(contender{})
	obstacle := cmp.Or(d.obstacle, noAgent, d.block, d.budget)
	for _, c := range d.contenders() {
		skip := d.skipOf(c)
		if skip.Reason == "" {
			d.start(c)
			continue
		}
		noSlot := skip.Reason == SkipNoSlot || skip.Reason == SkipNoSlotInState
		if noSlot {
			queued++
			skip.Place = queued
		}
		if c.claim == nil {
			p.plan.Skips = append(p.plan.Skips, skip)
			continue
		}
		p.plan.Waits = append(p.plan.Waits, skip)
		if noSlot && c.claim.Kind != NoSlot {
			p.queue(*c.claim, skip.Message)
		}
	}
	if d.started == 0 {
		p.plan.Obstacle = obstacle
	}
	if p.s.Tracker.Fetched {
		p.unsavedSkips()
	}
}

// skipOf returns why a contender does not start now; without a reason if it can.
func (d *dispatch) skipOf(c contender) Skip {
	reason, subject, message := d.refuse(c)
	skip := Skip{
		IssueID:    c.issue.ID,
		Identifier: c.issue.Identifier,
		Title:      c.issue.Title,
		Labels:     c.issue.Labels,
		Reason:     reason,
		Subject:    subject,
		Message:    message,
	}
	if c.issue.URL != nil {
		skip.URL = *c.issue.URL
	}
	switch reason {
	case SkipBlockedBy:
		skip.Mend = d.mendOfBlockers(c.issue)
	case SkipUnknownState:
		skip.Mend = fmt.Sprintf("set its state to %s, and a pass starts it", subject)
	}
	return skip
}

// queue makes a due retry wait for a slot. It stays due and keeps its attempt.
func (p *planner) queue(c Claim, message string) {
	c.Kind = NoSlot
	c.ErrorCode = ""
	c.ErrorMessage = MessageNoSlot
	p.act(ActRetry, c, string(NoSlot), message, p.put(c))
}

// newDispatch counts the slots that are taken (specification 8.3): by running claims, and by
// ended runs with remaining processes, because it is not certain yet that these can be ended.
// It also finds out whether a block lets a run start, as a test.
func (p *planner) newDispatch() *dispatch {
	d := &dispatch{
		planner:  p,
		byState:  map[string]int{},
		obstacle: p.s.obstacle(),
		budget:   p.s.budget(),
	}
	for _, c := range p.claims {
		if c.Status == Running && !c.delivering() {
			d.take(c.Issue.State)
		}
	}
	for _, r := range p.s.Runs {
		if r.Kind == AgentRun && p.runs[r.ID] == nil && len(p.s.Liveness[r.ID].Left) > 0 {
			d.take(r.Issue.State)
		}
	}
	d.surveyHosts()
	d.findTesters()
	if b := p.s.agentBlock(); b != nil {
		tester := d.testerOf(*b, func(r Run) bool { return b.stopsRunsOn(r.Host) })
		if tester != "" || p.s.Now.Before(b.NextTry) {
			d.block = b.obstacle(tester)
		}
	}
	return d
}

// obstacle returns a block under which no further run starts. The run of the issue tester, if
// any, tests whether it is over.
func (b Block) obstacle(tester string) *Obstacle {
	return &Obstacle{
		Reason:  SkipBlocked,
		Message: b.Code + ": " + b.Message,
		Until:   b.NextTry,
		Tester:  tester,
	}
}

// agentBlock returns the block of this machine under which only a single run may start at a
// time; nil for none.
func (s *Snapshot) agentBlock() *Block {
	host := ""
	if len(s.Policy.Hosts) > 0 {
		host = s.Policy.Hosts[0]
	}
	if s.AgentBlock == nil || !s.AgentBlock.stopsRunsOn(host) {
		return nil
	}
	return s.AgentBlock
}

// dispatchBlocks returns the blocks under which only a single run may start at a time: of
// accounts, and of this machine.
func (s *Snapshot) dispatchBlocks() (list []*Block) {
	if s.hasAccounts() {
		for _, account := range s.Accounts {
			list = append(list, account.Block)
		}
	}
	list = append(list, s.agentBlock())
	return slices.DeleteFunc(list, func(b *Block) bool { return b == nil })
}

// take counts an agent that works on an issue in a state.
func (d *dispatch) take(state string) {
	d.taken++
	d.byState[NormalizeState(state)]++
}

// contenders lists due retries and unclaimed candidates in dispatch order. A due retry whose
// issue is blocked by another is released, and becomes a candidate again.
func (d *dispatch) contenders() []contender {
	retries := d.dueRetries()
	isBlocked := func(c contender) bool {
		_, blocked := d.s.blockers(c.issue)
		return blocked && c.issue.Malformed == ""
	}
	for _, c := range retries {
		if isBlocked(c) {
			d.release(*c.claim, SkipBlockedBy, "a blocker is open")
		}
	}
	list := slices.Concat(slices.DeleteFunc(retries, isBlocked), d.unclaimed())
	slices.SortStableFunc(list, func(a, b contender) int { return CompareIssues(a.issue, b.issue) })
	for _, b := range d.s.dispatchBlocks() {
		slices.SortStableFunc(
			list,
			func(x, y contender) int { return x.lastProbe(*b).Compare(y.lastProbe(*b)) },
		)
	}
	return list
}

// dueRetries lists the waiting claims that may start now.
func (d *dispatch) dueRetries() (list []contender) {
	for _, c := range d.byAge() {
		isDue := !c.DueAt.After(d.s.Now) || d.s.atOnce(c.IssueID)
		if c.Status != Waiting || !d.eligible[c.IssueID] || !isDue {
			continue
		}
		issue := c.Issue
		issue.Malformed = d.s.Tracker.ByID[c.IssueID].Malformed
		list = append(list, contender{issue: issue, claim: c})
	}
	return list
}

// unclaimed lists the candidates without a claim, each once.
func (d *dispatch) unclaimed() (list []contender) {
	seen := map[string]bool{}
	for _, issue := range d.s.Tracker.Candidates {
		if seen[issue.ID] || d.claims[issue.ID] != nil || !d.s.concerns(issue.ID) {
			continue
		}
		if d.s.Tracker.Refreshed[issue.ID] {
			// The two requests may have seen the issue at different moments. An issue that the
			// refresh released must not start here.
			refreshed, visible := d.s.Tracker.ByID[issue.ID]
			if !visible || refreshed.Elsewhere {
				continue
			}
			issue = refreshed
		}
		isNone := issue.Archived || !d.s.Policy.Active(issue.State) && issue.StateMeant == ""
		if issue.Malformed == "" && isNone {
			continue
		}
		seen[issue.ID] = true
		list = append(list, contender{issue: issue})
	}
	return list
}

// lastProbe is when the contender's last probe of the block failed, zero if it made none.
// Contenders take turns, because the fault may be due to a single contender.
func (c contender) lastProbe(b Block) (at time.Time) {
	if c.claim != nil && c.claim.Kind == Blocked && c.claim.DueAt.After(b.Since) {
		at = c.claim.DueAt
	}
	return at
}

// CompareIssues compares issues in the order of dispatch: by priority 1 to 4 and then the
// rest, by age, by identifier: TASK-2 comes before TASK-10 of the same minute.
func CompareIssues(a, b Issue) int {
	priorityA, createdA := rank(a)
	priorityB, createdB := rank(b)
	return cmp.Or(
		cmp.Compare(priorityA, priorityB),
		cmp.Compare(createdA, createdB),
		text.CompareNatural(a.Identifier, b.Identifier),
	)
}

func rank(i Issue) (priority int, created int64) {
	priority = 5
	created = math.MaxInt64
	if i.Priority != nil && *i.Priority >= 1 && *i.Priority <= 4 {
		priority = *i.Priority
	}
	if i.CreatedAt != nil {
		created = i.CreatedAt.UnixMilli()
	}
	return priority, created
}

// obstacle returns the obstacle that keeps every issue from starting, except for the blocks
// that a run may test; nil for none.
func (s *Snapshot) obstacle() *Obstacle {
	least := s.Policy.MinFreeBytes
	switch {
	case s.Paused:
		return &Obstacle{Reason: SkipPaused, Message: "the project is paused"}
	case s.MachineBlock != nil:
		return &Obstacle{
			Reason:  SkipBlocked,
			Message: s.MachineBlock.Code + ": " + s.MachineBlock.Message,
		}
	case s.FreeBytes >= 0 && s.FreeBytes < least:
		message := DiskLowText(s.Policy.WorkspaceRoot, s.FreeBytes, least)
		return &Obstacle{Reason: SkipDiskLow, Message: message}
	}
	return nil
}

// budget returns the obstacle of a budget that is used up, nil for none.
func (s *Snapshot) budget() *Obstacle {
	b := s.Policy.DailyBudget
	if !b.Reached(s.Today) {
		return nil
	}
	return &Obstacle{Reason: SkipBudget, Message: b.Text(s.Now), Until: DayEnd(s.Now)}
}

// laterObstacle is the obstacle that would keep the next pass from starting runs, for a pass
// that starts none itself; nil for none.
func (d *dispatch) laterObstacle() *Obstacle {
	wanted := func(c *Claim) bool {
		return c.Status == Waiting && d.s.isWanted(contender{
			issue: c.Issue,
			claim: c,
		})
	}
	_, noAgent := d.chooseAgent(contender{})
	isLimit := noAgent != nil && noAgent.Reason == SkipRateLimited
	if d.obstacle == nil && !isLimit && slices.ContainsFunc(d.byAge(), wanted) {
		return nil
	}
	return cmp.Or(d.obstacle, noAgent, d.block, d.budget)
}

// isWanted reports whether a person wants this run now: by symphony run, or as Claim.Wanted
// says. Neither a used-up budget nor a block keeps such a run from starting; it tests whether
// the block is over.
func (s *Snapshot) isWanted(c contender) bool {
	return s.atOnce(c.issue.ID) || c.claim != nil && c.claim.Wanted
}

// refuse returns the first reason for which a contender cannot start; empty if it can. The
// rules for candidates alone (specification 8.2) were checked for a retry by the refresh.
func (d *dispatch) refuse(c contender) (reason, subject, message string) {
	s := d.s
	pol := d.s.Policy
	_, noAgent := d.chooseAgent(c)
	issue := c.issue
	names, open := s.blockers(issue)
	state := NormalizeState(issue.State)
	limit, limited := pol.MaxByState[state]
	anySlot := s.atOnce(issue.ID) // SYMPHONY_MAX_AGENTS still applies
	switch {
	case issue.Malformed != "":
		return SkipMalformed, "", "the tracker's record is malformed: " + issue.Malformed
	case c.claim == nil && !pol.Active(issue.State):
		return SkipUnknownState, issue.StateMeant, UnknownState(issue.State, issue.StateMeant)
	case c.claim == nil && !pol.Labelled(issue):
		missing := "label " + strings.Join(pol.MissingLabels(issue), " and the label ")
		return SkipLabel, missing, "it lacks the " + missing
	case c.claim == nil && !pol.Ours(issue):
		return SkipAssignee, pol.Assignee, "it is not assigned to " + pol.Assignee
	case c.claim == nil && open:
		if d.waitsForItself(issue) {
			names += " (a circle: it waits for itself until you remove one of the dependencies)"
		}
		return SkipBlockedBy, names, "it waits for " + names
	case issue.OtherPull != nil && s.begins(c):
		pull := issue.OtherPull
		return SkipPullRequest, pull.URL, "its pull request " + pull.URL + " by " + pull.Author + " is open"
	case d.obstacle != nil:
		return d.obstacle.Reason, "", d.obstacle.Message
	case s.Claimed.of(issue) != "":
		return SkipElsewhere, "", s.Claimed.of(issue)
	case s.Refused[issue.ID] != "":
		return SkipClaimRefused, "", s.Refused[issue.ID]
	case d.removing[issue.ID]:
		return SkipWorkspaceBusy, "", "its old workspace is being removed"
	case d.unverifiedHost(issue.ID) != "":
		return SkipUnverified, "", "its last run may still be at work on " + d.unverifiedHost(issue.ID)
	case noAgent != nil:
		return noAgent.Reason, "", noAgent.Message
	case d.block != nil && !s.isWanted(c):
		return d.block.Reason, "", d.block.Message
	case d.budget != nil && !s.isWanted(c):
		return d.budget.Reason, "", d.budget.Message
	case !anySlot && d.taken >= pol.MaxConcurrent:
		return SkipNoSlot, "", slotsText(pol.MaxConcurrent, "")
	case !anySlot && limited && d.byState[state] >= limit:
		return SkipNoSlotInState, "", slotsText(limit, " for "+issue.State)
	case s.Slots != nil && s.Slots.Free <= 0:
		return SkipNoSlot, "", MaxAgentsVar + ": " + slotsText(s.Slots.Max, " of "+s.Slots.Home)
	}
	_, reason, message = d.chooseHost(c)
	if reason == "" && issue.PullsUnread && s.begins(c) {
		return SkipPullRequest, "", "the next pass reads whether it has an open pull request"
	}
	if reason == "" && s.Got != nil && !s.Got[issue.ID] {
		return SkipElsewhere, "", "the next pass asks for its claim, after those of other issues were not to be had"
	}
	return reason, "", message
}

// begins reports whether a run would be the first step on the issue, without an operator's
// request: there is neither a claim nor a workspace.
func (s *Snapshot) begins(c contender) bool {
	return c.claim == nil && !s.atOnce(c.issue.ID) &&
		!slices.ContainsFunc(s.Workspaces, func(w Workspace) bool {
			return w.IssueID == c.issue.ID && w.Project == s.Policy.Project
		})
}

// blockers names the open blockers of an issue.
func (s *Snapshot) blockers(issue Issue) (names string, blocked bool) {
	var list []string
	for _, b := range s.openBlockers(issue) {
		unnamed := "an unnamed blocker"
		unknown := ""
		switch {
		case s.malformed(b) != "":
			unknown = " (its record is malformed: " + s.malformed(b) + ")"
		case b.State == nil:
			unknown = " (unknown to the tracker)"
		}
		list = append(list, *cmp.Or(b.Identifier, b.ID, &unnamed)+unknown)
	}
	return strings.Join(list, ", "), len(list) > 0
}

// malformed is the fault of the record of a blocker without a state, as far as it is among the
// candidates; empty if none is known.
func (s *Snapshot) malformed(b BlockerRef) string {
	if b.State != nil || b.ID == nil || s.Tracker == nil {
		return ""
	}
	for _, c := range s.Tracker.Candidates {
		if strings.EqualFold(c.ID, *b.ID) {
			return c.Malformed
		}
	}
	return ""
}

// openBlockers returns the open blockers of an issue that waits to be begun. In other states
// blockers do not count.
func (s *Snapshot) openBlockers(issue Issue) (open []BlockerRef) {
	if !slices.Contains(s.Policy.WaitingStates, NormalizeState(issue.State)) {
		return nil
	}
	for _, b := range issue.BlockedBy {
		if !b.Ended && (b.State == nil || !s.Policy.Terminal(*b.State)) {
			open = append(open, b)
		}
	}
	return open
}

// circleLimit is how many issues a circle of blockers may have to be recognized.
const circleLimit = 100

// waitsForItself reports whether the open blockers of a candidate wait for it in turn,
// directly or through other candidates.
func (d *dispatch) waitsForItself(issue Issue) bool {
	if d.candidates == nil {
		d.candidates = map[string]Issue{}
		for _, c := range d.s.Tracker.Candidates {
			d.candidates[c.ID] = c
		}
	}
	seen := map[string]bool{}
	next := []Issue{issue}
	for len(next) > 0 && len(seen) < circleLimit {
		waiting := next[0]
		next = next[1:]
		for _, b := range d.s.openBlockers(waiting) {
			if b.ID == nil || seen[*b.ID] {
				continue
			}
			if *b.ID == issue.ID {
				return true
			}
			seen[*b.ID] = true
			next = append(next, d.candidates[*b.ID])
		}
	}
	return false
}

// mendOfBlockers says what a person has to do if an issue would otherwise wait for its blockers
// forever; empty if they may end.
func (d *dispatch) mendOfBlockers(issue Issue) string {
	if d.waitsForItself(issue) {
		return "remove one of the dependencies of the circle"
	}
	var steps []string
	for _, b := range d.s.openBlockers(issue) {
		name := cmp.Or(b.Identifier, b.ID)
		switch {
		case b.State != nil || name == nil:
			continue
		case d.s.malformed(b) != "":
			return "correct the record of " + *name
		case b.Mend != "":
			steps = append(steps, b.Mend)
		default:
			steps = append(steps, "create "+*name)
		}
	}
	if len(steps) == 0 {
		return ""
	}
	them := "it"
	if len(steps) > 1 {
		them = "them"
	}
	return strings.Join(steps, "; ") + ", or remove " + them + " from the dependencies of " + issue.Identifier
}

// DispatchProbe is the reason of a run that tests whether a block is over.
const DispatchProbe = "probe"

// start makes the contender's claim running and adds the dispatch of its run.
func (d *dispatch) start(c contender) {
	host, _, _ := d.chooseHost(c)
	agent, _ := d.chooseAgent(c)
	claim := d.s.startedClaim(c, agent)
	change := d.put(claim)
	change.Insert = d.s.newRun(claim, host)
	d.occupy(c, host, agent)
	reason := ""
	if c.claim != nil {
		reason = string(c.claim.Kind)
	}
	probed, tests := d.s.testBlocks(c, host, change)
	if tests {
		reason = DispatchProbe
	}
	d.plan.Actions = append(d.plan.Actions, Action{
		Kind:       ActDispatch,
		IssueID:    c.issue.ID,
		Identifier: c.issue.Identifier,
		Reason:     reason,
		Change:     change,
		Probe:      probed,
	})
}

// startedClaim returns the contender's claim with a run of an agent that is starting; a new
// claim for a candidate.
func (s *Snapshot) startedClaim(c contender, agent Agent) Claim {
	claim := Claim{
		IssueID:    c.issue.ID,
		Identifier: c.issue.Identifier,
		Project:    s.Policy.Project,
		ClaimedAt:  s.Now,
	}
	if c.claim != nil {
		claim = *c.claim
	}
	claim.Status = Running
	claim.Agent = agent
	claim.Issue = c.issue
	claim.StartedIn = c.issue.State
	claim.DueAt = time.Time{}
	claim.Wanted = false
	claim.WorkspaceRoot = cmp.Or(claim.WorkspaceRoot, s.Policy.WorkspaceRoot)
	claim.Runs++
	return claim
}

// newRun returns the run of a claim that is starting, on a host or on this machine.
func (s *Snapshot) newRun(claim Claim, host string) *Run {
	root := claim.WorkspaceRoot
	if host != "" {
		root = cmp.Or(s.remoteWorkspace(claim.Issue.ID).Root, s.Policy.RemoteRoot)
	}
	run := &Run{
		Kind:          AgentRun,
		Agent:         claim.Agent,
		IssueID:       claim.Issue.ID,
		Identifier:    claim.Issue.Identifier,
		Attempt:       claim.Attempt,
		Phase:         Starting,
		Issue:         claim.Issue,
		Fingerprint:   claim.Issue.Fingerprint(),
		StartedAt:     s.Now,
		WorkspaceRoot: root,
		Host:          host,
	}
	if claim.Delivery.Handover.Refused() {
		run.Delivery.Handover = claim.Delivery.Handover
	}
	if claim.Delivery.OfContent() {
		run.Delivery.Mend = claim.Delivery.Message
	}
	return run
}

// occupy takes the slots of the contender's run. If the run tests whether a block is over, the
// block stops the next contenders.
func (d *dispatch) occupy(c contender, host string, agent Agent) {
	d.take(c.issue.State)
	d.started++
	d.onHost[host]++
	if d.s.Slots != nil {
		next := *d.s.Slots
		next.Free--
		next.Taken++
		d.s.Slots = &next
	}
	d.testers[agent] = c.issue.Identifier
	if b := d.s.agentBlock(); b != nil && d.block == nil {
		d.block = b.obstacle(c.issue.Identifier)
	}
}

// testBlocks notes in the snapshot and in the change of a dispatch that the run tests the
// blocks of its host, of the account and of the agent. probed is the account's block as the
// account has to know it; nil if the run does not test it.
func (s *Snapshot) testBlocks(c contender, host string, change *Change) (probed *Block, tests bool) {
	if b, blocked := s.RemoteBlocks[host]; blocked {
		change.RemoteBlocks = s.setRemoteBlock(host, b.Tried(s.Now))
		tests = true
	}
	agent := change.Insert.Agent
	if b := s.account(agent).Block; b != nil && host == "" {
		next := b.Tried(s.Now)
		read := *b
		if s.isWanted(c) {
			read.NextTry = time.Time{} // whenever the next try is due
		}
		s.setBlock(agent, &next)
		probed = &read
		tests = true
	}
	if b := s.AgentBlock; b != nil && b.stopsRunsOn(host) {
		next := b.Tried(s.Now)
		s.AgentBlock = &next
		change.AgentBlock = &next
		tests = true
	}
	return probed, tests
}

// unsavedSkips reports the workspaces of finished issues that are kept because of unsaved
// work.
func (p *planner) unsavedSkips() {
	listed := map[string]bool{}
	for _, issue := range p.s.Tracker.Candidates {
		listed[issue.ID] = true // the issue is active again, and its workspace is in use
	}
	for _, w := range p.s.Workspaces {
		if w.Unsaved != "" && w.Project == p.s.Policy.Project && p.claims[w.IssueID] == nil &&
			!listed[w.IssueID] {
			p.plan.Skips = append(p.plan.Skips, Skip{
				IssueID:    w.IssueID,
				Identifier: w.Identifier,
				Reason:     SkipUnsavedWork,
				Message:    w.KeptText(),
			})
		}
	}
}
