package reconcile

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A worker that holds its alive file and does nothing else is ended by passes: when it stands still, and
// when it was asked to end and did not. Both are measured on the monotonic clock, so that neither a suspend
// nor a stepped clock kills healthy work.
func TestCondemned(t *testing.T) {
	const mono = 100 * time.Hour
	ago := func(d time.Duration) Instant { return Instant{thisBoot, mono - d} }
	tests := map[string]struct {
		frozen  bool
		stopAt  Instant
		grace   time.Duration
		outcome Outcome // empty: left alone
	}{
		"beating":                 {},
		"frozen":                  {frozen: true, outcome: Lost},
		"stopping":                {stopAt: ago(10 * time.Second)},
		"stopping for too long":   {stopAt: ago(11 * time.Second), outcome: Canceled},
		"stopping with after_run": {stopAt: ago(11 * time.Second), grace: time.Minute},
		"asked before a reboot":   {stopAt: Instant{"boot-1", 0}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			i := issueNo(1)
			s := newScene().running(i, func(_ *Claim, r *Run) {
				r.StopAt = test.stopAt
				if r.StopAt != (Instant{}) {
					r.StopReason = StopInactive
				}
			})
			s.Mono, s.Policy.StopGrace = mono, test.grace
			s.Liveness["run-A-1"] = Liveness{Alive: true, Frozen: test.frozen}
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

// silent is a world whose workers last beat some time ago. One that was only suspended beats when it is looked at again.
type silent struct {
	*world
	beatAt  time.Duration
	resumed bool
	looks   int64
}

func (s *silent) Probe(ctx context.Context, run Run) Liveness {
	l := s.world.Probe(ctx, run)
	l.Beats, l.BeatAt = 7, s.beatAt
	if s.looks++; s.resumed {
		l.Beats += s.looks
	}
	return l
}

// A worker that stands still for longer than four heartbeats is looked at twice, and then killed.
func TestFrozen(t *testing.T) {
	for name, test := range map[string]struct {
		age     time.Duration
		resumed bool
		alive   bool
	}{
		"for long":          {age: 20 * time.Second},
		"since a moment":    {age: 19 * time.Second, alive: true},
		"only just resumed": {age: time.Hour, resumed: true, alive: true},
		"before its first":  {alive: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene().running(issueNo(1), nil).same()
			w := worldOf(s.Snapshot)
			deps := w.deps(s.Policy)
			k := &silent{world: w, resumed: test.resumed}
			if test.age > 0 {
				k.beatAt = deps.Mono() - test.age
			}
			deps.Runners = k
			Tick(t.Context(), deps, Options{})
			equal(t, name+": alive", w.workers["run-A-1"].alive, test.alive)
			if !test.alive {
				equal(t, name+": outcome", w.runs["run-A-1"].Outcome, Lost)
			}
		})
	}
}
