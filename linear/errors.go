package linear

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/internal/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

// refusal returns the error of an answer with GraphQL errors, or with an HTTP status other than 200. It wraps reconcile.ErrGone if an
// entity does not exist.
func (c *Client) refusal(a transport.Answer, errs []graphqlError) error {
	return c.Refusal(a, errs, c.Short(a.Body), ofKey, func(e *reconcile.Error) bool {
		missing := slices.ContainsFunc(errs, ofMissingEntity)
		if missing {
			e.Err = reconcile.ErrGone
		}
		return missing
	})
}

type graphqlError = transport.GraphQLError

func ofKey(e graphqlError) bool {
	return e.Extensions.Code == "AUTHENTICATION_ERROR" || e.Extensions.Code == "FORBIDDEN" ||
		e.Extensions.Type == "authentication error" || strings.Contains(e.Message, "API key as a Bearer token")
}

// ofMissingEntity reports whether the error is Linear's "Entity not found". Its code is the general INPUT_ERROR, so the message decides.
func ofMissingEntity(e graphqlError) bool { return strings.HasPrefix(e.Message, "Entity not found") }

func ofRateLimit(e graphqlError) bool {
	return e.Extensions.Code == "RATELIMITED" || e.Extensions.Type == "ratelimited"
}

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
	b := reconcile.Budget{Left: 1, At: c.Now()}
	b.ServerTime, _ = http.ParseTime(h.Get("Date"))
	if !c.budget.At.IsZero() {
		b.Left, b.Reset = c.budget.Left, c.budget.Reset
	}
	scarcest := math.Inf(1)
	for _, a := range allowances(h)[:2] { // without the allowances of single endpoints
		if left := a.Left / a.Limit; a.Limit > 0 && left < scarcest {
			scarcest, b.Left, b.Reset = left, left, a.Reset
		}
	}
	c.budget = b
}

func exhausted(a transport.Allowance) bool { return a.Left == 0 }

func allowances(h http.Header) []transport.Allowance {
	kinds := []string{"Requests-", "Complexity-", "Endpoint-Requests-"}
	return text.Map(kinds, func(kind string) transport.Allowance { return transport.ReadAllowance(h, kind) })
}

func isRateLimit(a transport.Answer, errs []graphqlError) bool {
	// A proxy may have removed the body. The headers of a 400 then show the rate limit.
	return a.Status == http.StatusTooManyRequests || slices.ContainsFunc(errs, ofRateLimit) ||
		a.Status == http.StatusBadRequest && len(errs) == 0 && slices.ContainsFunc(allowances(a.Header), exhausted)
}

// limitEnd returns the time of Retry-After, or else the latest reset of the allowances that are used up, or else the latest of all
// allowances.
func limitEnd(h http.Header, now time.Time) time.Time {
	var reset time.Time
	list := allowances(h)
	some := slices.ContainsFunc(list, exhausted)
	for _, a := range list {
		if (exhausted(a) || !some) && a.Reset.After(reset) {
			reset = a.Reset
		}
	}
	return transport.LimitEnd(h, now, reset)
}
