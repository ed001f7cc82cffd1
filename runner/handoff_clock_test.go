package runner

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// A wall clock that jumps takes the time of the handoff along, at the next write of the row. One that goes as it should
// leaves it alone, so that a heartbeat stays a cheap write.
func TestHandoffFollowsTheClock(t *testing.T) {
	a, r := loose(t)
	off := time.Duration(0)
	now := time.Now()
	a.rec.now = func() time.Time { return now.Add(off) }
	a.rec.handsOver()
	a.rec.flush(t.Context())
	for _, jump := range []time.Duration{0, 8 * time.Hour, -time.Hour, 365 * 24 * time.Hour, 0} {
		off = jump
		a.rec.flush(t.Context())
		last := r.journal.updates[len(r.journal.updates)-1]
		if d := last.HandoffAt.Sub(now.Add(jump)).Abs(); d > clockStep {
			t.Errorf("after %v: off by %v", jump, d)
		}
	}
	before := a.rec.get().HandoffAt
	off = clockStep / 2
	a.rec.flush(t.Context())
	if at := a.rec.get().HandoffAt; !at.Equal(before) {
		t.Errorf("moved from %v to %v", before, at)
	}
	a.rec.change(func(run *reconcile.Run) { run.HandoffAt = time.Time{} })
	off = time.Hour
	a.rec.flush(t.Context())
	if at := a.rec.get().HandoffAt; !at.IsZero() {
		t.Errorf("no handoff, and its time is %v", at)
	}
}

// The clock in the alive file is the one that a pass compares with its own: a heartbeat is as old as it is, whatever the
// wall clock says.
func TestBeatTellsTheMonotonicClock(t *testing.T) {
	r := newRig(t, "")
	a := r.newJob(r.run, func(error) {})
	a.rec.now = func() time.Time { return time.Now().Add(365 * 24 * time.Hour) }
	must(t, a.open())
	defer a.close()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	began := proc.Monotonic()
	go func() { defer close(over); a.rec.beat(ctx, time.Hour) }()
	defer func() { cancel(); <-over }()
	eventually(t, "the only heartbeat", func() bool {
		pulse, err := proc.ProbeAlive(filepath.Join(r.Dir, aliveFile))
		must(t, err)
		if pulse.Beats == 1 && (pulse.Mono < began || pulse.Mono > proc.Monotonic()) {
			t.Fatalf("between %v and %v on the monotonic clock it says %v", began, proc.Monotonic(), pulse.Mono)
		}
		return pulse.Beats == 1
	})
}
