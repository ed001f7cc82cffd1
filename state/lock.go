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
)

const (
	lockName   = "lock"
	waiterName = "lock.waiter"

	// lockPoll is how often a waiter tries. flock(2) has no wait that a context could end.
	lockPoll = 20 * time.Millisecond
	// holderSize is the fixed size of the holder's record, so that rewriting it needs no space on a full disk.
	holderSize = 256
	// holderWait bounds the wait for a holder that has the lock but has not yet written its record.
	holderWait = 100 * time.Millisecond
)

// Holder describes the process that has the project lock. Its fields are zero where the record could not be read.
type Holder struct {
	PID     int       `json:"pid"`
	Trigger string    `json:"trigger"`
	Since   time.Time `json:"since"`
	// Queued reports, of a held lock, that another process is waiting for it already.
	Queued bool `json:"-"`
}

// Acquire takes the project lock of dir, which it makes if need be. self is the record for others; a PID of 0 means this
// process. Where another process has the lock, held describes it and release is nil. With a timeout Acquire waits that
// long, unless another process waits already: one waiter is enough, because its pass will see everything that was written
// before it started. The lock ends with the process; its file stays.
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
	if err := l.sign(self); err != nil {
		return nil, nil, lockFault(ctx, dir, errors.Join(err, l.file.Unlock()))
	}
	return sync.OnceValue(l.release), nil, nil
}

type projectLock struct {
	dir  string
	file *flock.Flock
}

// wait tries until the time is over. It gives up the waiter's own lock before its pass reads anything, so what a process
// wrote that was turned away because of this waiter is seen by that pass.
func (l *projectLock) wait(ctx context.Context, timeout time.Duration) (got, queued bool, err error) {
	waiter := flock.New(filepath.Join(l.dir, waiterName), flock.SetPermissions(fileMode))
	first, err := waiter.TryLock()
	if err != nil || !first {
		return false, !first && err == nil, err
	}
	defer func() { err = errors.Join(err, waiter.Unlock()) }()
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if got, err = l.file.TryLockContext(limited, lockPoll); ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return got, false, err
}

// sign writes the holder's record, in place.
func (l *projectLock) sign(self Holder) error {
	if self.PID == 0 {
		self.PID = os.Getpid()
	}
	self.Since = self.Since.UTC()
	text, err := json.Marshal(self)
	if err != nil {
		return err
	}
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
	if err := errors.Join(l.overwrite(nil), l.file.Unlock()); err != nil {
		return fileFault(l.dir, "release the project lock", err)
	}
	return nil
}

// holder reads the holder's record, which may be blank for the moment between locking and signing.
func (l *projectLock) holder(ctx context.Context) (*Holder, error) {
	for range 20 {
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
		case <-time.After(holderWait / 20):
		}
	}
	return &Holder{}, nil
}

func lockFault(ctx context.Context, dir string, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return fmt.Errorf("wait for the project lock: %w", err)
	}
	return fileFault(dir, "lock the project", err)
}
