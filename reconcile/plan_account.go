package reconcile

import (
	"fmt"
	"slices"
)

// shared reports whether the account says what a run ended by, or that it is over, so that the project needs no block
// of its own.
func (a Account) shared(r Run) bool {
	return AccountFault(r.ErrorCode) && (a.Block != nil || a.Over.After(r.StartedAt)) || r.ErrorCode == CodeAgentQuota && a.Limit != nil
}

// refuseByAccount says why the account lets nobody start; an empty reason lets them.
func (p *planner) refuseByAccount(probes int) (reason, message string) {
	switch a := p.s.Account; {
	case a.Limit != nil:
		return SkipRateLimited, a.Limit.Text(a.Home, p.s.Now)
	case a.Block != nil && probes <= 0:
		return SkipBlocked, a.Block.Code + ": " + a.Block.Message
	}
	return "", ""
}

// noAccountSlot says who has the slots where the account has none left; empty where there is one.
func (p *planner) noAccountSlot() string {
	if s := p.s.Account.Slots; s != nil && s.Free <= 0 {
		return fmt.Sprintf("%s: %d of %d agents of %s run", MaxAgentsVar, s.Taken, s.Max, p.s.Account.Home)
	}
	return ""
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
