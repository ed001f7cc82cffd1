package worker

import (
	"os"

	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// handedSlot is the slot of the account that a pass has handed to this worker; nil where it named none, because nothing
// bounds the number of runs.
func handedSlot(path string) (*os.File, error) {
	if path == "" {
		return nil, nil
	}
	return proc.Handed(path)
}

// freeSlot lets another run have the slot.
func (h *Held) freeSlot() error {
	if h.slot == nil {
		return nil
	}
	return h.slot.Close()
}
