package reconcile

// commands carries out what operators asked for. A command is deleted by the change that it causes, or by a change of its
// own where it causes none.
func (p *planner) commands() {
	for _, cmd := range p.s.Commands {
		switch cmd.Verb {
		case VerbPause, VerbResume:
			p.setPaused(cmd.Verb == VerbPause, cmd)
		case VerbStopAll:
			p.stopAll(cmd)
		case VerbStop, VerbHold, VerbRetry:
			if p.concerns(cmd.IssueID) {
				p.issueCommand(cmd)
			}
		}
	}
}

func (p *planner) setPaused(paused bool, cmd Command) {
	p.s.Paused = paused
	p.plan.Updates = append(p.plan.Updates, Change{Paused: &paused, Commands: []int64{cmd.ID}})
}

// stopAll concerns every claim, also in a pass for one issue: that pass deletes the command.
func (p *planner) stopAll(cmd Command) {
	for _, c := range p.everyClaim() {
		if c.Status == Running {
			p.stop(*c, StopAll, nil)
		}
	}
	p.setPaused(true, cmd) // last: a crash before this repeats the stops
}

func (p *planner) issueCommand(cmd Command) {
	c := p.claims[cmd.IssueID]
	if c == nil {
		p.unclaimedCommand(cmd)
		return
	}
	next := *c
	switch {
	case cmd.Verb == VerbRetry && c.Status == Running:
		next = p.freshStart(next, c.Kind)
		next.Status = Running
		p.consume(cmd, p.put(next), ActRetry, next, "counters cleared, its run goes on")
	case cmd.Verb == VerbRetry:
		next = p.freshStart(next, Requested)
		p.consume(cmd, p.put(next), ActRetry, next, "")
	case c.Status == Running && cmd.Verb == VerbStop:
		next.HoldNext = true
		change := p.put(next)
		change.Commands = []int64{cmd.ID}
		p.stop(next, StopOperator, change)
	case c.Status == Running:
		next.HoldNext = true
		p.consume(cmd, p.put(next), ActHold, next, "when its present run has ended")
	default:
		next = p.hold(next, HoldOperator, "held by an operator")
		p.consume(cmd, p.put(next), ActHold, next, "")
	}
}

// unclaimedCommand holds an issue without a claim. A retry of one is nothing to do.
func (p *planner) unclaimedCommand(cmd Command) {
	if cmd.Verb == VerbRetry {
		p.plan.Updates = append(p.plan.Updates, Change{Commands: []int64{cmd.ID}})
		return
	}
	c := Claim{
		IssueID: cmd.IssueID, Identifier: cmd.Identifier, Project: p.s.Policy.Project, ClaimedAt: p.s.Now,
		Issue: Issue{ID: cmd.IssueID, Identifier: cmd.Identifier},
	}
	c = p.hold(c, HoldOperator, "held by an operator")
	p.consume(cmd, p.put(c), ActHold, c, "")
}

func (p *planner) consume(cmd Command, change *Change, kind ActionKind, c Claim, message string) {
	change.Commands = append(change.Commands, cmd.ID)
	p.act(kind, c, HoldOperator, message, change)
}
