package github

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// statesAfter returns the states to which a call of the agent's tool moves its issue.
func (c *Client) statesAfter(ctx context.Context, issue reconcile.Issue, in toolCall) ([]string, error) {
	if in.method == http.MethodGet {
		return nil, nil
	}
	var body map[string]json.RawMessage // by exact names, as GitHub reads them
	_ = json.Unmarshal(in.body, &body)  // or a list of labels
	if in.target.rule == itemRule {
		return c.columnsIn(ctx, body["fields"])
	}
	below, ofIssue := in.target.belowIssue()
	if !ofIssue {
		return c.renamedState(in, body), nil
	}
	state := textOf(body["state"])
	if below == "" && state == "closed" {
		return []string{state}, nil
	}
	if c.o.Project != "" { // labels are no states
		return nil, nil
	}
	return c.labelledState(ctx, issue.ID, in, below, body["labels"])
}

// labelledState returns the state of the issue after a change of its labels. given are the
// labels in a change of the issue itself.
func (c *Client) labelledState(
	ctx context.Context,
	id string,
	in toolCall,
	below string,
	given json.RawMessage,
) ([]string, error) {
	removed, removes := strings.CutPrefix(below, "labels/")
	changesIssue := below == "" && given != nil
	if below != "labels" && !removes && !changesIssue {
		return nil, nil
	}
	found, err := c.ByIDs(ctx, []string{id}) // the agent may have changed them in this turn
	if err != nil {
		return nil, err
	}
	labels := found[id].Labels
	named := labelNames(cmp.Or(string(given), string(in.body)))
	switch {
	case removes:
		labels = text.Filter(labels, func(l string) bool { return !reconcile.SameState(l, removed) })
	case in.method == http.MethodPost:
		labels = slices.Concat(labels, named)
	case in.method == http.MethodDelete:
		labels = nil
	default:
		labels = named
	}
	has := func(state string) bool {
		return slices.ContainsFunc(labels, func(l string) bool { return reconcile.SameState(l, state) })
	}
	return []string{cmp.Or(text.First(c.o.StateLabels, has), "open")}, nil
}

// renamedState returns the new name of a label if its old or its new name is a state: the
// issue may have the label.
func (c *Client) renamedState(in toolCall, body map[string]json.RawMessage) []string {
	label, ofLabel := strings.CutPrefix(in.target.below, "labels/")
	name := textOf(body["new_name"])
	isState := func(l string) bool {
		return reconcile.SameState(l, label) || reconcile.SameState(l, name)
	}
	if !ofLabel || name == "" || !slices.ContainsFunc(c.o.StateLabels, isState) {
		return nil
	}
	return []string{name}
}

// columnsIn returns the columns of the board that a change of the issue's item names. A column
// that the board does not have counts as a state of its id.
func (c *Client) columnsIn(ctx context.Context, fields json.RawMessage) ([]string, error) {
	var list []struct {
		ID    json.Number     `json:"id"`
		Value json.RawMessage `json:"value"`
	}
	_ = json.Unmarshal(fields, &list) // GitHub refuses any other form
	board, err := c.columns(ctx)
	if err != nil {
		return nil, err
	}
	var states []string
	for _, f := range list {
		if f.ID.String() != fmt.Sprint(board.field.ID) {
			continue
		}
		id := textOf(f.Value) // empty for null, which takes the issue out of its column
		column := text.First(board.field.Options, func(o option) bool { return id == o.ID })
		states = append(states, cmp.Or(column.Name, id, "open"))
	}
	return states, nil
}

// textOf returns a text; "" for anything else.
func textOf(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}

// labelNames are the names in a body: a single text, or a list of texts or of objects with a
// name; or an object with either.
func labelNames(raw string) []string {
	var object struct{ Labels json.RawMessage }
	if json.Unmarshal([]byte(raw), &object) == nil {
		raw = string(object.Labels)
	}
	single := textOf(json.RawMessage(raw))
	if single != "" {
		return []string{single}
	}
	var list []json.RawMessage
	_ = json.Unmarshal([]byte(raw), &list) // GitHub refuses any other form
	return text.Map(list, func(one json.RawMessage) string {
		var named struct{ Name string }
		_ = json.Unmarshal(one, &named)
		return cmp.Or(textOf(one), named.Name)
	})
}
