package reconcile

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
