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
	killWait   = 2 * time.Second // for those of one round to be gone
)

// KillTree ends everything that Find finds: SIGTERM to each (and SIGCONT, which a stopped one needs to notice),
// up to grace for them to end, then SIGKILL and another look, until nothing is found, a round has changed nothing,
// or ctx ends. Grace takes at most half of the time that ctx leaves, so that the rest is enough for SIGKILL.
//
// A run's scope is killed at one stroke before its members are, so that those who do nothing but fork are not outrun
// one generation after the other; but not by one who sits in there itself: a worker ends its tree one by one.
//
// It returns what is left, which is nothing unless a process can't be killed (another user's, one that waits for
// its disk), or ctx ended, which is the error then.
func KillTree(ctx context.Context, o Owner, grace time.Duration) (left []reconcile.Process, err error) {
	q, err := newKillSet(o)
	if err != nil {
		return nil, err
	}
	left, err = q.find()
	if err != nil || len(left) == 0 && !q.apart {
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
		left, err = q.find()
		if err != nil || len(left) == 0 && !q.apart {
			return left, err
		}
		if ctx.Err() != nil {
			return left, fmt.Errorf("end processes: %w", context.Cause(ctx))
		}
		if round > 0 && slices.Equal(left, last) {
			return left, nil
		}
		last = left
		if err := q.killScope(ctx, left); err != nil {
			return left, err
		}
		if err := signalAndWait(ctx, left, killWait, unix.SIGKILL); err != nil {
			return left, err
		}
	}
	return q.find()
}

// killSet is an owner that remembers whom it has found: one that was known by its parent alone, and cleared its
// environment, would be nobody's once the parent has been ended.
type killSet struct {
	o    Owner
	seen map[procKey]bool
	// apart: the run's scope holds somebody, and nobody who is to be excluded.
	apart   bool
	members []int
}

func newKillSet(o Owner) (*killSet, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	boot, err := BootID()
	if err != nil {
		return nil, err
	}
	o = o.in(boot)
	o.Recorded = slices.Clone(o.Recorded)
	return &killSet{o: o, seen: map[procKey]bool{}}, nil
}

func (q *killSet) find() ([]reconcile.Process, error) {
	f, err := search(q.o)
	if f == nil {
		return nil, err
	}
	q.members, q.apart = f.members, err == nil && len(f.members) > 0 && !f.mixed()
	found := f.list()
	for _, p := range found {
		if k := (procKey{p.PID, p.Start}); !q.seen[k] {
			q.seen[k] = true
			q.o.Recorded = append(q.o.Recorded, p)
		}
	}
	return found, err
}

// killScope ends what is in the run's scope, and waits for those found there. Where that is not possible its members
// still are found and struck.
func (q *killSet) killScope(ctx context.Context, found []reconcile.Process) error {
	if !q.apart {
		return nil
	}
	killed, err := killScope(q.o.Scope)
	if err != nil || !killed {
		return err
	}
	var inside []reconcile.Process
	for _, p := range found {
		if slices.Contains(q.members, p.PID) {
			inside = append(inside, p)
		}
	}
	return signalAndWait(ctx, inside, killWait) // with no signal: those that may not be signalled end too
}

// signalAndWait sends the signals to each process and waits until all have ended, at most for the time given and no
// longer than ctx. One that may not be signalled is not waited for: it is found again as left.
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
