package reconcile

import (
	"slices"
)

// shared reports whether the account says what a run ended by, or that it is over, so that the project needs no block
// of its own.
func (a Account) shared(r Run) bool {
	return AccountFault(r.ErrorCode) && (a.Block != nil || a.Over.After(r.StartedAt)) || r.ErrorCode == CodeAgentQuota && a.Limit != nil
}

// startOnAccount notes what a dispatch takes of the account, and gives the block that it probes.
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

// probing reports whether a run of this project is under way that shows whether the block is over.
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
