package wiring

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// againPause is the time before a failed read is tried again.
const againPause = 200 * time.Millisecond

// again is a tracker whose reads are tried once more after a fault that may have passed: a
// connection that broke, an answer of a proxy, a server that restarts. A refusal of the
// tracker, a rate limit, and a request that already took too long are not tried again.
type again struct{ reconcile.Tracker }

// ByIDs implements reconcile.Tracker.
func (a again) ByIDs(ctx context.Context, ids []string) (map[string]reconcile.Issue, error) {
	found, err := a.Tracker.ByIDs(ctx, ids)
	if !mayPass(err) || !Sleep(ctx, againPause) {
		return found, err
	}
	return a.Tracker.ByIDs(ctx, ids)
}

// Candidates implements reconcile.Tracker.
func (a again) Candidates(ctx context.Context, states []string) ([]reconcile.Issue, error) {
	found, err := a.Tracker.Candidates(ctx, states)
	if !mayPass(err) || !Sleep(ctx, againPause) {
		return found, err
	}
	return a.Tracker.Candidates(ctx, states)
}

// mayPass reports whether a read that failed with an error may succeed a moment later.
func mayPass(err error) bool {
	var known *reconcile.Error
	if !errors.As(err, &known) || errors.Is(err, reconcile.ErrRejected) {
		return false
	}
	var limited reconcile.Limited
	var network net.Error
	if errors.As(err, &limited) || errors.As(err, &network) && network.Timeout() {
		return false
	}
	switch {
	case strings.HasSuffix(known.Code, "_api_status"):
		return known.Status >= http.StatusInternalServerError
	case strings.HasSuffix(known.Code, "_api_request"), strings.HasSuffix(known.Code, "_unknown_payload"):
		return true
	}
	return false
}
