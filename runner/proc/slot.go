package proc

import (
	"errors"
	"fmt"
	"io"

	"github.com/symphony-cron/symphony/internal/lock"
)

// mostSlots is more than the workers of a machine.
const mostSlots = 1000

// TakeSlot returns the lowest number, from 0, that no other worker of this machine has, of whatever account
// and project. It is free again when this process ends in any way, or when the closer is closed.
func TakeSlot() (slot int, held io.Closer, err error) {
	for slot := range mostSlots {
		held, err := holdSlot(slot)
		if err == nil {
			return slot, held, nil
		}
		if !errors.Is(err, lock.ErrHeld) {
			return 0, nil, err
		}
	}
	return 0, nil, fmt.Errorf("all of %d numbers are taken", mostSlots)
}
