package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/symphony-cron/symphony/internal/text"
)

const (
	lockName   = "lock"
	waiterName = "lock.waiter"

	// lockPoll is how often a waiter tries. A context can't interrupt a blocking flock(2).
	lockPoll = 20 * time.Millisecond
	// holderSize is the fixed size of the holder's record. Overwriting it takes no space, which a full disk does not have.
	holderSize = 256
)

// Holder describes the process that has the project lock. Its fields are zero if the record can't be read.
type Holder struct {
	PID     int       `json:"pid"`
	Trigger string    `json:"trigger"`
	Since   time.Time `json:"since"`
}

// String names the pass that has the lock.
func (h *Holder) String() string {
	if h.PID == 0 {
		return "unknown holder"
	}
	return fmt.Sprintf("%s pass, pid %d, since %s", h.Trigger, h.PID, h.Since.UTC().Format(time.RFC3339))
}

// Acquire takes the project lock of dir, and creates dir if necessary. self describes the caller to other processes; a PID of
// 0 stands for this process. If another process keeps the lock, held describes that process and release is nil.
//
// Acquire waits for the lock up to timeout. With giveWay it does not wait if another process is already waiting, because the pass of that
// process will see everything that the caller has written. The lock is released at the latest when the process ends; its file stays.
func Acquire(ctx context.Context, dir string, self Holder, timeout time.Duration, giveWay bool) (
	release func() error, held *Holder, err error,
) {
	dir, err = filepath.Abs(dir)
	if err == nil {
		err = EnsureDir(dir)
	}
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = fault(dir, "lock the project", err) }()
	lock := flock.New(filepath.Join(dir, lockName), flock.SetPermissions(fileMode))
	got, err := lock.TryLock()
	if !got && err == nil && timeout > 0 {
		got, err = waitFor(ctx, lock, timeout, giveWay)
	}
	if err != nil {
		return nil, nil, err
	}
	if !got {
		held, err := readHolder(ctx, lock.Path())
		return nil, &held, err
	}
	if self.PID == 0 {
		self.PID = os.Getpid()
	}
	self.Since = self.Since.UTC()
	if err := writeHolder(lock.Path(), text.JSON(self)); err != nil {
		return nil, nil, errors.Join(err, lock.Unlock())
	}
	return sync.OnceValue(func() error {
		return fault(dir, "release the project lock", errors.Join(writeHolder(lock.Path(), nil), lock.Unlock()))
	}), nil, nil
}

// waitFor tries to take the lock until the timeout. It releases the waiter's lock before its pass reads anything, so that the
// pass sees what was written by every process that gave way to it.
func waitFor(ctx context.Context, lock *flock.Flock, timeout time.Duration, giveWay bool) (got bool, err error) {
	waiter := flock.New(filepath.Join(filepath.Dir(lock.Path()), waiterName), flock.SetPermissions(fileMode))
	lockWaiter := waiter.TryRLock // beside others
	if giveWay {
		lockWaiter = waiter.TryLock
	}
	if locked, err := lockWaiter(); err != nil || giveWay && !locked {
		return false, err
	}
	defer func() { err = errors.Join(err, waiter.Unlock()) }()
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	got, err = lock.TryLockContext(limited, lockPoll)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return got, err
}

// writeHolder writes the holder's record in place, padded to its fixed size.
func writeHolder(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(fmt.Appendf(nil, "%-*s\n", holderSize-1, text), 0)
	return errors.Join(err, f.Close())
}

// readHolder reads the holder's record. It is blank for a moment after another process has taken the lock.
func readHolder(ctx context.Context, path string) (h Holder, err error) {
	for range 20 {
		text, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return Holder{}, err
		}
		if json.Unmarshal(text, &h) == nil && h.PID != 0 {
			return h, nil
		}
		select {
		case <-ctx.Done():
			return Holder{}, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return Holder{}, nil
}
