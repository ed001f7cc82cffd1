package transport

import (
	"context"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// retryPause is the time before a failed read is tried again.
const retryPause = 200 * time.Millisecond

// Retry makes a read, and makes it once more if its fault is momentary: after HTTP 502, for
// instance, but not after HTTP 404.
func Retry[T any](ctx context.Context, read func() (T, error)) (T, error) {
	answer, err := read()
	if !reconcile.Momentary(err) {
		return answer, err
	}
	select {
	case <-ctx.Done():
		return answer, err
	case <-time.After(retryPause):
		return read()
	}
}

// RetryReads returns a tracker that reads by Retry.
func RetryReads(t reconcile.Tracker) reconcile.Tracker { return retrying{t} }

type retrying struct{ reconcile.Tracker }

// ByIDs implements reconcile.Tracker.
func (r retrying) ByIDs(ctx context.Context, ids []string) (map[string]reconcile.Issue, error) {
	return Retry(ctx, func() (map[string]reconcile.Issue, error) { return r.Tracker.ByIDs(ctx, ids) })
}

// Candidates implements reconcile.Tracker.
func (r retrying) Candidates(ctx context.Context, states []string) ([]reconcile.Issue, error) {
	return Retry(ctx, func() ([]reconcile.Issue, error) { return r.Tracker.Candidates(ctx, states) })
}
