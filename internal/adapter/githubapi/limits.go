package githubapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

// checkLimit returns an error while a limit lasts of which GitHub told this client or another
// process.
func (c *Client) checkLimit(ctx context.Context) error {
	c.mu.Lock()
	until := c.limited
	c.mu.Unlock()
	now := c.Now()
	if c.memory != nil {
		stored, _, err := c.memory.Meta(ctx, transport.LimitKey(c.Prefix))
		if err != nil {
			return err
		}
		ms, _ := strconv.ParseInt(stored, 10, 64) // 0, which is long over, if none is stored
		at := time.UnixMilli(ms).UTC()
		if at.After(until) && !at.After(now.Add(transport.LongestLimit)) {
			until = at
		}
	}
	if now.Before(until) {
		return c.RateLimit(until)
	}
	return nil
}

// reached records the limit of an answer and returns its error.
func (c *Client) reached(ctx context.Context, a transport.Answer) error {
	until := limitEnd(a.Header, c.Now())
	c.mu.Lock()
	if c.limited.Before(until) {
		c.limited = until
	}
	until = c.limited
	c.mu.Unlock()
	if c.memory != nil {
		// The answer may have used up the time of the request.
		ctx = context.WithoutCancel(ctx)
		text := strconv.FormatInt(until.UnixMilli(), 10)
		if err := c.memory.SetMeta(ctx, transport.LimitKey(c.Prefix), text); err != nil {
			const warning = "the end of GitHub's limit is not stored, so that other processes may reach it again: "
			c.WarnOnce(warning + err.Error())
		}
	}
	return c.RateLimit(until)
}

// isLimit reports whether an answer means that the primary or a secondary limit is reached.
// GraphQL reports that with status 200.
func isLimit(a transport.Answer) bool {
	switch a.Status {
	case http.StatusTooManyRequests:
		return true
	case http.StatusForbidden:
		return a.Header.Get("Retry-After") != "" || a.Header.Get("X-RateLimit-Remaining") == "0" ||
			strings.Contains(strings.ToLower(Message(a.Body)), "rate limit")
	case http.StatusOK:
		// Such an answer contains no data and is small. Larger answers are not decoded twice.
		if len(a.Body) > 64<<10 {
			return false
		}
		var env transport.Envelope[json.RawMessage]
		_ = json.Unmarshal(a.Body, &env) // without an object there are no errors
		return slices.ContainsFunc(env.Errors, func(e graphqlError) bool {
			return e.Type == "RATE_LIMITED" || e.Type == "RATE_LIMIT" ||
				strings.Contains(strings.ToLower(e.Message), "secondary rate limit")
		})
	}
	return false
}

// Message returns the message in GitHub's answer to a failed request, with its reasons; empty
// if the answer looks otherwise.
func Message(body []byte) string {
	var said struct {
		Message string
		Errors  []struct{ Message, Field, Code string }
	}
	_ = json.Unmarshal(body, &said)
	for _, e := range said.Errors {
		if reason := cmp.Or(e.Message, strings.TrimSpace(e.Field+" "+e.Code)); reason != "" {
			said.Message += "; " + reason
		}
	}
	return said.Message
}

// limitEnd returns the time of Retry-After, or else the reset of an allowance that is used up,
// or else a minute from now.
func limitEnd(h http.Header, now time.Time) time.Time {
	a := transport.ReadAllowance(h, "")
	if !known(a) || a.Left > 0 {
		a.Reset = time.Time{}
	}
	return transport.LimitEnd(h, now, a.Reset)
}

// known is false if the headers contain no allowance, as in the answers of a gateway.
func known(a transport.Allowance) bool { return a.Limit > 0 && a.Left >= 0 }

// readBudget reads the allowance and the token's scopes in the headers of an answer.
func (c *Client) readBudget(h http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if scopes, has := h["X-Oauth-Scopes"]; has {
		c.classic = true
		c.scopes = strings.FieldsFunc(
			strings.Join(scopes, ","),
			func(r rune) bool { return r == ',' || r == ' ' },
		)
	}
	c.answered.At = c.Now()
	c.answered.ServerTime, _ = http.ParseTime(h.Get("Date"))
	// Searches, for instance, have an allowance of their own, which passes do not use.
	if resource := h.Get("X-RateLimit-Resource"); resource == "" || resource == "core" ||
		resource == "graphql" {
		if a := transport.ReadAllowance(h, ""); known(a) {
			c.allowances[resource] = a
		}
	}
}

// Budget returns the scarcer of the allowances of the two APIs by the headers of the last
// answers.
func (c *Client) Budget() reconcile.Budget {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.answered
	b.Left = 1
	for _, a := range c.allowances {
		if left := a.Left / a.Limit; left < b.Left && (a.Reset.IsZero() || a.Reset.After(b.At)) {
			b.Left = left
			b.Reset = a.Reset
		}
	}
	return b
}

// CheckIssueScope warns if a classic token may not change issues. GitHub does not tell what a
// fine-grained token may do.
func (c *Client) CheckIssueScope() {
	c.checkScope("to change issues it needs repo, or public_repo for public repositories", "repo", "public_repo")
}

// CheckBoardScope warns if a classic token may not change boards.
func (c *Client) CheckBoardScope() {
	c.checkScope("to move issues on the board it needs project", "project")
}

// checkScope warns if a classic token has none of the scopes that something needs.
func (c *Client) checkScope(need string, scopes ...string) {
	c.mu.Lock()
	has := c.scopes
	classic := c.classic
	c.mu.Unlock()
	isThere := func(scope string) bool { return slices.Contains(has, scope) }
	if classic && !slices.ContainsFunc(scopes, isThere) {
		c.WarnOnce(fmt.Sprintf("the GitHub token has the scopes %q: %s", has, need))
	}
}
