package reconcile

import (
	"testing"
	"time"
)

// After its own agent has moved the issue, a run may finish its turn, for two minutes. A run whose issue was moved otherwise
// is stopped at once. The time is told by the worker's own times: what the wall clock does between its last heartbeat and the
// pass ages nothing.
func TestHandoff(t *testing.T) {
	review, done := issueNo(1, inState("Human Review")), issueNo(1, inState("Done"))
	for _, row := range []struct {
		rule  string
		at    time.Duration // of the agent's change, from the pass's present
		beat  time.Duration // of the last heartbeat
		found string        // the state that the worker then found
		now   *Issue
		want  string
	}{
		{"moved by the agent", -time.Minute, 0, "human review", &review, ""},
		{"moved to a terminal state by the agent", -time.Minute, 0, "Done", &done, ""},
		{"just within the grace", -2*time.Minute + 1, 0, "Human Review", &review, ""},
		{"the grace is over", -2 * time.Minute, 0, "Human Review", &review, "stop A-1 inactive"},
		{"moved otherwise", -time.Second, 0, "Human Review", &done, "stop A-1 terminal"},
		{"the change is under way", -time.Minute, 0, "", &review, ""},
		{"under way for too long", -2 * time.Minute, 0, "", &review, "stop A-1 inactive"},
		{"no longer returned", -time.Second, 0, "Human Review", nil, "stop A-1 missing"},
		{"suspended for 8 hours since the last heartbeat", -8*time.Hour - time.Minute, -8 * time.Hour, "Human Review", &review, ""},
		{"set back an hour since", time.Hour - time.Minute, time.Hour, "Human Review", &review, ""},
		{"set on a year, and a heartbeat since", -time.Minute, -time.Second, "Human Review", &review, ""},
		{"over, whatever the clock says", time.Hour - 2*time.Minute, time.Hour, "Human Review", &review, "stop A-1 inactive"},
		{"over before the suspend", -9 * time.Hour, -8 * time.Hour, "Human Review", &review, "stop A-1 inactive"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			s := newScene().running(issueNo(1), func(_ *Claim, r *Run) {
				r.HandoffAt, r.HandoffState, r.HeartbeatAt = noon.Add(row.at), row.found, noon.Add(row.beat)
			}).answer()
			if row.now != nil {
				s.answer(*row.now)
			}
			equal(t, "plan", story(Compute(s.Snapshot)), row.want)
		})
	}
}
