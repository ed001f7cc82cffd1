package proc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
)

const (
	// maxWaited bounds the descriptors that are held at once. Of more processes than that the rest is signalled
	// but not waited for: the caller looks again anyway.
	maxWaited  = 256
	waitStep = 50 * time.Millisecond // between looks at the context
)

// exitWaiter waits for the end of processes that it has signalled. The zero value is ready.
type exitWaiter struct{ fds []unix.PollFd }

// signal sends the signals to p, through one descriptor, and remembers it.
func (v *exitWaiter) signal(p reconcile.Process, sigs ...unix.Signal) error {
	fd, err := openProcess(p)
	if err != nil {
		return err
	}
	for _, sig := range sigs {
		if err := sendSignal(fd, p, sig); err != nil {
			unix.Close(fd)
			return err
		}
	}
	if len(v.fds) == maxWaited {
		return unix.Close(fd)
	}
	v.fds = append(v.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	return nil
}

// wait returns when all have ended (zombies count as ended) or ctx has. That is no error.
func (v *exitWaiter) wait(ctx context.Context) error {
	for len(v.fds) > 0 && ctx.Err() == nil {
		_, err := unix.Poll(v.fds, int(waitStep.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for processes: %w", err)
		}
		if err == nil {
			v.drop()
		}
	}
	return nil
}

// drop forgets those that have ended.
func (v *exitWaiter) drop() {
	kept := v.fds[:0]
	for _, p := range v.fds {
		if p.Revents != 0 {
			unix.Close(int(p.Fd))
			continue
		}
		kept = append(kept, p)
	}
	v.fds = kept
}

func (v *exitWaiter) close() {
	for _, p := range v.fds {
		unix.Close(int(p.Fd))
	}
	v.fds = nil
}
