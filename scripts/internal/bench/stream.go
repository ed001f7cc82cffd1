package main

import (
	"context"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/linear/lineartest"
)

const (
	streamDeltas = 3000
	streamPeak   = 20 // MiB
	streamWait   = 60 * time.Second
)

// stream measures a worker whose turn has streamed some thousand deltas, and looks what runs between passes.
func (b *bench) stream() error {
	var peaks, agents []float64
	var workers, others int
	for n := range b.o.runs {
		s, err := b.project(fmt.Sprintf("stream-%d", n+1))
		if err != nil {
			return err
		}
		text := fmt.Sprintf("```agent\nstream %d 1ms\nsay The stream is over.\nhang\n```", streamDeltas)
		issue := lineartest.Issue{Identifier: "ABC-1", Title: "Stream", Description: &text, State: "Todo"}
		if err := b.tracker.Seed(b.ctx, []lineartest.Issue{issue}); err != nil {
			return err
		}
		if _, err := s.symphony("tick", "--json"); err != nil {
			return err
		}
		list, err := s.streamed()
		if err != nil {
			return err
		}
		for _, p := range list {
			peak, err := status(p.PID, "VmHWM")
			if err != nil {
				return err
			}
			if p.worker() {
				peaks = append(peaks, float64(peak))
			} else {
				agents = append(agents, float64(peak))
			}
		}
		w, strange := strangers(list)
		workers, others = max(workers, w), max(others, len(strange))
		for _, p := range strange {
			fmt.Fprintf(b.progress, "bench: runs between passes: %s\n", p)
		}
		if err := s.clear(); err != nil {
			return err
		}
	}
	if len(peaks) != b.o.runs || len(agents) == 0 {
		return fmt.Errorf("%d workers and %d processes of agents were found in %d runs", len(peaks), len(agents), b.o.runs)
	}
	t := &b.table
	t.heading(fmt.Sprintf("a worker whose turn streamed %d deltas, %d times", streamDeltas, b.o.runs))
	most, figure, spread := mebibytes(peaks)
	t.judge("peak resident of the worker", figure, spread, fmt.Sprintf("under %d MiB", streamPeak), most < streamPeak)
	_, figure, spread = mebibytes(agents)
	t.note("peak resident of the scripted agent", figure, spread)
	t.judge("processes between passes besides workers and their agents", fmt.Sprint(others), fmt.Sprintf("%d worker", workers), "none", others == 0)
	return nil
}

// streamed waits for the end of the stream and lists what then runs: the turn goes on, no pass does.
func (s *project) streamed() ([]process, error) {
	ctx, cancel := context.WithTimeout(s.b.ctx, streamWait)
	defer cancel()
	err := until(ctx, func() (bool, error) { return s.happened(`:"The stream is over."`) })
	if err != nil {
		return nil, fmt.Errorf("the stream did not end: %w", err)
	}
	return s.processes()
}
