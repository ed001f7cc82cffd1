package linear

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

const (
	// resetUnknown is how long a rate limit is taken to last where Linear does not say.
	resetUnknown = time.Minute
	// resetLongest bounds the effect of a wrong clock on either side; Linear's windows are an hour.
	resetLongest = 2 * time.Hour
)

// RateLimited is in the chain of an error with the code tracker_rate_limited.
type RateLimited struct {
	// Reset is when the next request may be made.
	Reset time.Time
}

// Error implements error.
func (r *RateLimited) Error() string {
	return "the allowance is used up until " + r.Reset.UTC().Format(time.RFC3339)
}

// ResetAt implements reconcile.Limited.
func (r *RateLimited) ResetAt() time.Time { return r.Reset }

// Budget is the allowance of the key as the last answer's headers gave it.
func (c *Client) Budget() reconcile.Budget {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.budget
}

// readBudget reads the rate-limit headers. Where they are missing the last values stay: the answers of a gateway have
// none.
func (c *Client) readBudget(h http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := reconcile.Budget{Left: 1, At: c.now()}
	b.ServerTime, _ = http.ParseTime(h.Get("Date"))
	known := false
	for _, kind := range []string{"Requests", "Complexity"} {
		limit, hasLimit := header(h, kind, "Limit")
		remaining, hasRemaining := header(h, kind, "Remaining")
		if !hasLimit || !hasRemaining || limit <= 0 {
			continue
		}
		if left := remaining / limit; !known || left < b.Left {
			b.Left, b.Reset = left, time.Time{}
			if t, ok := epoch(h.Get("X-RateLimit-" + kind + "-Reset")); ok {
				b.Reset = t
			}
		}
		known = true
	}
	if !known && !c.budget.At.IsZero() {
		b.Left, b.Reset = c.budget.Left, c.budget.Reset
	}
	c.budget = b
}

func header(h http.Header, kind, what string) (float64, bool) {
	f, err := strconv.ParseFloat(strings.TrimSpace(h.Get("X-RateLimit-"+kind+"-"+what)), 64)
	return f, err == nil && f >= 0 && f < 1e15
}

// epoch reads a reset header: UTC milliseconds. A number too small for that is taken as seconds.
func epoch(s string) (time.Time, bool) {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || f <= 0 || f > 1e15 {
		return time.Time{}, false
	}
	if f < 1e11 {
		f *= 1000
	}
	return time.UnixMilli(int64(f)).UTC(), true
}

func (c *Client) isRateLimit(a answer, errs []graphqlError) bool {
	if a.status == http.StatusTooManyRequests {
		return true
	}
	for _, e := range errs {
		if e.Extensions.Code == "RATELIMITED" || e.Extensions.Type == "ratelimited" {
			return true
		}
	}
	// A proxy may have removed the body; the headers of a 400 still tell.
	return a.status == http.StatusBadRequest && len(errs) == 0 && len(exhausted(a.header)) > 0
}

func (c *Client) rateLimited(a answer) error {
	now := c.now()
	reset := resetTime(a.header, now)
	return &reconcile.Error{
		Code: "tracker_rate_limited", Class: reconcile.ClassTracker,
		Message: fmt.Sprintf("Linear's allowance is used up until %s", reset.UTC().Format(time.RFC3339)),
		Hint:    "run passes less often, or give symphony a key of its own; no request is made until then",
		Err:     &RateLimited{Reset: reset},
	}
}

// resetTime is Retry-After if given, else the latest reset among the allowances that are used up, else the latest of
// all.
func resetTime(h http.Header, now time.Time) time.Time {
	reset, ok := retryAfter(h.Get("Retry-After"), now)
	if !ok {
		kinds := exhausted(h)
		if len(kinds) == 0 {
			kinds = limitKinds
		}
		for _, k := range kinds {
			if t, named := epoch(h.Get("X-RateLimit-" + k + "-Reset")); named && t.After(reset) {
				reset = t
			}
		}
	}
	switch {
	case !reset.After(now):
		return now.Add(resetUnknown)
	case reset.After(now.Add(resetLongest)):
		return now.Add(resetLongest)
	}
	return reset
}

var limitKinds = []string{"Requests", "Complexity", "Endpoint-Requests"}

func exhausted(h http.Header) []string {
	var kinds []string
	for _, k := range limitKinds {
		if left, ok := header(h, k, "Remaining"); ok && left == 0 {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

func retryAfter(s string, now time.Time) (time.Time, bool) {
	if s == "" {
		return time.Time{}, false
	}
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		if n < 0 || n > 1e9 {
			return time.Time{}, false
		}
		return now.Add(time.Duration(n * float64(time.Second))), true
	}
	t, err := http.ParseTime(s)
	return t, err == nil
}
