package state

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

const (
	slotsName = "slots"
	slotsLock = "slots.lock"
)

// TakeSlots locks free slots of the account, at most want of them, where SYMPHONY_MAX_AGENTS is limit. Each is a file
// whose lock is held by whoever has it open: the caller hands the files on to the workers that it starts, and closes
// the others. So a slot is free when its last holder is gone, however that came.
//
// Slots beyond limit count as taken too, if somebody holds them: another project may have been given a larger number.
func (a *Account) TakeSlots(ctx context.Context, limit, want int) ([]*os.File, reconcile.Slots, error) {
	unlock, err := a.lock(ctx, slotsLock)
	if err != nil {
		return nil, reconcile.Slots{}, err
	}
	defer unlock()
	if err := os.MkdirAll(filepath.Join(a.Dir, slotsName), dirMode); err != nil {
		return nil, reconcile.Slots{}, a.fault("make "+slotsName, err)
	}
	crash.At("state.slots.locked")
	free, taken, numbers, err := a.lookAtSlots()
	if err != nil {
		releaseSlots(free)
		return nil, reconcile.Slots{}, a.fault("lock a slot", err)
	}
	count := reconcile.Slots{Taken: taken, Max: limit, Free: min(want, max(limit-taken, 0))}
	for n := 1; len(free) < count.Free && err == nil; n++ {
		if !slices.Contains(numbers, n) {
			var f *os.File
			if f, err = a.slot(n, os.O_CREATE); f != nil {
				free = append(free, f)
			}
		}
	}
	if err != nil {
		releaseSlots(free)
		return nil, reconcile.Slots{}, a.fault("make a slot", err)
	}
	releaseSlots(free[count.Free:])
	crash.At("state.slots.taken")
	return free[:count.Free:count.Free], count, nil
}

// CountSlots says how many could be taken, and changes nothing.
func (a *Account) CountSlots(ctx context.Context, limit, want int) (reconcile.Slots, error) {
	count := reconcile.Slots{Max: limit, Free: min(want, limit)}
	if _, err := os.Stat(filepath.Join(a.Dir, slotsName)); errors.Is(err, fs.ErrNotExist) {
		return count, nil // nobody has ever taken one
	} else if err != nil {
		return count, a.fault("look at the slots", err)
	}
	unlock, err := a.lock(ctx, slotsLock) // a look is a lock for a moment, which no other pass may take for a worker's
	if err != nil {
		return count, err
	}
	defer unlock()
	free, taken, _, err := a.lookAtSlots()
	releaseSlots(free)
	count.Taken, count.Free = taken, min(want, max(limit-taken, 0))
	return count, a.fault("look at the slots", err)
}

// lookAtSlots locks every slot that is there and free, and counts the others.
func (a *Account) lookAtSlots() (free []*os.File, taken int, numbers []int, err error) {
	entries, err := os.ReadDir(filepath.Join(a.Dir, slotsName))
	if err != nil {
		return nil, 0, nil, err
	}
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue // nothing of ours
		}
		numbers = append(numbers, n)
		f, err := a.slot(n, 0)
		switch {
		case err != nil:
			return free, taken, numbers, err
		case f == nil:
			taken++
		default:
			free = append(free, f)
		}
	}
	return free, taken, numbers, nil
}

// slot opens and locks one; nil where somebody holds it.
func (a *Account) slot(n, how int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(a.Dir, slotsName, strconv.Itoa(n)), os.O_RDWR|how, fileMode)
	if err != nil {
		return nil, err
	}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, err
}

func releaseSlots(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
