package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
)

// BecomeSubreaper is not possible on macOS: the error is errors.ErrUnsupported.
func BecomeSubreaper() error { return fmt.Errorf("become a subreaper: %w", errors.ErrUnsupported) }

// ShowAs is not needed here: a worker is started by its program's own path.
func ShowAs(string) error { return nil }

// NonDumpable is not possible on macOS: the error is errors.ErrUnsupported.
func NonDumpable() error { return fmt.Errorf("become non-dumpable: %w", errors.ErrUnsupported) }

// Reaper reaps adopted children. On macOS nobody adopts any, so there is none to be had.
type Reaper struct{}

// NewReaper gives errors.ErrUnsupported on macOS.
func NewReaper() (*Reaper, error) { return nil, fmt.Errorf("reaper: %w", errors.ErrUnsupported) }

// Run returns when ctx ends.
func (r *Reaper) Run(ctx context.Context, _ time.Duration, _ func(error)) { <-ctx.Done() }

// Reap finds nothing to reap.
func (r *Reaper) Reap() (int, error) { return 0, nil }

const vigilStep = 50 * time.Millisecond

// vigil waits for the end of processes that it has signalled, by looking at them again and again.
type vigil struct{ procs []reconcile.Process }

func (v *vigil) signal(p reconcile.Process, sigs ...unix.Signal) error {
	for _, sig := range sigs {
		if err := Signal(p, sig); err != nil {
			return err
		}
	}
	v.procs = append(v.procs, p)
	return nil
}

func (v *vigil) wait(ctx context.Context) error {
	tick := time.NewTicker(vigilStep)
	defer tick.Stop()
	for len(v.procs) > 0 {
		kept := v.procs[:0]
		for _, p := range v.procs {
			if !errors.Is(isProcess(p.PID, p.Start), os.ErrProcessDone) {
				kept = append(kept, p)
			}
		}
		v.procs = kept
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
	return nil
}

func (v *vigil) close() { v.procs = nil }

// watchExit waits for a child in a goroutine of its own and reaps it at once: nothing here can tell that it has
// ended without doing so.
func watchExit(p *os.Process) (*exitWatch, error) {
	w := &exitWatch{process: reconcile.Process{PID: p.Pid}, done: make(chan struct{})}
	if e, err := statOf(p.Pid); err == nil {
		w.process = e.process()
	} else if !errors.Is(err, os.ErrProcessDone) {
		return nil, err
	}
	var state *os.ProcessState
	var err error
	w.reap = func() (*os.ProcessState, error) { return state, err }
	go func() {
		defer close(w.done)
		state, err = p.Wait()
	}()
	return w, nil
}
