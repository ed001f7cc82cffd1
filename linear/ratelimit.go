package linear

import (
	"fmt"
	"math"
	"net/http"
	"slices"
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
	if !c.budget.At.IsZero() {
		b.Left, b.Reset = c.budget.Left, c.budget.Reset
	}
	scarcest := math.Inf(1)
	for _, a := range allowances(h)[:2] { // without that of single endpoints
		if left := a.left / a.limit; a.limit > 0 && left < scarcest {
			scarcest, b.Left, b.Reset = left, left, a.reset
		}
	}
	c.budget = b
}

// allowance is what the headers say of one kind of allowance; NaN where they say nothing.
type allowance struct {
	limit, left float64
	reset       time.Time
}

func allowances(h http.Header) (list []allowance) {
	for _, kind := range []string{"Requests", "Complexity", "Endpoint-Requests"} {
		number := func(what string) float64 {
			f, err := strconv.ParseFloat(strings.TrimSpace(h.Get("X-RateLimit-"+kind+"-"+what)), 64)
			if err != nil || f < 0 || f > 1e15 {
				return math.NaN()
			}
			return f
		}
		a := allowance{limit: number("Limit"), left: number("Remaining")}
		switch reset := number("Reset"); { // UTC milliseconds; a number too small for that is taken as seconds
		case reset >= 1e11:
			a.reset = time.UnixMilli(int64(reset)).UTC()
		case reset > 0:
			a.reset = time.UnixMilli(int64(reset * 1000)).UTC()
		}
		list = append(list, a)
	}
	return list
}

func exhausted(a allowance) bool { return a.left == 0 }

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
	return a.status == http.StatusBadRequest && len(errs) == 0 && slices.ContainsFunc(allowances(a.header), exhausted)
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
		list := allowances(h)
		some := slices.ContainsFunc(list, exhausted)
		for _, a := range list {
			if (exhausted(a) || !some) && a.reset.After(reset) {
				reset = a.reset
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

func retryAfter(s string, now time.Time) (time.Time, bool) {
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		return now.Add(time.Duration(min(n, 1e9) * float64(time.Second))), n >= 0
	}
	t, err := http.ParseTime(s)
	return t, err == nil
}
