package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/scripts/internal/stage"
	"github.com/symphony-cron/symphony/state"
)

const (
	// continuation is how long after the end of a run its issue has the next one.
	continuation       = time.Second
	continuationBudget = 200 // ms after that, under --loop
	followPollingMS    = 1000
	followWait         = 60 * time.Second
)

// follow times what comes after: a run's continuation, and the end of an agent whose issue was moved.
func (b *bench) follow() error {
	b.table.heading("one run after the other: from the time at which the next is due")
	if err := b.continued("under tick --loop", true); err != nil {
		return err
	}
	if err := b.continued("by the worker's own pass, under cron", false); err != nil {
		return err
	}
	b.table.heading("a person moves the issue to Done: until its agent is gone")
	if err := b.moved("a pass right after it", false); err != nil {
		return err
	}
	return b.moved(fmt.Sprintf("under tick --loop that polls each %d ms, moved right after a poll", followPollingMS), true)
}

// continued has an agent whose turns end at once and whose issue stays where it is.
func (b *bench) continued(name string, loop bool) error {
	s, err := b.projectOf("continued-"+strings.Fields(name)[0], settings{agents: 1, pollingMS: 30_000, turns: 1})
	if err != nil {
		return err
	}
	if err := b.tracker.Seed(b.ctx, agents(1, "say One more step is done.")); err != nil {
		return err
	}
	if loop {
		if err := s.loop(); err != nil {
			return err
		}
	} else if _, err := s.symphony("tick", "--trigger", "cron", "--json"); err != nil {
		return err
	}
	runs, err := s.runs(b.o.runs + 1)
	if err != nil {
		return err
	}
	// By what their runs have written: the tail of the last may be under way.
	var starts, answers []time.Duration
	for n, run := range runs[1:] {
		due := runs[n].EndedAt.Add(continuation)
		starts = append(starts, run.StartedAt.Sub(due))
		first, err := s.firstEvent(run.ID)
		if err != nil {
			return err
		}
		answers = append(answers, first.Sub(due))
	}
	b.table.add(figure{Name: name + ", to the run's start", Unit: "ms", Values: milliseconds(starts)})
	f := figure{Name: name + ", to the agent's initialize", Unit: "ms", Values: milliseconds(answers)}
	if loop {
		f.Budget = atMost(continuationBudget)
	}
	b.table.add(f)
	return s.clear()
}

// runs waits until so many have ended, and gives them in their order.
func (s *project) runs(count int) (list []reconcile.Run, err error) {
	ctx, cancel := context.WithTimeout(s.b.ctx, followWait)
	defer cancel()
	err = until(ctx, func() (bool, error) {
		list, err = s.endedRuns()
		return len(list) >= count, err
	})
	if err != nil {
		return nil, fmt.Errorf("%d of %d runs have ended: %w", len(list), count, err)
	}
	return list[:count], nil
}

// endedRuns are none while the first pass has not yet made the database.
func (s *project) endedRuns() ([]reconcile.Run, error) {
	db, err := state.Open(s.b.ctx, s.StateDir)
	if missing := (*reconcile.Error)(nil); errors.As(err, &missing) && missing.Code == "no_state" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer db.Close()
	recent, err := db.RecentRuns(s.b.ctx, 1000)
	var list []reconcile.Run
	for n := len(recent) - 1; n >= 0; n-- { // the newest comes first
		if recent[n].Outcome != "" {
			list = append(list, recent[n])
		}
	}
	return list, err
}

// loop starts tick --loop, which clear ends.
func (s *project) loop() error {
	var said strings.Builder
	cmd := exec.Command(s.b.symphony, "tick", "--loop", "--workflow", s.Workflow, "--state-dir", s.StateDir)
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.SysProcAttr = s.Dir, s.Env, &said, stage.Apart()
	if err := cmd.Start(); err != nil {
		return err
	}
	s.endLoop = func() error {
		err := cmd.Process.Signal(syscall.SIGTERM)
		if waitErr := cmd.Wait(); waitErr != nil {
			err = errors.Join(err, fmt.Errorf("tick --loop: %w: %s", waitErr, said.String()))
		}
		return err
	}
	return nil
}

// moved has an agent at work whose issue somebody moves.
func (b *bench) moved(name string, loop bool) error {
	var ends []time.Duration
	for n := range b.o.runs {
		took, err := b.movedOnce(fmt.Sprintf("moved-%t-%d", loop, n), loop)
		if err != nil {
			return err
		}
		ends = append(ends, took)
	}
	b.table.add(figure{Name: name, Unit: "ms", Values: milliseconds(ends)})
	return nil
}

func (b *bench) movedOnce(folder string, loop bool) (took time.Duration, err error) {
	s, err := b.projectOf(folder, settings{agents: 1, pollingMS: followPollingMS, turns: 1})
	if err != nil {
		return 0, err
	}
	if err := b.tracker.Seed(b.ctx, agents(1, "hang")); err != nil {
		return 0, err
	}
	began := time.Now()
	if loop {
		if err := s.loop(); err != nil {
			return 0, err
		}
	} else if _, err := s.symphony("tick", "--json"); err != nil {
		return 0, err
	}
	if _, err := s.initialized(began, 1); err != nil {
		return 0, err
	}
	moved := time.Now()
	if err := b.tracker.move(b.ctx, "ABC-1", "Done"); err != nil {
		return 0, err
	}
	gone := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(b.ctx, followWait)
		defer cancel()
		err := until(ctx, func() (bool, error) { return s.agentless() })
		took = time.Since(moved)
		gone <- err
	}()
	if !loop {
		if _, err = s.symphony("tick", "--json"); err != nil {
			return 0, errors.Join(err, <-gone)
		}
	}
	if err := <-gone; err != nil {
		return 0, fmt.Errorf("the agent goes on: %w", err)
	}
	return took, s.clear()
}

// agentless reports whether no agent of the project runs any more.
func (s *project) agentless() (bool, error) {
	list, err := s.processes()
	for _, p := range list {
		if len(p.Words) > 0 && strings.HasPrefix(p.Words[0], s.b.agent) {
			return false, nil
		}
	}
	return true, err
}
