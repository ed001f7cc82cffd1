package main

import (
	"fmt"
	"math"
	"time"
)

const (
	growthExponent = 1.05
	growthCPU      = 3000 // ms, at the largest size
	growthPeak     = 150  // MB, at the largest size
)

// growthSizes are how many claims there are, and as many candidates.
func growthSizes(quick bool) []int {
	if quick {
		return []int{10, 100, 1000}
	}
	return []int{10, 100, 1000, 10_000}
}

// growth times a pass over ever more claims and candidates: once where every issue has changed since the last pass, and
// once where none has.
func (b *bench) growth() error {
	var points []point
	b.table.heading("a pass over claims and as many candidates")
	for _, n := range growthSizes(b.o.quick) {
		changed, err := b.grown(n)
		if err != nil {
			return fmt.Errorf("%d claims: %w", n, err)
		}
		points = append(points, point{float64(n), changed})
	}
	b.points = points
	t := &b.table
	last := points[len(points)-2:]
	t.add(figure{Name: "growth of CPU, exponent fitted over all sizes", Values: []float64{exponent(points)}, Budget: atMost(growthExponent).steady()})
	t.add(figure{
		Name:   fmt.Sprintf("growth of CPU, exponent from %.0f to %.0f", last[0].n, last[1].n),
		Values: []float64{exponent(last)}, Budget: atMost(growthExponent).steady(), Note: "the fixed part of a pass counts least here",
	})
	return b.mixed()
}

// point is the CPU time of a size.
type point struct{ n, ms float64 }

// exponent is the slope of the line of least squares through the points, both axes logarithmic.
func exponent(points []point) float64 {
	var x, y, xx, xy float64
	for _, p := range points {
		lx, ly := math.Log(p.n), math.Log(p.ms)
		x, y, xx, xy = x+lx, y+ly, xx+lx*lx, xy+lx*ly
	}
	n := float64(len(points))
	return (n*xy - x*y) / (n*xx - x*x)
}

// grown measures one size and gives the median CPU of a pass to which everything is new.
func (b *bench) grown(n int) (changedMS float64, err error) {
	l := load{Candidates: n, Claims: n}
	changed, same, asked, err := b.loaded(fmt.Sprintf("growth-%d", n), l)
	if err != nil {
		return 0, err
	}
	t := &b.table
	f := figure{Name: fmt.Sprintf("%d claims, CPU, all changed", n), Unit: "ms", Values: each(changed, cpuMS)}
	g := figure{Name: fmt.Sprintf("%d claims, CPU, none changed", n), Unit: "ms", Values: each(same, cpuMS)}
	peak := figure{Name: fmt.Sprintf("%d claims, peak resident", n), Unit: "MB", Values: each(append(changed, same...), peakMB)}
	if n == 10_000 {
		f.Budget, g.Budget, peak.Budget = atMost(growthCPU), atMost(growthCPU), atMost(growthPeak).worst()
	}
	t.add(f)
	t.add(g)
	t.add(figure{Name: fmt.Sprintf("%d claims, wall, all changed", n), Unit: "ms", Values: each(changed, wallMS)})
	t.add(peak)
	t.add(figure{
		Name: fmt.Sprintf("%d claims, requests", n), Values: asked, Budget: atMost(float64(l.requests())).worst().steady(),
		Note: fmt.Sprintf("pages: %d of candidates, %d of claims by their ids", pages(l.Candidates), pages(l.Claims)),
	})
	return median(f.Values), nil
}

// mixed has claims among candidates that are blocked and so have to be skipped, each for a reason.
func (b *bench) mixed() error {
	if b.o.quick {
		return nil
	}
	l := load{Candidates: 1000, Claims: 500}
	changed, same, asked, err := b.loaded("mixed", l)
	if err != nil {
		return err
	}
	b.table.add(figure{Name: "500 claims and 500 skipped, CPU, all changed", Unit: "ms", Values: each(changed, cpuMS)})
	b.table.add(figure{Name: "500 claims and 500 skipped, CPU, none changed", Unit: "ms", Values: each(same, cpuMS)})
	b.table.add(figure{Name: "500 claims and 500 skipped, requests", Values: asked, Budget: atMost(float64(l.requests())).worst().steady()})
	return nil
}

// loaded runs passes on a project with the load.
func (b *bench) loaded(name string, l load) (changed, same []sample, asked []float64, err error) {
	s, err := b.project(name)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := b.tracker.Seed(b.ctx, nil); err != nil {
		return nil, nil, nil, err
	}
	if _, err := s.quietTick(); err != nil { // makes the database
		return nil, nil, nil, err
	}
	if err := s.claim(l.issues(time.Now())[:l.Claims]); err != nil {
		return nil, nil, nil, err
	}
	for n := range b.growthRuns(l) {
		l.Version = n + 1
		if err := b.tracker.load(b.ctx, l); err != nil {
			return nil, nil, nil, err
		}
		for _, to := range []*[]sample{&changed, &same} {
			got, requests, err := s.counted(s.quietTick)
			if err != nil {
				return nil, nil, nil, err
			}
			if requests.Requests < int64(l.requests()) {
				return nil, nil, nil, fmt.Errorf("%d requests: the pass has not seen all of %+v", requests.Requests, l)
			}
			*to, asked = append(*to, got), append(asked, float64(requests.Requests))
		}
	}
	return changed, same, asked, nil
}

// growthRuns: the largest takes seconds, and varies least.
func (b *bench) growthRuns(l load) int {
	if l.Claims >= 10_000 {
		return min(3, b.o.runs)
	}
	return b.o.runs
}
