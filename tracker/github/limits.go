package github

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

const (
	// limitKey is where Memory has the end of a limit, in milliseconds since 1970.
	limitKey = "github_limit"
	// limitUnknown is how long a limit is assumed to last if GitHub does not say: the least that GitHub asks for.
	limitUnknown = time.Minute
	// limitLongest bounds the effect of a wrong clock on either side, and of a wrong entry; GitHub's windows are an hour.
	limitLongest = 2 * time.Hour
)

// RateLimited is wrapped by an error with the code tracker_rate_limited.
type RateLimited struct {
	// Reset is when the next request may be made.
	Reset time.Time
}

// Error implements error.
func (r *RateLimited) Error() string {
	return "GitHub accepts no more requests of this account until " + r.Reset.UTC().Format(time.RFC3339)
}

// ResetAt implements reconcile.Limited.
func (r *RateLimited) ResetAt() time.Time { return r.Reset }

func rateLimited(until time.Time) error {
	limited := &RateLimited{Reset: until}
	return &reconcile.Error{
		Code: "tracker_rate_limited", Class: reconcile.ClassTracker, Message: limited.Error(),
		Hint: "run passes less often, or use a separate account for symphony; no request is made until then", Err: limited,
	}
}

// mayAsk returns an error while a limit lasts that this client or another process was told.
func (c *Client) mayAsk(ctx context.Context) error {
	c.mu.Lock()
	until := c.limited
	c.mu.Unlock()
	now := c.now()
	if c.o.Memory != nil {
		stored, _, err := c.o.Memory.Meta(ctx, limitKey)
		if err != nil {
			return err
		}
		ms, err := strconv.ParseInt(stored, 10, 64)
		if at := time.UnixMilli(ms).UTC(); err == nil && at.After(until) && !at.After(now.Add(limitLongest)) {
			until = at
		}
	}
	if now.Before(until) {
		return rateLimited(until)
	}
	return nil
}

// reached records the limit of an answer and returns its error.
func (c *Client) reached(ctx context.Context, a answer) error {
	until := limitEnd(a.header, c.now())
	c.mu.Lock()
	if c.limited.Before(until) {
		c.limited = until
	}
	until = c.limited
	c.mu.Unlock()
	if c.o.Memory != nil {
		// The answer may have used up the time of the request.
		if err := c.o.Memory.SetMeta(context.WithoutCancel(ctx), limitKey, strconv.FormatInt(until.UnixMilli(), 10)); err != nil {
			return err
		}
	}
	return rateLimited(until)
}

// isLimit reports whether an answer says that the primary or a secondary limit is reached. GraphQL says so with status 200.
func isLimit(a answer) bool {
	switch a.status {
	case http.StatusTooManyRequests:
		return true
	case http.StatusForbidden:
		return a.header.Get("Retry-After") != "" || a.header.Get("X-RateLimit-Remaining") == "0" ||
			strings.Contains(strings.ToLower(message(a.body)), "rate limit")
	case http.StatusOK:
		// Such an answer has no data and is small. Larger ones are not decoded twice.
		if len(a.body) > 64<<10 {
			return false
		}
		var env struct {
			Errors []graphqlError `json:"errors"`
		}
		_ = json.Unmarshal(a.body, &env) // no object has no errors
		return slices.ContainsFunc(env.Errors, func(e graphqlError) bool {
			return e.Type == "RATE_LIMITED" || e.Type == "RATE_LIMIT" || strings.Contains(strings.ToLower(e.Message), "secondary rate limit")
		})
	}
	return false
}

// message returns what GitHub's answer to a failed request says; empty if it has another shape.
func message(body []byte) string {
	var said struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(body, &said)
	return said.Message
}

// limitEnd returns the time of Retry-After, or else the reset of an allowance that is used up, or else a minute from now.
func limitEnd(h http.Header, now time.Time) time.Time {
	end, ok := retryAfter(h.Get("Retry-After"), now)
	if a, known := allowanceOf(h); !ok && known && a.left == 0 {
		end = a.reset
	}
	switch {
	case !end.After(now):
		return now.Add(limitUnknown)
	case end.After(now.Add(limitLongest)):
		return now.Add(limitLongest)
	}
	return end
}

func retryAfter(s string, now time.Time) (time.Time, bool) {
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		return now.Add(time.Duration(min(n, 1e9) * float64(time.Second))), n >= 0
	}
	t, err := http.ParseTime(s)
	return t, err == nil
}

// allowance is one of GitHub's primary limits by the headers of an answer.
type allowance struct {
	limit, left float64
	reset       time.Time
}

// allowanceOf is false if the headers contain no allowance, as in the answers of a gateway.
func allowanceOf(h http.Header) (allowance, bool) {
	number := func(what string) float64 {
		f, err := strconv.ParseFloat(strings.TrimSpace(h.Get("X-RateLimit-"+what)), 64)
		if err != nil || f < 0 || f > 1e12 {
			return math.NaN()
		}
		return f
	}
	a := allowance{limit: number("Limit"), left: number("Remaining")}
	if reset := number("Reset"); reset > 0 {
		a.reset = time.Unix(int64(reset), 0).UTC()
	}
	return a, a.limit > 0 && a.left >= 0
}

// readBudget reads the allowance and the token's scopes in the headers of an answer.
func (c *Client) readBudget(h http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if scopes, has := h["X-Oauth-Scopes"]; has {
		c.classic, c.scopes = true, strings.FieldsFunc(strings.Join(scopes, ","), func(r rune) bool { return r == ',' || r == ' ' })
	}
	c.answered.At = c.now()
	c.answered.ServerTime, _ = http.ParseTime(h.Get("Date"))
	// Searches, for instance, have an allowance of their own, which passes do not use.
	if resource := h.Get("X-RateLimit-Resource"); resource == "" || resource == "core" || resource == "graphql" {
		if a, ok := allowanceOf(h); ok {
			c.allowances[resource] = a
		}
	}
}

// Budget returns the scarcer of the allowances of the two APIs by the headers of the last answers.
func (c *Client) Budget() reconcile.Budget {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.answered
	b.Left = 1
	for _, a := range c.allowances {
		if left := a.left / a.limit; left < b.Left && (a.reset.IsZero() || a.reset.After(b.At)) {
			b.Left, b.Reset = left, a.reset
		}
	}
	return b
}
