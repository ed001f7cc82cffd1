package linear

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

// strangeHint is the hint of an error without one.
const strangeHint = "see the message: a proxy may have changed the request or the answer, or Linear's API has changed"

const keyHint = "check the Linear API key: it must be valid, not revoked, and its user must see the project"

type graphqlError struct {
	Message    string `json:"message"`
	Path       []any  `json:"path"`
	Extensions struct {
		Code    string `json:"code"`
		Type    string `json:"type"`
		Present string `json:"userPresentableMessage"`
	} `json:"extensions"`
}

// errNotFound is wrapped by the error of a request for an entity that does not exist, errServer if Linear failed (HTTP 5xx) and
// may have executed the request.
var (
	errNotFound = errors.New("no such entity")
	errServer   = errors.New("the server failed")
)

func (c *Client) fail(code, message string) error {
	return &reconcile.Error{Code: code, Message: c.scrub(message), Class: reconcile.ClassTracker, Hint: strangeHint}
}

// scrub removes the key from text that was received.
func (c *Client) scrub(s string) string { return transport.Scrub(s, c.key, "[key]") }

// short returns the beginning of a body, on one line.
func (c *Client) short(body []byte) string { return transport.Short(body, c.scrub) }

// refusal returns the error of an answer with GraphQL errors, or with an HTTP status other than 200.
func (c *Client) refusal(a answer, errs []graphqlError) error {
	said := c.short(a.body)
	if len(errs) > 0 {
		said = messages(errs)
	}
	e := &reconcile.Error{Code: "linear_graphql_errors", Class: reconcile.ClassTracker, Message: c.scrub(said), Hint: strangeHint}
	if a.status != http.StatusOK {
		e.Code, e.Message = "linear_api_status", c.scrub("HTTP "+strconv.Itoa(a.status)+": "+said)
	}
	switch {
	case a.status == http.StatusUnauthorized || a.status == http.StatusForbidden || slices.ContainsFunc(errs, ofKey):
		e.Hint = c.keyHint
	case slices.ContainsFunc(errs, ofMissingEntity):
		e.Err = errNotFound
	case a.status >= 300 && a.status < 400:
		e.Hint = "the endpoint redirects, and the key is not sent elsewhere: set tracker.endpoint to the final URL"
	case a.status >= 500:
		e.Hint, e.Err = "Linear has an internal error; the next pass asks again", errServer
	case a.status == http.StatusOK || a.status == http.StatusBadRequest:
		e.Err = reconcile.ErrRejected
	}
	return e
}

// messages joins the messages of the first three errors.
func messages(errs []graphqlError) string {
	var list []string
	for _, e := range errs[:min(3, len(errs))] {
		message := cmp.Or(strings.TrimSpace(e.Message), strings.TrimSpace(e.Extensions.Code), "an error without a message")
		if p := e.Extensions.Present; p != "" && p != message {
			message += " (" + p + ")"
		}
		list = append(list, transport.OneLine(message))
	}
	if more := len(errs) - len(list); more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, "; ")
}

func ofKey(e graphqlError) bool {
	return e.Extensions.Code == "AUTHENTICATION_ERROR" || e.Extensions.Code == "FORBIDDEN" ||
		e.Extensions.Type == "authentication error" || strings.Contains(e.Message, "API key as a Bearer token")
}

// ofMissingEntity reports whether the error is Linear's "Entity not found". Its code is the general INPUT_ERROR, so the message
// decides.
func ofMissingEntity(e graphqlError) bool { return strings.HasPrefix(e.Message, "Entity not found") }

func ofRateLimit(e graphqlError) bool {
	return e.Extensions.Code == "RATELIMITED" || e.Extensions.Type == "ratelimited"
}

const (
	// resetUnknown is how long a rate limit is assumed to last if Linear does not say.
	resetUnknown = time.Minute
	// resetLongest bounds the effect of a wrong clock on either side; Linear's windows are an hour.
	resetLongest = 2 * time.Hour
)

// RateLimited is wrapped by an error with the code tracker_rate_limited.
type RateLimited struct {
	// Reset is when the next request may be made.
	Reset time.Time
}

// Error implements error.
func (r *RateLimited) Error() string {
	return "Linear's allowance is used up until " + r.Reset.UTC().Format(time.RFC3339)
}

// ResetAt implements reconcile.Limited.
func (r *RateLimited) ResetAt() time.Time { return r.Reset }

// Budget returns the allowance of the key by the headers of the last answer.
func (c *Client) Budget() reconcile.Budget {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.budget
}

// readBudget reads the rate-limit headers. If they are missing, as in the answers of a gateway, the last values stay.
func (c *Client) readBudget(h http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := reconcile.Budget{Left: 1, At: c.now()}
	b.ServerTime, _ = http.ParseTime(h.Get("Date"))
	if !c.budget.At.IsZero() {
		b.Left, b.Reset = c.budget.Left, c.budget.Reset
	}
	scarcest := math.Inf(1)
	for _, a := range allowances(h)[:2] { // without the allowances of single endpoints
		if left := a.left / a.limit; a.limit > 0 && left < scarcest {
			scarcest, b.Left, b.Reset = left, left, a.reset
		}
	}
	c.budget = b
}

// allowance is one kind of allowance by the headers. Numbers that they do not contain are NaN.
type allowance struct {
	limit, left float64
	reset       time.Time
}

func exhausted(a allowance) bool { return a.left == 0 }

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
		switch reset := number("Reset"); { // milliseconds since 1970; a number too small for that counts as seconds
		case reset >= 1e11:
			a.reset = time.UnixMilli(int64(reset)).UTC()
		case reset > 0:
			a.reset = time.UnixMilli(int64(reset * 1000)).UTC()
		}
		list = append(list, a)
	}
	return list
}

func isRateLimit(a answer, errs []graphqlError) bool {
	// A proxy may have removed the body. The headers of a 400 then show the rate limit.
	return a.status == http.StatusTooManyRequests || slices.ContainsFunc(errs, ofRateLimit) ||
		a.status == http.StatusBadRequest && len(errs) == 0 && slices.ContainsFunc(allowances(a.header), exhausted)
}

func (c *Client) rateLimited(a answer) error {
	limited := &RateLimited{Reset: resetTime(a.header, c.now())}
	return &reconcile.Error{
		Code: "tracker_rate_limited", Class: reconcile.ClassTracker, Message: limited.Error(),
		Hint: "run passes less often, or use a separate key for symphony; no request is made until then", Err: limited,
	}
}

// resetTime returns the time of Retry-After, or else the latest reset of the allowances that are used up, or else the latest of
// all allowances.
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
