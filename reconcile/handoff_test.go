package reconcile

import (
	"context"
	"testing"
	"time"
)

// After its own agent has moved the issue, a run may finish its turn, for two minutes. A run whose issue was moved otherwise
// is stopped at once.
func TestHandoff(t *testing.T) {
	review, done := issueNo(1, inState("Human Review")), issueNo(1, inState("Done"))
	for _, row := range []struct {
		rule  string
		ago   time.Duration // since the agent's change
		found string        // the state that the worker then found
		now   *Issue
		want  string
	}{
		{"moved by the agent", time.Minute, "human review", &review, ""},
		{"moved to a terminal state by the agent", time.Minute, "Done", &done, ""},
		{"just within the grace", 2*time.Minute - 1, "Human Review", &review, ""},
		{"the grace is over", 2 * time.Minute, "Human Review", &review, "stop A-1 inactive"},
		{"moved otherwise", time.Second, "Human Review", &done, "stop A-1 terminal"},
		{"the change is under way", 29 * time.Second, "", &review, ""},
		{"under way for too long", 30 * time.Second, "", &review, "stop A-1 inactive"},
		{"no longer returned", time.Second, "Human Review", nil, "stop A-1 missing"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			s := newScene().running(issueNo(1), func(_ *Claim, r *Run) { r.HandoffAt, r.HandoffState = noon.Add(-row.ago), row.found }).answer()
			if row.now != nil {
				s.answer(*row.now)
			}
			equal(t, "plan", story(Compute(s.Snapshot)), row.want)
		})
	}
	s := newScene().running(issueNo(1), nil).answer(review)
	equal(t, "moved otherwise", story(Compute(s.Snapshot)), "stop A-1 inactive")
}

// A signal that comes before the tracker is asked ends that wait as well, and no look at what is stored.
func TestBrokenOffBefore(t *testing.T) {
	for name, s := range map[string]*scene{
		"nothing to do": newScene().held(issueNo(1), HoldOperator).same(),
		"a run settled": newScene().running(issueNo(1), func(_ *Claim, r *Run) { r.Outcome = Succeeded }).same(),
		"a command":     newScene().held(issueNo(1), HoldOperator).same().command(VerbRetry, issueNo(1)),
	} {
		w := worldOf(s.Snapshot)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		deps := w.deps(s.Policy)
		deps.Tracker.Tracker = oracle{w, func(ctx context.Context) error { return ctx.Err() }}
		report := Tick(ctx, deps, Options{})
		equal(t, name+": errors", codes(report), "canceled")
	}
}

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
