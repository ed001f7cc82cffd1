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
	// vigilMax bounds the descriptors that are held at once. Of more processes than that the rest is signalled
	// but not waited for: the caller looks again anyway.
	vigilMax  = 256
	vigilStep = 50 * time.Millisecond // between looks at the context
)

// vigil waits for the end of processes that it has signalled. The zero value is ready.
type vigil struct{ fds []unix.PollFd }

// signal sends the signals to p, through one descriptor, and remembers it.
func (v *vigil) signal(p reconcile.Process, sigs ...unix.Signal) error {
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
	if len(v.fds) == vigilMax {
		return unix.Close(fd)
	}
	v.fds = append(v.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	return nil
}

// wait returns when all have ended (zombies count as ended) or ctx has. That is no error.
func (v *vigil) wait(ctx context.Context) error {
	for len(v.fds) > 0 && ctx.Err() == nil {
		_, err := unix.Poll(v.fds, int(vigilStep.Milliseconds()))
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
func (v *vigil) drop() {
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

func (v *vigil) close() {
	for _, p := range v.fds {
		unix.Close(int(p.Fd))
	}
	v.fds = nil
}
