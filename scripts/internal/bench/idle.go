package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/linear/lineartest"
)

const (
	idleRatio = 1.15
	idlePeak  = 18 // MB
	// idleGuard is for quick runs, whose machines have other work.
	idleGuard = 1.4
	// idleFaults: pages that a pass touches against those that the minimal program does. No load of the machine changes it.
	idleFaults = 1.2

	// farTracker is how long the tracker takes to answer in the second measurement; Linear's own takes longer.
	farTracker = 50 * time.Millisecond
	farPairs   = 11
)

// pairs are passes with nothing to do and, before or after each, another program.
type pairs struct {
	passes, others  []sample
	ratios          []float64
	byCopy          [][]float64 // the ratios of each copy of the two programs
	requests, bytes []float64
}

// medians is what each copy would have told alone.
func (p pairs) medians() (list []float64) {
	for _, ratios := range p.byCopy {
		if len(ratios) > 0 {
			list = append(list, median(ratios))
		}
	}
	return list
}

// idle measures with a tracker that answers at once, which the budget is for, and with one that is as far away as
// trackers are.
func (b *bench) idle() error {
	s, err := b.project("idle")
	if err != nil {
		return err
	}
	request, err := s.settle()
	if err != nil {
		return err
	}
	theirs, err := s.copyState("minimal")
	if err != nil {
		return err
	}
	minimal := other{b.minimal, []string{"--workflow", s.Workflow, "--state-dir", theirs, "--request", request}}
	near, err := s.pairs(b.o.pairs, minimal)
	if err != nil {
		return err
	}
	b.idleRows(near)
	if b.o.quick {
		return nil
	}
	if err := s.startup(append([]string{b.minimal}, minimal.args...)); err != nil {
		return err
	}
	if err := s.bare(request); err != nil {
		return err
	}
	if err := b.tracker.slow(b.ctx, farTracker); err != nil {
		return err
	}
	far, err := s.pairs(farPairs, minimal)
	if err != nil {
		return err
	}
	b.table.add(figure{Name: fmt.Sprintf("wall, ratio where the tracker answers after %d ms", farTracker.Milliseconds()), Values: far.ratios})
	return b.tracker.ClearFailures(b.ctx)
}

// bare compares with the program that does least of all.
func (s *project) bare(request string) error {
	theirs, err := s.copyState("bare")
	if err != nil {
		return err
	}
	args := []string{filepath.Join(theirs, "state.db"), s.b.tracker.Endpoint(), request}
	all, err := s.pairs(s.b.o.pairs, other{s.b.bare, args})
	if err != nil {
		return err
	}
	t := &s.b.table
	t.add(figure{Name: "wall of a program that only opens the database and asks the tracker", Unit: "ms", Values: each(all.others, wallMS)})
	t.add(figure{Name: "wall, ratio to that one", Values: all.ratios})
	return nil
}

// other is a program that a pass is measured against.
type other struct {
	program string
	args    []string
}

// pairs takes turns in the order of the two programs, so that what else the machine does meets both alike, and in the
// copies of them.
func (s *project) pairs(count int, o other) (all pairs, err error) {
	ours, err := s.b.copies(s.b.symphony)
	if err != nil {
		return all, err
	}
	theirs, err := s.b.copies(o.program)
	if err != nil {
		return all, err
	}
	all.byCopy = make([][]float64, len(ours))
	defer func() { s.program = s.b.symphony }()
	for n := range count {
		which := n % len(ours)
		s.program = ours[which]
		argv := append([]string{theirs[which]}, o.args...)
		var p, m sample
		var asked traffic
		err := inTurns(n,
			func() (err error) {
				m, err = s.b.watch.time(s.b.ctx, job{Argv: argv, Env: s.Env, Dir: s.Dir})
				return err
			},
			func() (err error) { p, asked, err = s.counted(s.idleTick); return err },
		)
		if err != nil {
			return all, err
		}
		all.passes, all.others = append(all.passes, p), append(all.others, m)
		ratio := float64(p.WallNS) / float64(m.WallNS)
		all.ratios, all.byCopy[which] = append(all.ratios, ratio), append(all.byCopy[which], ratio)
		all.requests, all.bytes = append(all.requests, float64(asked.Requests)), append(all.bytes, float64(asked.In+asked.Out))
	}
	return all, nil
}

// inTurns makes both measurements, every other time the second one first.
func inTurns(n int, first, second func() error) error {
	if n%2 == 1 {
		first, second = second, first
	}
	if err := first(); err != nil {
		return err
	}
	return second()
}

// counted also counts what the pass asked the tracker.
func (s *project) counted(pass func() (sample, error)) (got sample, asked traffic, err error) {
	before, err := s.b.tracker.traffic(s.b.ctx)
	if err != nil {
		return got, asked, err
	}
	if got, err = pass(); err != nil {
		return got, asked, err
	}
	after, err := s.b.tracker.traffic(s.b.ctx)
	return got, after.since(before), err
}

func (b *bench) idleRows(near pairs) {
	ratio := idleRatio
	if b.o.quick {
		ratio = idleGuard
	}
	t := &b.table
	t.heading("a pass with nothing to do, %d pairs with the minimal program", len(near.ratios))
	t.add(figure{Name: "wall", Unit: "ms", Values: each(near.passes, wallMS)})
	t.add(figure{Name: "wall of the minimal program", Unit: "ms", Values: each(near.others, wallMS)})
	t.add(figure{Name: "wall, ratio pair by pair", Values: near.ratios, Budget: atMost(ratio).steady()})
	t.add(figure{Name: "the same, copy by copy of the two programs", Values: near.medians()})
	t.add(figure{Name: "CPU", Unit: "ms", Values: each(near.passes, cpuMS)})
	t.add(figure{Name: "CPU of the minimal program", Unit: "ms", Values: each(near.others, cpuMS)})
	t.add(figure{Name: "peak resident", Unit: "MB", Values: each(near.passes, peakMB), Budget: atMost(idlePeak).worst()})
	t.add(figure{Name: "peak resident of the minimal program", Unit: "MB", Values: each(near.others, peakMB)})
	t.add(figure{Name: "page faults", Values: each(near.passes, faults)})
	t.add(figure{Name: "page faults of the minimal program", Values: each(near.others, faults)})
	t.add(figure{
		Name: "page faults, ratio", Values: []float64{median(each(near.passes, faults)) / median(each(near.others, faults))}, Budget: atMost(idleFaults).steady(),
	})
	t.add(figure{Name: "requests", Values: near.requests, Budget: atMost(1).worst().steady()})
	t.add(figure{Name: "bytes to and from the tracker", Values: near.bytes, Note: "of HTTP, without TLS"})
}

func faults(s sample) float64 { return float64(s.Faults) }

// idleTick is a pass in the way of a terminal or of cron, which must do nothing.
func (s *project) idleTick() (sample, error) {
	got, err := s.symphony("tick")
	if err == nil && !strings.HasSuffix(got.Stdout, ": 0 running, 0 waiting, 0 held, 0 skipped\n") || strings.Count(got.Stdout, "\n") != 1 {
		err = errors.Join(err, fmt.Errorf("the pass was to do nothing: %s%s", got.Stdout, got.Stderr))
	}
	return got, err
}

// copyState gives another program the same database as a file of its own: each of the two would otherwise pay for what
// the other has left in the WAL.
func (s *project) copyState(name string) (string, error) {
	dir := filepath.Join(s.Dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	for _, name := range []string{"state.db", "state.db-wal"} {
		data, err := os.ReadFile(filepath.Join(s.StateDir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// settle runs passes until nothing is left of the first one's extra work, and keeps the request that a pass makes
// in a file, for the minimal program to make the same.
func (s *project) settle() (requestFile string, err error) {
	done := lineartest.Issue{Title: "Over and done with", State: "Done"}
	if err := s.b.tracker.Seed(s.b.ctx, slices.Repeat([]lineartest.Issue{done}, 20)); err != nil {
		return "", err
	}
	for range 3 {
		if _, err := s.quietTick(); err != nil {
			return "", err
		}
	}
	if _, err := s.b.tracker.requests(s.b.ctx); err != nil {
		return "", err
	}
	if _, err := s.quietTick(); err != nil {
		return "", err
	}
	log, err := s.b.tracker.requests(s.b.ctx)
	if err != nil {
		return "", err
	}
	if len(log) == 0 {
		return "", errors.New("the pass asked the tracker nothing")
	}
	body, err := json.Marshal(map[string]any{"query": log[0].Query, "variables": log[0].Variables})
	if err != nil {
		return "", err
	}
	requestFile = filepath.Join(s.Dir, "request.json")
	return requestFile, os.WriteFile(requestFile, body, 0o600)
}
