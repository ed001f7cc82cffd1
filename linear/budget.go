package linear

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Budget is what Linear said, in the headers of its last answer, about the allowance of the key. A limit of 0
// means that it said nothing.
type Budget struct {
	RequestsLimit       int64     `json:"requests_limit"`
	RequestsRemaining   int64     `json:"requests_remaining"`
	RequestsReset       time.Time `json:"requests_reset"`
	ComplexityLimit     int64     `json:"complexity_limit"`
	ComplexityRemaining int64     `json:"complexity_remaining"`
	ComplexityReset     time.Time `json:"complexity_reset"`
	// LastComplexity is the price of the last request in points.
	LastComplexity int64 `json:"last_complexity"`
	// Reset is when the scarcer of the two allowances is full again; zero where Linear did not say.
	Reset time.Time `json:"reset"`
	// At is when the answer came.
	At time.Time `json:"at"`
}

// Low reports whether less than a tenth of either allowance is left (design: tracker budget).
func (b Budget) Low() bool {
	return scarce(b.RequestsRemaining, b.RequestsLimit) || scarce(b.ComplexityRemaining, b.ComplexityLimit)
}

func scarce(remaining, limit int64) bool { return limit > 0 && remaining*10 < limit }

// Low implements reconcile.Tracker. What was said is true only until the allowance has filled up again: a loop that
// asks nothing while it is low would stay low for ever.
func (c *Client) Low() bool {
	b := c.Budget()
	until := b.Reset
	if until.IsZero() {
		until = b.At.Add(time.Hour)
	}
	return b.Low() && c.now().Before(until)
}

// Budget is the allowance at the last answer.
func (c *Client) Budget() Budget {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.budget
}

// note reads the rate-limit headers. Those that an answer leaves out keep their last value, because answers
// made before Linear's own limiter (a gateway's 5xx) carry none.
func (c *Client) note(h http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := &c.budget
	b.At = c.now()
	number(h, "X-Complexity", &b.LastComplexity)
	number(h, "X-RateLimit-Requests-Limit", &b.RequestsLimit)
	number(h, "X-RateLimit-Requests-Remaining", &b.RequestsRemaining)
	number(h, "X-RateLimit-Complexity-Limit", &b.ComplexityLimit)
	number(h, "X-RateLimit-Complexity-Remaining", &b.ComplexityRemaining)
	if t, ok := epoch(h.Get("X-RateLimit-Requests-Reset")); ok {
		b.RequestsReset = t
	}
	if t, ok := epoch(h.Get("X-RateLimit-Complexity-Reset")); ok {
		b.ComplexityReset = t
	}
	b.Reset = b.RequestsReset
	if share(b.ComplexityRemaining, b.ComplexityLimit) < share(b.RequestsRemaining, b.RequestsLimit) {
		b.Reset = b.ComplexityReset
	}
}

func share(remaining, limit int64) float64 {
	if limit <= 0 {
		return 2 // more than anything known
	}
	return float64(remaining) / float64(limit)
}

func number(h http.Header, name string, to *int64) {
	s := strings.TrimSpace(h.Get(name))
	if s == "" {
		return
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && f >= 0 && f < 1e15 {
		*to = int64(f)
	}
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
	// A proxy may have taken the body away; the headers of a 400 still tell.
	return a.status == http.StatusBadRequest && len(errs) == 0 && len(exhausted(a.header)) > 0
}

func (c *Client) rateLimited(a answer) error {
	now := c.now()
	reset := resetTime(a.header, now)
	return &reconcile.Error{
		Code:    "tracker_rate_limited",
		Message: fmt.Sprintf("Linear's allowance is used up until %s", reset.UTC().Format(time.RFC3339)),
		Hint:    "run passes less often, or give symphony a key of its own; nothing is asked until then",
		Err:     &RateLimited{Reset: reset},
	}
}

// resetTime is Retry-After where there is one, else the latest reset among the allowances that are used up, else
// the latest that is named at all.
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
		if f, err := strconv.ParseFloat(h.Get("X-RateLimit-"+k+"-Remaining"), 64); err == nil && f <= 0 {
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
