package reconcile

import (
	"context"
	"testing"
	"time"
)

// kept is a world whose database a worker keeps from everybody, standing still in the middle of a write, as long as
// it lives.
type kept struct {
	*world
	beatAt time.Duration
	beats  bool // it does go on
	looks  int64
}

func (k *kept) Probe(ctx context.Context, run Run) Liveness {
	l := k.world.Probe(ctx, run)
	if l.Alive {
		l.Beats, l.BeatAt = 7, k.beatAt
		if k.looks++; k.beats {
			l.Beats += k.looks
		}
	}
	return l
}

func (k *kept) RecordHeartbeat(ctx context.Context, id string, beats int64, at Instant) error {
	if k.workers[id].alive {
		return &Error{Code: "state_busy", Message: "another process holds it"}
	}
	return k.world.RecordHeartbeat(ctx, id, beats, at)
}

// A worker that stands still with the database in its hands lets no pass store what it saw. It is killed all the same,
// by the beat's own clock; one that goes on, or has just beaten, is not.
func TestFrozenWithTheDatabase(t *testing.T) {
	for name, test := range map[string]struct {
		age   time.Duration
		beats bool
		alive bool
	}{
		"for long":          {age: 21 * time.Second},
		"since a moment":    {age: 19 * time.Second, alive: true},
		"only just resumed": {age: time.Hour, beats: true, alive: true},
		"before its first":  {alive: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene().running(issueNo(1), nil).same()
			w := worldOf(s.Snapshot)
			deps := w.deps(s.Policy)
			mono := deps.Mono() + time.Hour
			deps.Mono = func() time.Duration { return mono }
			k := &kept{world: w, beats: test.beats}
			if test.age > 0 {
				k.beatAt = mono - test.age
			}
			deps.Store, deps.Runners = k, k
			Tick(t.Context(), deps, Options{})
			equal(t, "alive", w.workers["run-A-1"].alive, test.alive)
			if !test.alive {
				equal(t, "outcome", w.runs["run-A-1"].Outcome, Lost)
			}
		})
	}
}
