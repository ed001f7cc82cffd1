package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
)

const (
	crowdPSS      = 6.0             // MB each, of 50
	crowdIdleCPU  = 0.3             // % of a core
	crowdBusyCPU  = 2.0             // % of a core, at 100 events a second
	crowdLook     = 5 * time.Second // from one heartbeat to the next: all the workers beat at about the same time
	crowdSettle   = 3 * time.Second
	eventsASecond = 100
)

// crowd measures workers at work: their memory, what they take of a core, and what they write.
func (b *bench) crowd() error {
	for _, c := range []struct {
		count int
		busy  bool
	}{{1, true}, {10, true}, {50, true}, {50, false}} {
		if err := b.crowdOf(c.count, c.busy); err != nil {
			return err
		}
	}
	return b.longLines()
}

func (b *bench) crowdOf(count int, busy bool) error {
	what, script := "silent", "hang"
	if busy {
		what, script = fmt.Sprintf("streaming, %d events a second of each agent", eventsASecond), fmt.Sprintf("stream 1000000 %s", time.Second/eventsASecond)
	}
	s, err := b.projectOf(fmt.Sprintf("crowd-%d-%t", count, busy), settings{agents: count, pollingMS: 30_000, turns: 20})
	if err != nil {
		return err
	}
	if err := b.tracker.Seed(b.ctx, agents(count, script)); err != nil {
		return err
	}
	began := time.Now()
	if _, err := s.symphony("tick", "--json"); err != nil {
		return err
	}
	if _, err := s.initialized(began, count); err != nil {
		return err
	}
	b.table.heading("%s, %s", text.Plural(count, "worker"), what)
	if err := b.pause(crowdSettle); err != nil {
		return err
	}
	if err := s.crowdFigures(count, busy); err != nil {
		return err
	}
	if err := s.between(count); err != nil {
		return err
	}
	if count != 10 {
		if err := s.databaseWrites(); err != nil {
			return err
		}
	}
	return s.clear()
}

// pause lets the workers do what is measured.
func (b *bench) pause(d time.Duration) error {
	select {
	case <-b.ctx.Done():
		return b.ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// crowdFigures takes several looks at all workers. A value is the mean over the workers.
func (s *project) crowdFigures(count int, busy bool) error {
	list, err := s.processes()
	if err != nil {
		return err
	}
	var workers []int
	for _, p := range list {
		if p.worker() {
			workers = append(workers, p.PID)
		}
	}
	if len(workers) != count {
		return fmt.Errorf("%d workers, %d were to be there", len(workers), count)
	}
	var memory, largest, shares, rates []float64
	var unreadable error
	asked, err := s.b.tracker.traffic(s.b.ctx)
	if err != nil {
		return err
	}
	for range 3 {
		before, err := s.crowdWork(workers)
		if err != nil {
			return err
		}
		if err := s.b.pause(crowdLook); err != nil {
			return err
		}
		after, err := s.crowdWork(workers)
		if err != nil {
			return err
		}
		seconds := after.at.Sub(before.at).Seconds()
		share := 100 * (after.used - before.used).Seconds() / seconds / float64(count)
		rate := float64(after.events-before.events) / seconds / float64(count)
		if busy && rate < eventsASecond/4 {
			return fmt.Errorf("only %.0f events a second were sent", rate)
		}
		if busy {
			share *= eventsASecond / rate // a machine that is too busy for all the agents has fewer
		}
		shares, rates = append(shares, share), append(rates, rate)
		sum, most := 0.0, 0.0
		for _, pid := range workers {
			size, err := pss(pid)
			if err != nil {
				unreadable = err
			}
			sum, most = sum+size, max(most, size)
		}
		memory, largest = append(memory, sum/float64(count)/1e6), append(largest, most/1e6)
	}
	after, err := s.b.tracker.traffic(s.b.ctx)
	if err != nil {
		return err
	}
	t := &s.b.table
	f := figure{Name: "PSS of each worker", Unit: "MB", Values: memory}
	most := figure{Name: "PSS of the largest worker", Unit: "MB", Values: largest}
	if count == 50 {
		f.Budget, most.Budget = atMost(crowdPSS), atMost(crowdPSS).worst()
	}
	switch {
	case errors.Is(unreadable, fs.ErrPermission):
		t.unmeasured(f, onlyRoot)
		t.unmeasured(most, onlyRoot)
	case unreadable != nil:
		return unreadable
	default:
		t.add(f)
		t.add(most)
	}
	t.add(figure{Name: "requests to the tracker while no pass runs", Values: []float64{float64(after.since(asked).Requests)}, Budget: atMost(0).worst().steady()})
	name, limit := "part of a core each", crowdIdleCPU
	if busy {
		name, limit = "part of a core each, at 100 events a second", crowdBusyCPU
		t.add(figure{Name: "events a second each, as the agents sent them", Values: rates})
	}
	t.add(figure{Name: name, Unit: "%", Values: shares, Budget: atMost(limit)})
	peaks := make([]float64, 0, count)
	for _, pid := range workers {
		kib, err := status(pid, "VmHWM")
		if err != nil {
			return err
		}
		peaks = append(peaks, float64(kib)*1024/1e6)
	}
	t.add(figure{Name: "peak resident of each worker", Unit: "MB", Values: peaks})
	return nil
}

// crowdState is what workers have done up to a moment.
type crowdState struct {
	at     time.Time
	used   time.Duration
	events int
}

func (s *project) crowdWork(workers []int) (w crowdState, err error) {
	for _, pid := range workers {
		used, err := processorTime(pid)
		if err != nil {
			return w, err
		}
		w.used += used
	}
	w.at = time.Now()
	w.events, err = s.events()
	return w, err
}

// events counts what agents have said, by their system calls: one for each line. Deltas leave no trace in the files of
// a run.
func (s *project) events() (n int, err error) {
	list, err := s.processes()
	if err != nil {
		return 0, err
	}
	for _, p := range list {
		if p.Words[0] != s.b.agent {
			continue
		}
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", p.PID))
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(data)) {
			if value, found := strings.CutPrefix(line, "syscw:"); found {
				calls, err := strconv.Atoi(strings.TrimSpace(value))
				if err != nil {
					return 0, err
				}
				n += calls
			}
		}
	}
	return n, nil
}

// between looks what runs while no pass does: workers and what they have started, nothing else.
func (s *project) between(count int) error {
	list, err := s.processes()
	if err != nil {
		return err
	}
	workers, others := strangers(list)
	for _, p := range others {
		fmt.Fprintf(s.b.progress, "bench: runs between passes: %s\n", p)
	}
	if workers != count {
		return fmt.Errorf("%d workers run, %d were to", workers, count)
	}
	s.b.table.add(figure{Name: "processes between passes besides workers and their agents", Values: []float64{float64(len(others))}, Budget: atMost(0).worst().steady()})
	return nil
}

const onlyRoot = "only root may read it of a worker"

const longLine = 12_000_000

// longLines is what a line of 12 MB takes of a worker.
func (b *bench) longLines() error {
	var peaks []float64
	for n := range min(3, b.o.runs) {
		s, err := b.project(fmt.Sprintf("long-%d", n))
		if err != nil {
			return err
		}
		if err := b.tracker.Seed(b.ctx, agents(1, fmt.Sprintf("long %d\nsay All of it is said.\nhang", longLine))); err != nil {
			return err
		}
		if _, err := s.symphony("tick", "--json"); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(b.ctx, burstWait)
		err = until(ctx, func() (bool, error) { return s.happened(`:"All of it is said."`) })
		cancel()
		if err != nil {
			return fmt.Errorf("a line of 12 MB: %w", err)
		}
		list, err := s.processes()
		if err != nil {
			return err
		}
		for _, p := range list {
			if p.worker() {
				kib, err := status(p.PID, "VmHWM")
				if err != nil {
					return err
				}
				peaks = append(peaks, float64(kib)*1024/1e6)
			}
		}
		if err := s.clear(); err != nil {
			return err
		}
	}
	if len(peaks) == 0 {
		return errors.New("no worker to look at after a line of 12 MB")
	}
	b.table.heading("a line of 12 MB")
	b.table.add(figure{Name: "peak resident of the worker", Unit: "MB", Values: peaks})
	return nil
}
