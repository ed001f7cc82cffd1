package pass

import (
	"context"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// saveLow remembers until when the tracker's allowance is low, and warns of it. until is what earlier passes knew.
func saveLow(ctx context.Context, p *project.Project, db *state.DB, tracker *reconcile.TrackerAdapter, until time.Time, r *Result) error {
	if tracker == nil || tracker.Budget == nil {
		return nil
	}
	if b := tracker.Budget(); !b.At.IsZero() {
		until = b.LowUntil()
	}
	if r.TrackerLow {
		r.warn("less than a tenth of the tracker's allowance is left: until " + until.UTC().Format(time.RFC3339) + " only what runs is looked at")
	}
	text := ""
	if until.After(p.Env.Now()) {
		text = until.UTC().Format(time.RFC3339)
	}
	return db.SetMeta(ctx, project.LowKey, text)
}
