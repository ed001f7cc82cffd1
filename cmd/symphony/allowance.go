package main

import (
	"context"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// lowKey is until when the tracker's allowance counts as low: the next pass is another process, and must know
// before it asks.
const lowKey = "tracker_low_until"

// longestLow bounds what a clock that was wrong can do: the tracker's windows are an hour.
const longestLow = 2 * time.Hour

// lowUntil is when the tracker's allowance has filled up again, if less than a tenth of it was left at the last
// answer (design: tracker budget); otherwise a time that is over.
func lowUntil(ctx context.Context, p *project.Project, db *state.DB) (time.Time, error) {
	text, _, err := db.Meta(ctx, lowKey)
	if err != nil || text == "" {
		return time.Time{}, err
	}
	until, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", lowKey, err)
	}
	if until.After(p.Env.Now().Add(longestLow)) {
		return time.Time{}, nil
	}
	return until, nil
}

// saveLow remembers what the tracker has said in this pass, where it was asked, and says so to a person.
func saveLow(ctx context.Context, p *project.Project, db *state.DB, tracker reconcile.Tracker, until time.Time, r *passResult) error {
	v, ok := tracker.(*verified)
	if !ok {
		return nil
	}
	b := v.Budget()
	if !b.At.IsZero() {
		until = time.Time{}
		if v.Low() {
			if until = b.Reset; until.IsZero() {
				until = b.At.Add(time.Hour)
			}
		}
	}
	if r.TrackerLow {
		r.warn("less than a tenth of the tracker's allowance is left: until " + until.UTC().Format(time.RFC3339) + " only what runs is looked at")
	}
	text := ""
	if until.After(p.Env.Now()) {
		text = until.UTC().Format(time.RFC3339)
	}
	return db.SetMeta(ctx, lowKey, text)
}
