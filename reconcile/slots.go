package reconcile

import (
	"fmt"
	"slices"
)

// SlotUse counts the agents that take slots: at work, and waiting for a person's answer.
type SlotUse struct{ Working, Asking int }

// plus is the sum of both.
func (u SlotUse) plus(more SlotUse) SlotUse {
	return SlotUse{Working: u.Working + more.Working, Asking: u.Asking + more.Asking}
}

// useOf counts the agent of a run.
func (s State) useOf(runID string) SlotUse {
	if slices.Contains(s.Asking, runID) {
		return SlotUse{Asking: 1}
	}
	return SlotUse{Working: 1}
}

// SlotUse counts the agents of the project's claims.
func (s State) SlotUse() (u SlotUse) {
	for _, c := range s.Claims {
		if c.Status == Running && !c.delivering() {
			u = u.plus(s.useOf(c.RunID))
		}
	}
	return u
}

// SlotsFull reports whether no further agent fits into a number of slots. If agents that wait
// lend their slots, there are never more than twice as many agents as slots: all of them may
// get their answers at the same time.
func (p Policy) SlotsFull(u SlotUse, slots int) bool {
	all := u.Working + u.Asking
	if !p.LendsSlots {
		return all >= slots
	}
	return u.Working >= slots || all >= 2*slots
}

// Lent is how many of these agents lend their slots.
func (p Policy) Lent(u SlotUse) int {
	if !p.LendsSlots {
		return 0
	}
	return u.Asking
}

// WithLent is the number of slots that may be taken if as many agents lend theirs: never more
// than twice the slots.
func WithLent(slots, lent int) int { return min(slots+lent, 2*slots) }

// SlotsText is the sentence about slots of a kind that are full, such as "all 4 slots are taken,
// 3 of 4 by agents that wait for your answer".
func (p Policy) SlotsText(u SlotUse, slots int, kind string) string {
	words := takenText(slots, kind)
	switch {
	case u.Asking == 0:
		return words
	case p.LendsSlots && u.Working >= slots: // these are taken by others
		return words
	case p.LendsSlots:
		return fmt.Sprintf("no slot%s is free: %d agents wait for your answer, and there are no more than %d agents",
			kind, u.Asking, 2*slots)
	case slots == 1:
		return words + " by an agent that waits for your answer"
	case u.Asking == 1:
		return fmt.Sprintf("%s, 1 of %d by an agent that waits for your answer", words, slots)
	}
	return fmt.Sprintf("%s, %d of %d by agents that wait for your answer", words, u.Asking, slots)
}

// takenText is the sentence for slots of this kind that are all taken.
func takenText(slots int, kind string) string {
	switch slots {
	case 1:
		return "the only slot" + kind + " is taken"
	case 2:
		return "both slots" + kind + " are taken"
	}
	return fmt.Sprintf("all %d slots%s are taken", slots, kind)
}
