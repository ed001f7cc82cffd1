package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"
)

// An issue that the run's own agent has moved: the run may finish its turn, for two minutes; one that somebody
// else has moved is stopped at once.
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
		{"moved on by somebody else", time.Second, "Human Review", &done, "stop A-1 terminal"},
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
	equal(t, "moved by somebody else", story(Compute(s.Snapshot)), "stop A-1 inactive")
}

// A pass that is broken off while it waits for the tracker has finished what it began, blames nobody and starts
// nothing.
func TestBrokenOff(t *testing.T) {
	s := newScene().running(issueNo(1), func(_ *Claim, r *Run) { r.Outcome = Succeeded }).same().candidates(issueNo(2))
	w := worldOf(s.Snapshot)
	cause := errors.New("SIGTERM")
	ctx, cancel := context.WithCancelCause(t.Context())
	deps := w.deps(s.Policy)
	deps.Tracker.Tracker = oracle{w, func(ctx context.Context) error {
		cancel(cause)
		<-ctx.Done()
		return ctx.Err()
	}}
	report := Tick(ctx, deps, Options{})
	equal(t, "plan", w.story(report), "settle A-1 succeeded")
	equal(t, "errors", codes(report), "canceled")
	equal(t, "tracker blamed", w.trackerBlock != nil, false)
	equal(t, "workers", len(w.workers), 1)
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
