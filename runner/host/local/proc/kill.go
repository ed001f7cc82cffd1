package proc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

const (
	killRounds = 16                    // rounds of SIGKILL while new processes keep appearing
	killWait   = 2 * time.Second       // for the processes of one round to end
	killStep   = 10 * time.Millisecond // between two looks at processes that are to end
)

// KillTree ends every process that Find finds, and returns those that are left. It sends SIGTERM (and SIGCONT, which a stopped
// process needs to notice), waits for grace, at most half of the time that ctx leaves, then sends SIGKILL and looks again, until
// nothing is found, a round changes nothing, or ctx ends, with its error.
func KillTree(ctx context.Context, o Owner, grace time.Duration) (left []reconcile.Process, err error) {
	boot, err := BootID()
	if err != nil {
		return nil, err
	}
	if o.Boot != boot {
		o.Boot, o.Recorded, o.Worker = boot, nil, reconcile.Process{}
	}
	o.Recorded = slices.Clone(o.Recorded)
	find := func() error {
		left, err = Find(o)
		o.Recorded = append(o.Recorded, left...) // what is known by its parent alone would be lost once the parent has ended
		return err
	}
	if err := find(); err != nil || len(left) == 0 {
		return left, err
	}
	if end, ok := ctx.Deadline(); ok {
		grace = min(grace, time.Until(end)/2)
	}
	if err := signalAndWait(ctx, left, grace, unix.SIGTERM, unix.SIGCONT); err != nil {
		return left, err
	}
	crash.At("proc.kill.asked")
	var last []reconcile.Process
	for range killRounds {
		if err := find(); err != nil || len(left) == 0 {
			return left, err
		}
		if ctx.Err() != nil {
			return left, fmt.Errorf("end processes: %w", context.Cause(ctx))
		}
		if slices.Equal(left, last) {
			return left, nil
		}
		last = left
		if err := signalAndWait(ctx, left, killWait, unix.SIGKILL); err != nil {
			return left, err
		}
	}
	err = find()
	return left, err
}

// signalAndWait sends the signals to each process and waits until all have ended, at most for the given time and no longer
// than ctx. A process that may not be signalled is not waited for: the caller finds it again.
func signalAndWait(ctx context.Context, procs []reconcile.Process, wait time.Duration, sigs ...unix.Signal) error {
	var signalled []reconcile.Process
	var errs []error
	for _, p := range procs {
		var err error
		for _, sig := range sigs {
			err = errors.Join(err, Signal(p, sig))
		}
		if err == nil {
			signalled = append(signalled, p)
		} else if !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, fs.ErrPermission) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("end processes: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		if signalled = slices.DeleteFunc(signalled, ended); len(signalled) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(killStep):
		}
	}
}
