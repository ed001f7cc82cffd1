package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/symphony-cron/symphony/reconcile/crash"
)

const (
	lockName   = "lock"
	waiterName = "lock.waiter"

	// lockPoll is how often a waiter looks. flock(2) has no wait that a context could end.
	lockPoll = 20 * time.Millisecond
	// holderSize is fixed, so that after the first time writing it needs no space on a full disk.
	holderSize = 256
	// holderWait bounds the wait for a holder that has the lock but has not yet written who it is.
	holderWait = 100 * time.Millisecond
)

// Holder says who has the project lock. Its fields are zero where the holder could not be read.
type Holder struct {
	PID     int       `json:"pid"`
	Trigger string    `json:"trigger"`
	Since   time.Time `json:"since"`
	// Queued says, of a held lock, that another process is waiting for it already.
	Queued bool `json:"-"`
}

// Acquire takes the project lock of dir, which it makes if need be. self is what others are told; a PID of 0 is
// this process's. Where another
// has the lock and timeout is 0, held says who. With a timeout it waits that long, unless somebody waits already:
// one waiter is enough, because its pass will see all that was written before it started (design 3 and 4).
// Then too held is set, and neither release nor err. The lock file stays when the lock is released, and the lock
// ends with the process whatever happens.
func Acquire(ctx context.Context, dir string, self Holder, timeout time.Duration) (
	release func() error, held *Holder, err error,
) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("lock the project: %w", err)
	}
	if err := EnsureDir(dir); err != nil {
		return nil, nil, err
	}
	l := &projectLock{dir: dir, file: flock.New(filepath.Join(dir, lockName), flock.SetPermissions(fileMode))}
	got, queued := false, false
	if got, err = l.file.TryLock(); !got && err == nil && timeout > 0 {
		got, queued, err = l.wait(ctx, timeout)
	}
	if err != nil {
		return nil, nil, lockFault(ctx, dir, err)
	}
	if !got {
		held, err := l.holder(ctx)
		if err != nil {
			return nil, nil, lockFault(ctx, dir, err)
		}
		held.Queued = queued
		return nil, held, nil
	}
	crash.At("state.lock.taken")
	if err := l.sign(self); err != nil {
		return nil, nil, lockFault(ctx, dir, errors.Join(err, l.file.Unlock()))
	}
	crash.At("state.lock.signed")
	return sync.OnceValue(l.release), nil, nil
}

type projectLock struct {
	dir  string
	file *flock.Flock
}

// wait tries until the time is over. The waiter's own lock is given up before the pass reads anything, so nobody
// who was sent away because of it is forgotten.
func (l *projectLock) wait(ctx context.Context, timeout time.Duration) (got, queued bool, err error) {
	waiter := flock.New(filepath.Join(l.dir, waiterName), flock.SetPermissions(fileMode))
	first, err := waiter.TryLock()
	if err != nil || !first {
		return false, !first && err == nil, err
	}
	defer func() { err = errors.Join(err, waiter.Unlock()) }()
	crash.At("state.lock.waiting")
	over := time.NewTimer(timeout)
	defer over.Stop()
	poll := time.NewTicker(lockPoll)
	defer poll.Stop()
	for {
		if got, err := l.file.TryLock(); got || err != nil {
			return got, false, err
		}
		select {
		case <-ctx.Done():
			return false, false, ctx.Err()
		case <-over.C:
			return false, false, nil
		case <-poll.C:
		}
	}
}

// sign writes who holds the lock, in place.
func (l *projectLock) sign(self Holder) error {
	if self.PID == 0 {
		self.PID = os.Getpid()
	}
	self.Since = self.Since.UTC()
	// As encoding/json would write it, which first has to learn the type: for one line a pass has better to do.
	text := fmt.Appendf(nil, `{"pid":%d,"trigger":%q,"since":"%s"}`, self.PID, self.Trigger, self.Since.Format(time.RFC3339Nano))
	if len(text) >= holderSize {
		return fmt.Errorf("the holder's record takes %d bytes, %d are the limit", len(text), holderSize-1)
	}
	return l.overwrite(text)
}

func (l *projectLock) overwrite(text []byte) error {
	record := bytes.Repeat([]byte{' '}, holderSize)
	copy(record, text)
	record[holderSize-1] = '\n'
	f, err := os.OpenFile(l.file.Path(), os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(record, 0)
	return errors.Join(err, f.Close())
}

func (l *projectLock) release() error {
	crash.At("state.lock.release")
	if err := errors.Join(l.overwrite(nil), l.file.Unlock()); err != nil {
		return fileFault(l.dir, "release the project lock", err)
	}
	return nil
}

// holder reads who has the lock. The record may be blank for the moment between locking and signing.
func (l *projectLock) holder(ctx context.Context) (*Holder, error) {
	over := time.NewTimer(holderWait)
	defer over.Stop()
	poll := time.NewTicker(holderWait / 20)
	defer poll.Stop()
	for {
		text, err := os.ReadFile(l.file.Path())
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		var h Holder
		if json.Unmarshal(text, &h) == nil && h.PID != 0 {
			return &h, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-over.C:
			return &Holder{}, nil
		case <-poll.C:
		}
	}
}

func lockFault(ctx context.Context, dir string, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return fmt.Errorf("wait for the project lock: %w", err)
	}
	return fileFault(dir, "lock the project", err)
}
