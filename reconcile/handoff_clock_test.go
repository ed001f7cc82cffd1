package reconcile

import (
	"testing"
	"time"
)

// How long ago the agent has handed its issue over is told by the worker's own times, which it keeps in step with each
// other: what the wall clock does between its last heartbeat and the pass ages nothing.
func TestHandoffAgesByHeartbeats(t *testing.T) {
	review := issueNo(1, inState("Human Review"))
	for name, row := range map[string]struct {
		handoff, beat time.Duration // from the pass's present
		want          string
	}{
		"suspended for 8 hours since the last heartbeat": {-8*time.Hour - time.Minute, -8 * time.Hour, ""},
		"set back an hour since":                         {time.Hour - time.Minute, time.Hour, ""},
		"set on a year, and a heartbeat since":           {-time.Minute, -time.Second, ""},
		"over, whatever the clock says":                  {time.Hour - 2*time.Minute, time.Hour, "stop A-1 inactive"},
		"over before the suspend":                        {-9 * time.Hour, -8 * time.Hour, "stop A-1 inactive"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene().running(issueNo(1), func(_ *Claim, r *Run) {
				r.HandoffAt, r.HandoffState, r.HeartbeatAt = noon.Add(row.handoff), "Human Review", noon.Add(row.beat)
			}).answer(review)
			equal(t, "plan", story(Compute(s.Snapshot)), row.want)
		})
	}
}
