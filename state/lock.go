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
)

const (
	lockName   = "lock"
	waiterName = "lock.waiter"

	// lockPoll is how often a waiter tries. flock(2) has no wait that a context could end.
	lockPoll = 20 * time.Millisecond
	// holderSize is the fixed size of the holder's record, so that rewriting it needs no space on a full disk.
	holderSize = 256
)

// Holder describes the process that has the project lock. Its fields are zero where the record could not be read.
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

// Acquire takes the project lock of dir, which it makes if need be. self is the record for others; a PID of 0 means this
// process. Where another process has the lock, held describes it and release is nil. With a timeout Acquire waits that
// long; with giveWay it does not where another process waits already, whose pass will see everything that was written before
// it started. The lock ends with the process; its file stays.
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
	text, err := json.Marshal(self)
	if err == nil {
		err = writeHolder(lock.Path(), text)
	}
	if err != nil {
		return nil, nil, errors.Join(err, lock.Unlock())
	}
	return sync.OnceValue(func() error {
		return fault(dir, "release the project lock", errors.Join(writeHolder(lock.Path(), nil), lock.Unlock()))
	}), nil, nil
}

// waitFor tries until the time is over. It gives up the waiter's lock before its pass reads anything, so what a process wrote
// that was turned away because of this waiter is seen by that pass.
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

// readHolder reads the holder's record, which may be blank for the moment between locking and signing.
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
