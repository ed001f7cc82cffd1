package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/linear/lineartest"
)

const (
	idleRatio = 1.3
	idlePeak  = 25 // MB
)

// idle times a pass with nothing to do against the minimal program, in pairs whose order takes turns, so that what
// else the machine does meets both alike.
func (b *bench) idle() error {
	s, err := b.stage("idle")
	if err != nil {
		return err
	}
	request, err := s.settle()
	if err != nil {
		return err
	}
	pass := func() (sample, error) { return s.quietTick() }
	minimal := func() (sample, error) {
		argv := []string{b.minimal, filepath.Join(s.stateDir, "state.db"), b.tracker.endpoint(), request}
		return b.watch.time(b.ctx, job{Argv: argv, Env: s.env, Dir: s.dir})
	}
	var passes, minimals []time.Duration
	var ratios, peaks, floors []float64
	var requests []int
	for n := range b.o.pairs {
		var p, m sample
		var err error
		if n%2 == 0 {
			if m, err = minimal(); err != nil {
				return err
			}
		}
		if _, err := b.tracker.requests(b.ctx); err != nil {
			return err
		}
		if p, err = pass(); err != nil {
			return err
		}
		asked, err := b.tracker.requests(b.ctx)
		if err != nil {
			return err
		}
		if n%2 == 1 {
			if m, err = minimal(); err != nil {
				return err
			}
		}
		passes, minimals = append(passes, p.wall()), append(minimals, m.wall())
		ratios = append(ratios, float64(p.WallNS)/float64(m.WallNS))
		peaks, floors = append(peaks, float64(p.PeakKiB)), append(floors, float64(m.PeakKiB))
		requests = append(requests, len(asked))
	}
	b.idleRows(passes, minimals, ratios, peaks, floors, requests)
	return nil
}

func (b *bench) idleRows(passes, minimals []time.Duration, ratios, peaks, floors []float64, requests []int) {
	t := &b.table
	t.heading(fmt.Sprintf("a pass with nothing to do, %d pairs", len(ratios)))
	figure, spread := milliseconds(passes)
	t.note("wall of the pass", figure, spread)
	figure, spread = milliseconds(minimals)
	t.note("wall of the minimal program", figure, spread)
	ratio := median(ratios)
	t.judge("ratio, pair by pair", fmt.Sprintf("%.2f", ratio), fmt.Sprintf("%.2f to %.2f", slices.Min(ratios), slices.Max(ratios)),
		fmt.Sprintf("at most %.1f", idleRatio), ratio <= idleRatio)
	most, figure, spread := megabytesOf(peaks)
	t.judge("peak resident", figure, spread, fmt.Sprintf("under %d MB", idlePeak), most < idlePeak)
	_, figure, spread = megabytesOf(floors)
	t.note("peak resident of the minimal program", figure, spread)
	least, largest := slices.Min(requests), slices.Max(requests)
	t.judge("requests", fmt.Sprint(largest), fmt.Sprintf("%d to %d", least, largest), "exactly 1", least == 1 && largest == 1)
}

// settle runs passes until nothing is left of the first one's extra work, and keeps the request that a pass makes
// in a file, for the minimal program to make the same.
func (s *stage) settle() (requestFile string, err error) {
	done := lineartest.Issue{Title: "Over and done with", State: "Done"}
	if err := s.b.tracker.seed(s.b.ctx, slices.Repeat([]lineartest.Issue{done}, 20)); err != nil {
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
	requestFile = filepath.Join(s.dir, "request.json")
	return requestFile, os.WriteFile(requestFile, body, 0o600)
}
