package proc

import (
	"errors"
	"fmt"
	"os"

	"github.com/symphony-cron/symphony/reconcile"
)

// Self returns the handle of this process.
func Self() (reconcile.Handle, error) {
	boot, err := BootID()
	if err != nil {
		return reconcile.Handle{}, err
	}
	start, err := StartTime(os.Getpid())
	if err != nil {
		return reconcile.Handle{}, fmt.Errorf("own start time: %w", err)
	}
	return reconcile.Handle{Boot: boot, PID: os.Getpid(), Start: start}, nil
}

// SameProcess reports whether the process that h names is alive: same boot and pid namespace, same pid, same
// start time, not a zombie. What can't be found out counts as not the same: such a process is never signalled.
func SameProcess(h reconcile.Handle) bool {
	boot, err := BootID()
	if err != nil || h.Boot != boot || h.Start == 0 {
		return false
	}
	start, err := StartTime(h.PID)
	return err == nil && start == h.Start
}

// isProcess reports whether pid still is the process that began at start, os.ErrProcessDone if not.
func isProcess(pid int, start uint64) error {
	now, err := StartTime(pid)
	if err != nil {
		return err
	}
	if now != start {
		return os.ErrProcessDone
	}
	return nil
}

// checkTarget refuses what must never be signalled, whoever asks: nothing, init, ourselves, and a process whose
// start time was never known.
func checkTarget(p reconcile.Process) error {
	switch {
	case p.PID <= 1:
		return fmt.Errorf("process %d is not to be signalled", p.PID)
	case p.PID == os.Getpid():
		return errors.New("a process does not signal itself here")
	case p.Start == 0:
		return fmt.Errorf("process %d has no start time to be recognised by", p.PID)
	}
	return nil
}
