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
	pull.Checks.List = []reconcile.Check{{Name: "lint", State: reconcile.CheckFailure, Run: 7}}
	tries := 0
	moved := 0
	forge := &reconcile.Forge{
		Number: func(string) (int, bool) { return 1, true },
		Read: func(context.Context, []int) (map[int]reconcile.Pull, error) {
			return map[int]reconcile.Pull{1: pull}, nil
		},
		ReadChecks: func(context.Context, string) (reconcile.Checks, error) { return reconcile.Checks{}, nil },
		Rerun: func(context.Context, int64) error {
			tries++
			if tries > 3 {
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
		test.Equal(t, "tries", tries, min(pass+1, 4))
		test.Equal(t, "moved", moved, 0)
	}
	now = now.Add(3 * time.Minute) // the forge has not shown the job at work meanwhile
	w.Pass(ctx)
	test.Equal(t, "moved", moved, 1)
}
