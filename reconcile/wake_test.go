package reconcile

import (
	"testing"
	"time"
)

// What falls due while a pass is at work is a reason for another one, however long the pass takes; what was due already
// and could not be started is none, and hides no other.
func TestNextWake(t *testing.T) {
	s := newScene().running(issueNo(1), func(_ *Claim, r *Run) { r.Outcome, r.Progress = Succeeded, true }).
		claim(issueNo(2), func(c *Claim) { c.DueAt = noon.Add(-time.Minute) })
	w := worldOf(s.Snapshot)
	deps := w.deps(s.Policy)
	deps.Tracker = nil
	looks := 0
	deps.Now = func() time.Time {
		if looks++; looks == 1 {
			return noon
		}
		return noon.Add(5 * time.Second)
	}
	report := Tick(t.Context(), deps, Options{})
	equal(t, "story", w.story(report), "settle A-1 succeeded")
	equal(t, "next due", report.NextDue, noon.Add(-time.Minute))
	equal(t, "next wake", report.NextWake, noon.Add(time.Second))

	looks = 1 // now both were due before
	report = Tick(t.Context(), deps, Options{})
	equal(t, "next wake", report.NextWake, time.Time{})
}
