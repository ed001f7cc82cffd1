package linear

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// wireState is a state with the id by which a mutation names it.
type wireState struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Move changes the state of an issue to a state of its team, with a request to read and a
// request to change. The error wraps reconcile.ErrGone if the issue does not exist.
func (c *Client) Move(ctx context.Context, issueID, state string) error {
	data, err := ask[struct {
		Issue struct {
			State wireState `json:"state"`
			Team  struct {
				Name string `json:"name"`
				// by Linear's comparison, however many states there are
				Named  list[wireState] `json:"named"`
				States list[wireState] `json:"states"` // the first ones, also for the message
			} `json:"team"`
		} `json:"issue"`
	}](ctx, c, document("state"), map[string]any{"id": issueID, "name": strings.TrimSpace(state)})
	if errors.Is(err, reconcile.ErrGone) {
		return c.missing(issueID)
	}
	if err != nil {
		return err
	}
	if data.Issue.State.Name == "" {
		return c.Fail("linear_unknown_payload", "the answer contains no state of the issue")
	}
	if reconcile.SameState(data.Issue.State.Name, state) {
		return nil
	}
	team := data.Issue.Team
	states := slices.Concat(team.Named.Nodes, team.States.Nodes)
	to := text.First(states, func(s wireState) bool { return reconcile.SameState(s.Name, state) })
	if to.ID == "" {
		names := text.Map(team.States.Nodes, func(s wireState) string { return c.Scrub(s.Name) })
		return reconcile.NoState(c.Scrub(fmt.Sprintf("Linear's team %q", team.Name)), state, names)
	}
	done, err := ask[struct {
		Update struct {
			Success bool `json:"success"`
		} `json:"issueUpdate"`
	}](ctx, c, document("issue_update"), map[string]any{"id": issueID, "stateId": to.ID})
	if err != nil {
		return err
	}
	if !done.Update.Success {
		return c.Fail("linear_unknown_payload", "Linear did not move the issue")
	}
	return nil
}

// movesTo returns the states to which a call of the agent's tool moves the issue of its run.
// If it is archived, deleted or taken out of the project, or if the text does not show the
// state, that counts as a state of another name.
func (t *tool) movesTo(ctx context.Context, issue reconcile.Issue, args json.RawMessage) ([]string, error) {
	in, err := readInput(args)
	if err != nil || !in.mutates() {
		return nil, nil //nolint:nilerr // the call itself refuses such arguments
	}
	var states []string
	isUpdate := false
	for _, field := range in.rootFields() {
		switch field {
		case "issueUpdate", "issueBatchUpdate":
			isUpdate = true
		case "issueArchive", "issueDelete":
			states = append(states, field)
		}
	}
	if !isUpdate && states == nil {
		return nil, nil
	}
	if !in.names(issue.ID) && !in.names(issue.Identifier) { // it changes other issues
		return nil, nil
	}
	left := takenAway().FindString(in.unescaped())
	if left != "" {
		states = append(states, left)
	}
	ids, isComplete := in.stateIDs()
	if !isComplete {
		return append(states, "stateId"), nil
	}
	if len(ids) == 0 {
		return states, nil
	}
	data, err := ask[struct {
		States list[wireState] `json:"workflowStates"`
	}](ctx, t.client, document("state_names"), map[string]any{"ids": ids})
	if err != nil {
		return nil, err
	}
	for _, id := range ids { // an id that Linear does not know counts as a name
		known := text.First(data.States.Nodes, func(s wireState) bool { return s.ID == id })
		states = append(states, cmp.Or(known.Name, id))
	}
	return states, nil
}

// takenAway matches inputs by which an issue leaves the project.
var takenAway = text.Pattern(`\b(trashed|teamId|projectId)\b`)

var stateArgument = text.Pattern(`\bstateId\s*:\s*(?:\$(\w+)|"([^"]*)")`)

// stateIDs returns the ids of states that a mutation names in its text or in its variables,
// and whether the list is complete.
func (in input) stateIDs() (ids []string, all bool) {
	var variables map[string]any
	_ = json.Unmarshal(in.variables, &variables) // an object, or nothing
	found := stateArgument().FindAllStringSubmatch(in.query, -1)
	all = len(found) == strings.Count(in.query, "stateId")
	for _, f := range found {
		named, _ := variables[f[1]].(string)
		all = all && named+f[2] != "" // else it is a default in the text
		ids = append(ids, cmp.Or(named, f[2]))
	}
	var walk func(any)
	walk = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			if id, isText := v["stateId"].(string); isText {
				ids = append(ids, id)
			}
			for _, inner := range v {
				walk(inner)
			}
		case []any:
			for _, inner := range v {
				walk(inner)
			}
		}
	}
	walk(variables)
	return text.Filter(text.Unique(ids), func(id string) bool { return id != "" }), all
}
