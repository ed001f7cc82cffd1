package reconcile

import (
	"context"
	"testing"
	"time"
)

// A worker that holds its alive file and does nothing else is ended by passes: when it stands still, and
// when it was asked to end and did not. Both are measured on the monotonic clock, so that neither a suspend
// nor a stepped clock kills healthy work.
func TestCondemned(t *testing.T) {
	const mono = 100 * time.Hour
	ago := func(d time.Duration) Instant { return Instant{thisBoot, mono - d} }
	tests := map[string]struct {
		seen    Pulse
		stopAt  Instant
		beats   int64
		grace   time.Duration
		outcome Outcome // empty: left alone
	}{
		"beating":                      {seen: Pulse{4, ago(time.Hour)}, beats: 5},
		"the same beat since a moment": {seen: Pulse{5, ago(19 * time.Second)}, beats: 5},
		"the same beat for too long":   {seen: Pulse{5, ago(20 * time.Second)}, beats: 5, outcome: Lost},
		"seen before a reboot":         {seen: Pulse{5, Instant{"boot-1", 0}}, beats: 5},
		"never seen":                   {beats: 5},
		"stopping":                     {stopAt: ago(10 * time.Second), beats: 5},
		"stopping for too long":        {stopAt: ago(11 * time.Second), beats: 5, outcome: Canceled},
		"stopping with after_run":      {stopAt: ago(11 * time.Second), beats: 5, grace: time.Minute},
		"asked before a reboot":        {stopAt: Instant{"boot-1", 0}, beats: 5},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			i := issueNo(1)
			s := newScene().running(i, func(_ *Claim, r *Run) {
				r.Seen, r.StopAt = test.seen, test.stopAt
				if r.StopAt != (Instant{}) {
					r.StopReason = StopInactive
				}
			})
			s.Mono, s.Policy.StopGrace = mono, test.grace
			s.Liveness["run-A-1"] = Liveness{Alive: true, Beats: test.beats}
			var got Outcome
			for _, a := range Compute(s.Snapshot).Actions {
				if a.Kind == ActReap {
					got = a.Outcome
					equal(t, "kill", a.Kill, true)
				}
			}
			equal(t, "outcome", got, test.outcome)
		})
	}
}

// kept is a world in which a frozen worker keeps the database locked, in the middle of a write, as long as it lives.
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
