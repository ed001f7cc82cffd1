package linear

import (
	"context"
	_ "embed" // the queries
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

var (
	//go:embed query/state.graphql
	stateQuery string
	//go:embed query/issue_update.graphql
	issueUpdateQuery string
)

// wireState is a state with the id by which a mutation names it.
type wireState struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Move changes the state of an issue to one of its team, in one request to read and one to change. The error wraps reconcile.ErrGone if
// the issue does not exist.
func (c *Client) Move(ctx context.Context, issueID, state string) error {
	same := func(name string) bool { return reconcile.NormalizeState(name) == reconcile.NormalizeState(state) }
	data, err := ask[struct {
		Issue struct {
			State wireState `json:"state"`
			Team  struct {
				Name   string          `json:"name"`
				Named  list[wireState] `json:"named"`  // by Linear's comparison, however many states there are
				States list[wireState] `json:"states"` // the first ones, also for the message
			} `json:"team"`
		} `json:"issue"`
	}](ctx, c, stateQuery, map[string]any{"id": issueID, "name": strings.TrimSpace(state)})
	switch {
	case errors.Is(err, reconcile.ErrGone):
		return c.missing(issueID)
	case err != nil:
		return err
	case data.Issue.State.Name == "":
		return c.Fail("linear_unknown_payload", "the answer contains no state of the issue")
	case same(data.Issue.State.Name):
		return nil
	}
	team := data.Issue.Team
	to := text.First(slices.Concat(team.Named.Nodes, team.States.Nodes), func(s wireState) bool { return same(s.Name) })
	if to.ID == "" {
		names := text.Map(team.States.Nodes, func(s wireState) string { return c.Scrub(s.Name) })
		return reconcile.NoState(c.Scrub(fmt.Sprintf("Linear's team %q", team.Name)), state, names)
	}
	done, err := ask[struct {
		Update struct {
			Success bool `json:"success"`
		} `json:"issueUpdate"`
	}](ctx, c, issueUpdateQuery, map[string]any{"id": issueID, "stateId": to.ID})
	if err == nil && !done.Update.Success {
		err = c.Fail("linear_unknown_payload", "Linear did not move the issue")
	}
	return err
}
