package feedback

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// inReview is a tracker whose only issue is in review.
type inReview struct{ reconcile.Tracker }

func (inReview) ByIDs(context.Context, []string) (map[string]reconcile.Issue, error) {
	return map[string]reconcile.Issue{"id": {
		ID:         "id",
		Identifier: "ABC-1",
		State:      "Human Review",
	}}, nil
}

// A job that the forge could not run again is tried again by each pass, and its failure does
// not count before it has run again.
//
// Workflow run 7 is run again at once, and run 8 is refused three times.
func TestRerunIsTriedAgain(t *testing.T) {
	ctx := t.Context()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	db := test.Must(state.Create(ctx, t.TempDir(), now))
	t.Cleanup(func() { test.OK(t, db.Close()) })
	delivered := reconcile.Delivered{
		URL:         "u",
		Branch:      "b",
		Commit:      "c",
		Base:        "main",
		At:          now,
		PullRequest: "p/1",
	}
	test.OK(t, db.Journal.RecordDelivered(ctx, "id", delivered))
	pull := reconcile.Pull{
		ID:     "x",
		Number: 1,
		URL:    "p/1",
		State:  "open",
		Branch: "b",
		Head:   "c",
		Base:   "main",
	}
	pull.Checks = reconcile.Checks{Commit: "c", State: reconcile.CheckFailure}
	pull.Checks.List = []reconcile.Check{
		{Name: "lint", State: reconcile.CheckFailure, Run: 7},
		{Name: "build", State: reconcile.CheckFailure, Run: 8},
	}
	tries := map[int64]int{}
	moved := 0
	forge := &reconcile.Forge{
		Number: func(string) (int, bool) { return 1, true },
		Read: func(context.Context, []int) (map[int]reconcile.Pull, error) {
			return map[int]reconcile.Pull{1: pull}, nil
		},
		ReadChecks: func(context.Context, string) (reconcile.Checks, error) { return reconcile.Checks{}, nil },
		Rerun: func(_ context.Context, run int64) error {
			tries[run]++
			if run == 7 || tries[run] > 3 {
				return nil
			}
			return &reconcile.Error{
				Code:    "forge_api_status",
				Status:  http.StatusServiceUnavailable,
				Message: "GitHub answers 503",
			}
		},
	}
	w := Watcher{
		Forge: func(context.Context) (*reconcile.Forge, error) { return forge, nil },
		Tracker: &reconcile.TrackerAdapter{
			Tracker: inReview{},
			Move:    func(context.Context, string, string) error { moved++; return nil },
		},
		DB: db, Now: func() time.Time { return now }, Handoff: "Human Review",
		Feedback: reconcile.Feedback{State: "In Progress", Checks: true, Rounds: 3},
		Policy:   reconcile.Policy{ActiveStates: []string{"In Progress"}},
	}
	for pass := range 5 {
		now = now.Add(readStep)
		w.Pass(ctx)
		test.Equal(t, "tries", tries, map[int64]int{7: 1, 8: min(pass+1, 4)})
		test.Equal(t, "moved", moved, 0)
	}
	now = now.Add(3 * time.Minute) // the forge has not shown the job at work meanwhile
	w.Pass(ctx)
	test.Equal(t, "moved", moved, 1)
}

// If a forge answers only for a pull request at a time, the passes read some in turn.
func TestPullRequestsInTurn(t *testing.T) {
	ctx := t.Context()
	db := test.Must(state.Create(ctx, t.TempDir(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
	t.Cleanup(func() { test.OK(t, db.Close()) })
	w := Watcher{DB: db, Most: 2}
	for _, want := range [][]int{{3, 5}, {7, 8}, {9, 3}, {5, 7}} {
		test.Equal(t, "turn", test.Must(w.turn(ctx, []int{3, 5, 7, 8, 9})), want)
	}
	// Some have ended meanwhile.
	test.Equal(t, "fewer", test.Must(w.turn(ctx, []int{3, 5, 9})), []int{9, 3})
	test.Equal(t, "few", test.Must(w.turn(ctx, []int{3, 5})), []int{3, 5})
	w.Most = 0
	test.Equal(t, "all", len(test.Must(w.turn(ctx, []int{3, 5, 7}))), 3)
}

func TestNextStep(t *testing.T) {
	const handoff = "Human Review"
	const active = "In Progress"
	d := Watcher{Handoff: handoff, Feedback: reconcile.Feedback{State: active}}
	begun := &reconcile.Rework{Commit: "c"}
	moved := &reconcile.Rework{Commit: "c", Moved: true}
	for name, tc := range map[string]struct {
		issue  string // its state; empty if the tracker has it no more
		pull   string
		head   string
		rework *reconcile.Rework
		want   step
	}{
		"no issue, open":                {"", "open", "c", nil, stepWait},
		"no issue, closed":              {"", reconcile.PullClosed, "c", moved, stepEnd},
		"moved on, open":                {"Done", "open", "c", nil, stepWait},
		"moved on, merged":              {"Done", reconcile.PullMerged, "c", nil, stepEnd},
		"at work without a round, open": {active, "open", "c", nil, stepWait},
		"in review, open":               {handoff, "open", "c", nil, stepLook},
		"in review, merged":             {handoff, reconcile.PullMerged, "c", nil, stepMoveOn},
		"in review, closed":             {handoff, reconcile.PullClosed, "c", nil, stepHold},
		"came back, merged":             {active, reconcile.PullMerged, "c", moved, stepMoveOn},
		"came back, closed":             {active, reconcile.PullClosed, "c", moved, stepHold},
		"died before the move":          {handoff, "open", "c", begun, stepContinue},
		"died after the move":           {active, "open", "c", begun, stepContinue},
		"died, then a push":             {handoff, "open", "d", begun, stepTakeBack},
		"died after the move, a push":   {active, "open", "d", begun, stepWait},
		"waits for an agent":            {active, "open", "c", moved, stepWait},
		"came back, handed over again":  {handoff, "open", "c", moved, stepForget},
	} {
		issue := reconcile.Issue{ID: "id", State: tc.issue}
		if tc.issue == "" {
			issue = reconcile.Issue{}
		}
		w := &reconcile.Watch{Rework: tc.rework}
		w.Pull.State = tc.pull
		w.Pull.Head = tc.head
		test.Equal(t, name, d.nextStep(w, issue), tc.want)
	}
}
