package mcpserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// caller sends calls to agents.
type caller struct {
	agents  *agents.Agents
	timeout time.Duration // of the call of a tool
}

// do sends a call to an agent, waits for its end, and decodes its result unless result is nil.
// The hint is for a call that did not end in time.
func (c caller) do(
	ctx context.Context,
	agentID string,
	call reconcile.Call,
	params, result any,
	hint string,
) error {
	call, err := c.agents.Call(ctx, agentID, call, params)
	if err != nil {
		return err
	}
	call, err = c.agents.Await(ctx, call.ID)
	if err != nil {
		return err
	}
	if !call.Ended() {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return ctx.Err()
		}
		return reconcile.NewError(
			agents.CodeTimeout,
			fmt.Sprintf("%s has not ended within %s", call.Verb, text.Took(c.timeout.Milliseconds())),
			hint,
		)
	}
	if err := agents.Failure(call); err != nil || result == nil {
		return err
	}
	if err := json.Unmarshal(call.Result, result); err != nil {
		return fmt.Errorf("result of the call %s: %w", call.ID, err)
	}
	return nil
}

// newID returns an id for something whose client chose none.
func newID() string { return strings.ToLower(rand.Text()[:10]) }

// callID returns the id of a call, such as one.first: an id that a client chooses counts for
// one agent.
func callID(agentID, chosen string) string { return agentID + "." + cmp.Or(chosen, newID()) }

// chosenID returns the id of a call as a client chooses it: first for one.first.
func chosenID(agentID, callID string) string { return strings.TrimPrefix(callID, agentID+".") }
