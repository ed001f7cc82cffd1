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
	free, taken, err := a.lockFreeSlots()
	count := reconcile.Slots{Taken: len(taken), Max: limit, Free: min(want, max(limit-len(taken), 0))}
	for n := 1; len(free) < count.Free && err == nil; n++ {
		name := strconv.Itoa(n)
		if slices.Contains(taken, name) || slices.ContainsFunc(free, func(f *os.File) bool { return filepath.Base(f.Name()) == name }) {
			continue
		}
		var f *os.File
		if f, err = a.lockSlot(name); f != nil {
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
	}
	// Counting locks a slot for a moment; the lock keeps other passes from taking that for a worker.
	unlock, err := a.lock(ctx, slotsLock)
	if err != nil {
		return count, err
	}
	defer unlock()
	free, taken, err := a.lockFreeSlots()
	closeAll(free)
	count.Taken, count.Free = len(taken), min(want, max(limit-len(taken), 0))
	return count, a.fault("look at the slots", err)
}

// lockFreeSlots locks every existing slot that is free, and names the others.
func (a *Account) lockFreeSlots() (free []*os.File, taken []string, err error) {
	entries, err := os.ReadDir(filepath.Join(a.Dir, slotsName))
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		f, err := a.lockSlot(e.Name())
		switch {
		case err != nil:
			return free, taken, err
		case f == nil:
			taken = append(taken, e.Name())
		default:
			free = append(free, f)
		}
	}
	return free, taken, nil
}

// lockSlot opens and locks a slot, and makes it if need be; nil where another process holds it.
func (a *Account) lockSlot(name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(a.Dir, slotsName, name), os.O_RDWR|os.O_CREATE, fileMode)
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
