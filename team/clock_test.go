package team

import (
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
)

// Two clocks may count the same time differently, by eight percent here. Before another machine takes a
// claim, its holder has stopped: the margin is for a slow clock there, the grace for a fast one here.
func TestClocksThatGoWrong(t *testing.T) {
	for _, rates := range [][2]float64{{1, 1}, {0.92, 1.08}, {1.08, 0.92}} {
		w := newWorld(2)
		member := func(at int) *Member {
			m := w.member(at, arrives)
			m.Clock = func() Instant {
				return Instant{Boot: "boot", Since: time.Duration(float64(w.now) * rates[at])}
			}
			return m
		}
		holder := member(0)
		other := member(1)
		test.Must(holder.Take(t.Context(), []Issue{theIssue}))
		test.OK(t, other.Look(t.Context()))
		for len(test.Must(other.Take(t.Context(), []Issue{theIssue})).Elsewhere) > 0 {
			w.now += terms.Term / 100
			if w.now > 2*terms.Term {
				t.Fatalf("rates %v: the claim is never taken", rates)
			}
		}
		if left := holder.timeLeft(w.machines[0].own[theIssue.ID]); left > 0 {
			t.Errorf("rates %v: taken after %v, while its holder works on for %v", rates, w.now, left)
		}
	}
}
