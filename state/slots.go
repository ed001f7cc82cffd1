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
)

const (
	slotsName = "slots"
	slotsLock = "slots.lock"
)

// TakeSlots locks free slots of the account, at most want of them, where SYMPHONY_MAX_AGENTS is limit. A slot is a file
// whose lock belongs to every process that has it open: the caller passes the files on to the workers that it starts, and
// closes the others. So a slot is free when its last holder is gone, however that ended.
//
// A locked slot beyond limit counts as taken, too: another project may have been given a larger number.
func (a *Account) TakeSlots(ctx context.Context, limit, want int) ([]*os.File, reconcile.Slots, error) {
	unlock, err := a.lock(ctx, slotsLock)
	if err != nil {
		return nil, reconcile.Slots{}, err
	}
	defer unlock()
	if err := os.MkdirAll(filepath.Join(a.Dir, slotsName), dirMode); err != nil {
		return nil, reconcile.Slots{}, a.fault("make "+slotsName, err)
	}
	free, taken, numbers, err := a.lockFreeSlots()
	count := reconcile.Slots{Taken: taken, Max: limit, Free: min(want, max(limit-taken, 0))}
	for n := 1; len(free) < count.Free && err == nil; n++ {
		if slices.Contains(numbers, n) {
			continue
		}
		var f *os.File
		if f, err = a.lockSlot(n, os.O_CREATE); f != nil {
			free = append(free, f)
		}
	}
	if err != nil {
		closeAll(free)
		return nil, reconcile.Slots{}, a.fault("lock a slot", err)
	}
	closeAll(free[count.Free:])
	return free[:count.Free:count.Free], count, nil
}

// CountSlots tells how many slots could be taken, and changes nothing.
func (a *Account) CountSlots(ctx context.Context, limit, want int) (reconcile.Slots, error) {
	count := reconcile.Slots{Max: limit, Free: min(want, limit)}
	if _, err := os.Stat(filepath.Join(a.Dir, slotsName)); errors.Is(err, fs.ErrNotExist) {
		return count, nil // no slot was ever taken
	} else if err != nil {
		return count, a.fault("look at the slots", err)
	}
	// Counting locks a slot for a moment; the lock keeps other passes from taking that for a worker.
	unlock, err := a.lock(ctx, slotsLock)
	if err != nil {
		return count, err
	}
	defer unlock()
	free, taken, _, err := a.lockFreeSlots()
	closeAll(free)
	count.Taken, count.Free = taken, min(want, max(limit-taken, 0))
	return count, a.fault("look at the slots", err)
}

// lockFreeSlots locks every existing slot that is free, and counts the others.
func (a *Account) lockFreeSlots() (free []*os.File, taken int, numbers []int, err error) {
	entries, err := os.ReadDir(filepath.Join(a.Dir, slotsName))
	if err != nil {
		return nil, 0, nil, err
	}
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue // not a slot
		}
		numbers = append(numbers, n)
		f, err := a.lockSlot(n, 0)
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

// lockSlot opens and locks a slot; nil where another process holds it.
func (a *Account) lockSlot(n, flags int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(a.Dir, slotsName, strconv.Itoa(n)), os.O_RDWR|flags, fileMode)
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

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
