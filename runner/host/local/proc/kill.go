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
	killRounds = 16              // rounds of SIGKILL while new processes keep appearing
	killWait   = 2 * time.Second // for the processes of one round to end
)

// KillTree ends every process that Find finds. It sends SIGTERM (and SIGCONT, which a stopped process needs to notice),
// waits for grace, then sends SIGKILL and looks again, until nothing is found, a round changes nothing, or ctx ends. Grace
// takes at most half of the time that ctx leaves, so that the rest is enough for SIGKILL.
//
// The run's scope, if any, is killed as a whole before its members are, because a process that does nothing but fork
// escapes signals to single processes. A worker that is in the scope itself ends its processes one by one.
//
// KillTree returns the processes that are left: those that cannot be killed (of another user, or waiting for a disk), or
// all that live when ctx ends, with its error.
func KillTree(ctx context.Context, o Owner, grace time.Duration) (left []reconcile.Process, err error) {
	o, err = o.forThisBoot()
	if err != nil {
		return nil, err
	}
	o.Recorded = slices.Clone(o.Recorded)
	set := &killSet{owner: o, seen: map[int]uint64{}}
	left, err = set.find()
	if err != nil || set.empty(left) {
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
	for round := range killRounds {
		left, err = set.find()
		if err != nil || set.empty(left) {
			return left, err
		}
		if ctx.Err() != nil {
			return left, fmt.Errorf("end processes: %w", context.Cause(ctx))
		}
		if round > 0 && slices.Equal(left, last) {
			return left, nil
		}
		last = left
		if err := set.killScope(ctx, left); err != nil {
			return left, err
		}
		if err := signalAndWait(ctx, left, killWait, unix.SIGKILL); err != nil {
			return left, err
		}
	}
	return set.find()
}

// killSet is an owner that records each process it finds. A process that is known by its parent alone would be lost once
// the parent has ended.
type killSet struct {
	owner Owner
	seen  map[int]uint64 // from pid to start time
	// members are the pids in the run's scope; wholeScope reports that there are some and that none of them is excluded.
	members    []int
	wholeScope bool
}

func (s *killSet) find() ([]reconcile.Process, error) {
	t, err := search(s.owner)
	s.members = t.members
	s.wholeScope = err == nil && len(t.members) > 0 &&
		!slices.ContainsFunc(t.members, func(pid int) bool { return t.excluded[pid] })
	found := t.list()
	for _, p := range found {
		if s.seen[p.PID] != p.Start {
			s.seen[p.PID] = p.Start
			s.owner.Recorded = append(s.owner.Recorded, p)
		}
	}
	return found, err
}

// empty reports whether nothing is left to end. A scope of processes too short-lived to be found counts as something.
func (s *killSet) empty(found []reconcile.Process) bool { return len(found) == 0 && !s.wholeScope }

// killScope ends all processes in the run's scope and waits for those found there. Where the kernel does not support that,
// the caller still finds and signals them.
func (s *killSet) killScope(ctx context.Context, found []reconcile.Process) error {
	if !s.wholeScope {
		return nil
	}
	killed, err := killScope(s.owner.Scope)
	if err != nil || !killed {
		return err
	}
	inside := slices.DeleteFunc(slices.Clone(found), func(p reconcile.Process) bool { return !slices.Contains(s.members, p.PID) })
	return signalAndWait(ctx, inside, killWait) // no signal: this waits even for processes that may not be signalled
}

// signalAndWait sends the signals to each process and waits until all have ended, at most for the given time and no longer
// than ctx. A process that may not be signalled is not waited for: the caller finds it again.
func signalAndWait(ctx context.Context, procs []reconcile.Process, wait time.Duration, sigs ...unix.Signal) error {
	var w exitWaiter
	defer w.close()
	var errs []error
	for _, p := range procs {
		err := w.signal(p, sigs...)
		if err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, fs.ErrPermission) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("end processes: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return w.wait(ctx)
}
