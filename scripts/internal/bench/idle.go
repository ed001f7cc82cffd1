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
	idleRatio = 1.3
	idlePeak  = 25 // MiB

	// farTracker is how long the tracker takes to answer in the second measurement; Linear's own takes longer.
	farTracker = 50 * time.Millisecond
	farPairs   = 11
)

// pairs are passes with nothing to do and, before or after each, the minimal program.
type pairs struct {
	passes, minimals      []time.Duration
	ratios, peaks, floors []float64
	requests              []int
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
	database, err := s.copyDatabase()
	if err != nil {
		return err
	}
	minimal := func() (sample, error) {
		argv := []string{b.minimal, database, b.tracker.Endpoint(), request}
		return b.watch.time(b.ctx, job{Argv: argv, Env: s.Env, Dir: s.Dir})
	}
	if _, err := minimal(); err != nil { // merges the WAL of the copy
		return err
	}
	near, err := s.pairs(b.o.pairs, minimal)
	if err != nil {
		return err
	}
	if err := b.tracker.slow(b.ctx, farTracker); err != nil {
		return err
	}
	far, err := s.pairs(farPairs, minimal)
	if err != nil {
		return err
	}
	b.idleRows(near, far)
	return b.tracker.ClearFailures(b.ctx)
}

// pairs takes turns in the order of the two programs, so that what else the machine does meets both alike.
func (s *project) pairs(count int, minimal func() (sample, error)) (all pairs, err error) {
	for n := range count {
		var p, m sample
		var asked int
		measures := []func() error{
			func() (err error) { m, err = minimal(); return err },
			func() (err error) { p, asked, err = s.countedTick(); return err },
		}
		if n%2 == 1 {
			slices.Reverse(measures)
		}
		for _, measure := range measures {
			if err := measure(); err != nil {
				return all, err
			}
		}
		all.passes, all.minimals = append(all.passes, p.wall()), append(all.minimals, m.wall())
		all.ratios = append(all.ratios, float64(p.WallNS)/float64(m.WallNS))
		all.peaks, all.floors = append(all.peaks, float64(p.PeakKiB)), append(all.floors, float64(m.PeakKiB))
		all.requests = append(all.requests, asked)
	}
	return all, nil
}

// countedTick also counts what the pass asked the tracker.
func (s *project) countedTick() (got sample, requests int, err error) {
	if _, err := s.b.tracker.requests(s.b.ctx); err != nil {
		return got, 0, err
	}
	if got, err = s.idleTick(); err != nil {
		return got, 0, err
	}
	log, err := s.b.tracker.requests(s.b.ctx)
	return got, len(log), err
}

func (b *bench) idleRows(near, far pairs) {
	t := &b.table
	t.heading(fmt.Sprintf("a pass with nothing to do, %d pairs", len(near.ratios)))
	figure, spread := milliseconds(near.passes)
	t.note("wall of the pass", figure, spread)
	figure, spread = milliseconds(near.minimals)
	t.note("wall of the minimal program", figure, spread)
	figure, spread = factors(near.ratios)
	t.judge("ratio, pair by pair", figure, spread, fmt.Sprintf("at most %.1f", idleRatio), median(near.ratios) <= idleRatio)
	figure, spread = factors(far.ratios)
	t.note(fmt.Sprintf("ratio where the tracker answers after %d ms, %d pairs", farTracker.Milliseconds(), len(far.ratios)), figure, spread)
	most, figure, spread := mebibytes(near.peaks)
	t.judge("peak resident", figure, spread, fmt.Sprintf("under %d MiB", idlePeak), most < idlePeak)
	_, figure, spread = mebibytes(near.floors)
	t.note("peak resident of the minimal program", figure, spread)
	requests := slices.Concat(near.requests, far.requests)
	least, largest := slices.Min(requests), slices.Max(requests)
	t.judge("requests", fmt.Sprint(largest), fmt.Sprintf("%d to %d", least, largest), "exactly 1", least == 1 && largest == 1)
}

// idleTick is a pass in the way of a terminal or of cron, which must do nothing.
func (s *project) idleTick() (sample, error) {
	got, err := s.symphony("tick")
	if err == nil && !strings.HasSuffix(got.Stdout, ": 0 running, 0 waiting, 0 held, 0 skipped\n") || strings.Count(got.Stdout, "\n") != 1 {
		err = errors.Join(err, fmt.Errorf("the pass was to do nothing: %s%s", got.Stdout, got.Stderr))
	}
	return got, err
}

// copyDatabase gives the minimal program the same database as a file of its own: each of the two would otherwise pay
// for what the other has left in the WAL.
func (s *project) copyDatabase() (string, error) {
	dir := filepath.Join(s.Dir, "copy")
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
	return filepath.Join(dir, "state.db"), nil
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
