package runner

import (
	"os"

	"github.com/symphony-cron/symphony/reconcile"
)

// SlotSource gives the slots of the account that a pass has taken (reconcile.Accounts). Bounded is false where the
// number of runs is not bounded. With one that is used up an error is given, and never a worker without a slot.
type SlotSource interface {
	Next() (slot *os.File, bounded bool, err error)
}

// slotFor takes a slot for an agent's run; removals need none.
func (l *Local) slotFor(run reconcile.Run) (*os.File, error) {
	if l.Slots == nil || run.Kind != reconcile.AgentRun {
		return nil, nil
	}
	slot, bounded, err := l.Slots.Next()
	if !bounded {
		return nil, nil
	}
	return slot, err
}
