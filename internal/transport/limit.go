package transport

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

const (
	// limitUnknown is how long a rate limit is assumed to last if the tracker does not say.
	limitUnknown = time.Minute
	// LongestLimit bounds the effect of a wrong clock on either side; the windows of trackers are an hour.
	LongestLimit = 2 * time.Hour
	// longestWait bounds how long a call of an agent's tool waits for the end of a limit, because the agent's turn is suspended
	// meanwhile. shortestWait separates the repetitions if the tracker keeps announcing an immediate end.
	longestWait  = time.Minute
	shortestWait = 100 * time.Millisecond
)

// RateLimited is wrapped by an error with the code tracker_rate_limited.
type RateLimited struct {
	// Reset is when the next request may be made.
	Reset   time.Time
	limited string // what is so until then
}

// Error implements error.
func (r *RateLimited) Error() string {
	return r.limited + " until " + r.Reset.UTC().Format(time.RFC3339)
}

// ResetAt implements reconcile.Limited.
func (r *RateLimited) ResetAt() time.Time { return r.Reset }

// RateLimit returns the error of a limit.
func (s Service) RateLimit(until time.Time) error {
	limited := &RateLimited{Reset: until, limited: s.Limited}
	return &reconcile.Error{
		Code: "tracker_rate_limited", Class: reconcile.ClassTracker, Message: limited.Error(), Err: limited,
		Hint: "run passes less often, or use a separate " + s.Separate + " for symphony; no request is made until then",
	}
}

// LimitEnd returns the time of Retry-After, or else the announced one, but a plausible time after now.
func LimitEnd(h http.Header, now, announced time.Time) time.Time {
	end, value := announced, h.Get("Retry-After")
	if n, err := strconv.ParseFloat(value, 64); err == nil && n >= 0 {
		end = now.Add(time.Duration(min(n, 1e9) * float64(time.Second)))
	} else if at, err := http.ParseTime(value); err == nil {
		end = at
	}
	switch {
	case !end.After(now):
		return now.Add(limitUnknown)
	case end.After(now.Add(LongestLimit)):
		return now.Add(LongestLimit)
	}
	return end
}

// Patiently calls ask, and again at the end of a rate limit of which its error tells, if that comes soon.
func (c *Client) Patiently(ctx context.Context, ask func() error) error {
	for began := time.Now(); ; {
		err := ask()
		var limited *RateLimited
		if !errors.As(err, &limited) {
			return err
		}
		pause := max(limited.Reset.Sub(c.Now()), shortestWait)
		if time.Since(began)+pause > longestWait {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}
