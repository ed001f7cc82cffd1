package linear

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

const (
	// maxAnswer is what an agent can do something with; a model's window is smaller.
	maxAnswer = 1 << 20
	// longestWait is how long a call waits, in all, for the allowance to be filled up again, the answers of a slow limiter
	// included: the agent's turn stands still for as long.
	longestWait = time.Minute
	// shortestWait keeps a reset that is always a moment away from being asked for without end.
	shortestWait = 100 * time.Millisecond
)

// Execute sends one GraphQL document as it is, for the agent's tool (specification 10.5). The body is Linear's
// answer; graphqlErrors says that it holds top-level errors, whatever the status they came with. An error is a
// *reconcile.Error as elsewhere: also for a key that is refused and an allowance that is used up.
func (c *Client) Execute(ctx context.Context, query string, variables json.RawMessage) (body json.RawMessage, graphqlErrors bool, err error) {
	var vars any
	if len(variables) > 0 {
		vars = variables
	}
	a, err := c.sendUpTo(ctx, query, vars, maxAnswer)
	if err != nil {
		return nil, false, err
	}
	env, err := c.check(a)
	told := len(env.Errors) > 0 && a.status >= 400 && a.status != http.StatusUnauthorized && a.status != http.StatusForbidden
	if limited := (*RateLimited)(nil); err != nil && (errors.As(err, &limited) || !told) {
		return nil, false, err
	}
	return json.RawMessage(c.scrub(string(a.body))), len(env.Errors) > 0, nil
}

// patiently is Execute that sends again what Linear's limiter turned away, and so did not carry out, where the
// allowance is soon filled up. A reset too far ahead is the agent's to know of.
func (c *Client) patiently(ctx context.Context, query string, variables json.RawMessage) (body json.RawMessage, graphqlErrors bool, err error) {
	for began := time.Now(); ; {
		body, graphqlErrors, err = c.Execute(ctx, query, variables)
		var limited *RateLimited
		if !errors.As(err, &limited) {
			return body, graphqlErrors, err
		}
		pause := max(limited.Reset.Sub(c.now()), shortestWait)
		if time.Since(began)+pause > longestWait {
			return body, graphqlErrors, err
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return body, graphqlErrors, err
		}
	}
}
