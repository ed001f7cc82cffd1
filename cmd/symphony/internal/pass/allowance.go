package pass

import (
	"context"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// saveLow remembers what the tracker has said in this pass, where it was asked, and says so to a person.
func saveLow(ctx context.Context, p *project.Project, db *state.DB, tracker reconcile.Tracker, until time.Time, r *Result) error {
	v, ok := tracker.(*project.Verified)
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
	return db.SetMeta(ctx, project.LowKey, text)
}
