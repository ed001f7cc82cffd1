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

// SlotsFull reports whether no further agent fits into a number of slots. An agent that waits for
// a person's answer keeps its slot.
func (u SlotUse) SlotsFull(slots int) bool { return u.Working+u.Asking >= slots }

// SlotsText is the sentence about slots of a kind that are full, such as "all 4 slots are taken,
// 3 of 4 by agents that wait for your answer".
func (u SlotUse) SlotsText(slots int, kind string) string {
	words := takenText(slots, kind)
	switch {
	case u.Asking == 0:
		return words
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
