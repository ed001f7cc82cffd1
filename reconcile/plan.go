package reconcile

import (
	"maps"
	"slices"
	"time"
)

// Compute decides the actions of a pass. It is pure: it uses no clock, disk, network or
// process. So every rule can be tested by a row of a table, and a dry run prints the plan
// itself.
//
//	clock ─► ended runs ─► commands ─► taken claims ─► other projects ─► refresh ─► caps
//	      ─► deliveries ─► dispatch ─► sweep
//
// Each step sees the claims as the earlier steps leave them, so that the same pass may settle
// a run and dispatch the next. Without the tracker's answer the steps are: clock, ended runs,
// commands, taken claims, deliveries.
func Compute(s Snapshot) Plan { return compute(s).plan }

// compute is Compute, but returns the planner, which also contains the claims as the plan
// leaves them.
func compute(s Snapshot) *planner {
	p := &planner{
		draft: draft{
			s:      s,
			claims: map[string]*Claim{},
			runs:   map[string]*Run{},
			runsOf: map[string][]*Run{},
		},
		removing: map[string]bool{},
		eligible: map[string]bool{},
		asked:    map[string]bool{},
	}
	for _, c := range s.Claims {
		p.claims[c.IssueID] = &c
	}
	for _, r := range s.Runs {
		p.runs[r.ID] = &r
		p.runsOf[r.IssueID] = append(p.runsOf[r.IssueID], &r)
		if r.Kind == CleanupRun {
			p.removing[r.IssueID] = true
		}
	}
	p.clock()
	p.ended()
	p.commands()
	p.takenClaims()
	if s.Tracker != nil {
		p.otherProjects()
		p.refresh()
		p.reviews()
		p.caps()
	}
	// after every other change of a claim, because the id of the run is not known yet
	p.deliveries()
	if s.Tracker != nil {
		if s.DispatchOff {
			p.plan.Obstacle = p.newDispatch().laterObstacle()
		} else {
			p.dispatch()
		}
		p.sweep()
	}
	p.describeActions()
	return p
}

// describeActions adds to each action what people read about its issue, and the kind of the
// run concerned.
func (d *draft) describeActions() {
	runs := make(map[string]*Run, len(d.s.Runs))
	for i := range d.s.Runs {
		runs[d.s.Runs[i].ID] = &d.s.Runs[i]
	}
	for i := range d.plan.Actions {
		a := &d.plan.Actions[i]
		var issue Issue
		run, known := runs[a.RunID]
		if known {
			issue = run.Issue
			a.RunKind = run.Kind
		}
		switch {
		case a.Change != nil && a.Change.Claim != nil:
			issue = a.Change.Claim.Issue
		case a.Change != nil && a.Change.Insert != nil:
			issue = a.Change.Insert.Issue
		}
		if d.s.Tracker != nil {
			if seen, visible := d.s.Tracker.ByID[a.IssueID]; visible {
				issue = seen
			}
		}
		a.Title = issue.Title
		a.State = issue.State
		a.StateMeant = issue.StateMeant
		a.Archived = issue.Archived
	}
}

// takenClaims releases the claims of issues that another machine has taken. Of their workspaces those stay,
// and are named, that have commits which were not delivered.
func (p *planner) takenClaims() {
	for _, c := range p.byAge() {
		why, isTaken := p.s.Claimed.Taken[c.IssueID]
		switch {
		case !isTaken:
		case c.Status == Running:
			p.stop(*c, StopClaim, nil)
		default:
			p.release(*c, StopClaim, why)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(p.s.Claimed.Taken)) {
		p.update(&Change{ForgetWork: id})
		if p.s.Tracker != nil && p.claims[id] == nil {
			p.removeWorkspace(id, StopClaim)
		}
	}
}

// otherProjects releases the claims of other endpoints and projects. Their workspaces stay.
// The tracker must have answered about the issue, because only then the workflow's project is
// known to exist: a mistyped slug must not end a hold.
func (p *planner) otherProjects() {
	for _, c := range p.byAge() {
		switch {
		case c.Project == p.s.Policy.Project || !p.s.Tracker.Refreshed[c.IssueID]:
		case c.Status == Running:
			p.stop(*c, StopProject, nil)
		default:
			p.release(*c, StopProject, "the workflow now names another project")
		}
	}
}

// clock corrects times that lie so far ahead that the clock must have been set back after they
// were stored. It comes first, because other steps compare times with the clock.
func (p *planner) clock() {
	if b := p.s.AgentBlock; b != nil && b.Clamped(p.s.Now) != *b {
		next := b.Clamped(p.s.Now)
		p.s.AgentBlock = &next
		p.update(&Change{AgentBlock: &next})
	}
	for _, host := range slices.Sorted(maps.Keys(p.s.RemoteBlocks)) {
		b := p.s.RemoteBlocks[host]
		if next := b.Clamped(p.s.Now); next != b {
			p.update(&Change{RemoteBlocks: p.s.setRemoteBlock(host, next)})
		}
	}
	p.makeDueBy(p.s.Now.Add(max(p.s.Policy.MaxRetryBackoff, firstBackoff)), p.byAge())
}

// makeDueBy moves the due time of each waiting claim to latest, unless it is earlier.
func (d *draft) makeDueBy(latest time.Time, claims []*Claim) {
	for _, c := range claims {
		if c.Status == Waiting && c.DueAt.After(latest) {
			next := *c
			next.DueAt = latest
			d.update(d.put(next))
		}
	}
}

// commands carries out the operators' commands. Each is deleted by the change that it causes,
// or else by a separate change.
func (p *planner) commands() {
	for _, cmd := range p.s.Commands {
		switch cmd.Verb {
		case VerbPause:
			p.pause(cmd)
		case VerbResume, VerbUnblock:
			p.unblock(cmd)
		case VerbStopAll:
			// It concerns every claim even in a pass for a single issue, because that pass
			// deletes the command.
			for _, c := range p.everyClaim() {
				if c.Status == Running {
					p.stop(*c, StopAll, nil)
				}
			}
			p.pause(cmd) // last: a crash before this repeats the stops
		case VerbHostGone:
			if p.s.concerns(cmd.IssueID) {
				p.hostIsGone(cmd)
			}
		case VerbDeliver:
			// else it waits for a pass that starts runs
			if p.s.concerns(cmd.IssueID) && !p.s.DispatchOff {
				p.issueCommand(cmd)
			}
		case VerbStop, VerbHold, VerbRetry:
			if p.s.concerns(cmd.IssueID) {
				p.issueCommand(cmd)
			}
		}
	}
}

func (d *draft) pause(cmd Command) {
	d.s.Paused = true
	d.update(&Change{Paused: new(true), Commands: []int64{cmd.ID}})
}

// unblock ends the blocks of the project, and the waiting of every claim, even in a pass for a
// single issue, because that pass deletes the command. An operator's resume also ends the pause.
// The planner does not end blocks of the account.
func (p *planner) unblock(cmd Command) {
	p.makeDueBy(p.s.Now, p.everyClaim())
	change := &Change{
		AgentBlock:   &Block{},
		TrackerBlock: &Block{},
		Unblocked:    p.s.Now,
		Commands:     []int64{cmd.ID},
	}
	if len(p.s.RemoteBlocks) > 0 {
		change.RemoteBlocks = map[string]Block{}
		for host := range p.s.RemoteBlocks {
			change.RemoteBlocks[host] = Block{}
		}
	}
	if cmd.Verb == VerbResume {
		change.Paused = new(false)
		p.s.Paused = false
	}
	p.s.AgentBlock = nil
	p.s.TrackerBlock = nil
	p.s.RemoteBlocks = nil
	p.s.Unblocked = p.s.Now
	p.update(change)
}

// issueCommand carries out a command about an issue: stop, hold, retry or deliver.
func (p *planner) issueCommand(cmd Command) {
	claimed := p.claims[cmd.IssueID]
	var next Claim
	kind := ActRetry
	message := ""
	possible := true
	switch cmd.Verb {
	case VerbDeliver:
		next, possible = p.deliverNow(claimed, cmd)
	case VerbRetry:
		next, message, possible = p.s.retryNow(claimed)
	default:
		kind = ActHold
		next, message = p.s.holdNow(claimed, cmd)
	}
	if !possible { // there is nothing to deliver or to retry
		p.update(&Change{Commands: []int64{cmd.ID}})
		return
	}
	change := p.put(next)
	change.Commands = []int64{cmd.ID}
	if cmd.Verb == VerbStop && next.Status == Running {
		p.stop(next, StopOperator, change)
		return
	}
	p.act(kind, next, HoldOperator, message, change)
}

// retryNow carries out the command retry. It returns the claim due now, or with cleared
// counters if a run is at work on it; false without a claim.
func (s *Snapshot) retryNow(c *Claim) (next Claim, message string, possible bool) {
	switch {
	case c == nil:
		return Claim{}, "", false
	case c.Status == Running:
		next = s.freshStart(*c, c.Kind)
		next.Status = Running
		next.Wanted = false
		return next, "counters cleared, its run continues", true
	}
	return s.freshStart(*c, Requested), "", true
}

// holdNow carries out the commands hold and stop. It returns the claim held, or to be held
// after its run. Without a claim it makes a new claim.
func (s *Snapshot) holdNow(c *Claim, cmd Command) (next Claim, message string) {
	switch {
	case c == nil:
		c = &Claim{
			IssueID:    cmd.IssueID,
			Identifier: cmd.Identifier,
			Project:    s.Policy.Project,
			ClaimedAt:  s.Now,
			Issue:      Issue{ID: cmd.IssueID, Identifier: cmd.Identifier},
		}
	case c.Status == Running:
		next = *c
		next.HoldNext = true
		return next, "after its current run"
	}
	return s.holdByOperator(*c), ""
}
