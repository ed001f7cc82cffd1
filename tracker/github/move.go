package github

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// move moves an issue to a state.
type move struct {
	*Client
	issue record
	state string
}

// change is a request that is a part of a move.
type change struct {
	method, path string
	body         any // nil for none
}

// Move makes the changes after which names.state returns the state. After each of them the
// issue is in the old state or in the new one, so that a move that failed can be repeated. The
// error wraps reconcile.ErrGone if the issue does not exist.
func (c *Client) Move(ctx context.Context, issueID, state string) error {
	repo, number, err := c.issueOf(issueID)
	if err != nil {
		return err
	}
	var r *record
	err = c.read(ctx, []ref{{repo, number}}, false, func(_ ref, found *record, _ string) error {
		r = found
		return nil
	})
	switch {
	case err != nil:
		return err
	case r == nil:
		return c.missing(issueID)
	case r.Malformed != "":
		return c.Fail(
			"github_unknown_payload",
			fmt.Sprintf("issue %q is malformed: %s", issueID, r.Malformed),
		)
	case reconcile.SameState(c.state(*r), state):
		return nil
	}
	changes, err := move{c, *r, state}.changes(ctx)
	if err != nil {
		return err
	}
	for _, next := range changes {
		_, err := c.Do(ctx, next.method, next.path, nil, next.body)
		// The issue was there: GitHub hides what the token may not change.
		if e, ok := errors.AsType[*reconcile.Error](err); ok && e.Status == http.StatusNotFound {
			e.Hint = c.CheckKey
			e.Err = nil
		}
		if err != nil {
			return c.ofIssue(issueID, err)
		}
	}
	return nil
}

// changes returns what moves the issue to the state. A closed issue is opened at the end,
// because until then it is closed whatever labels and column it has.
func (m move) changes(ctx context.Context) (changes []change, err error) {
	path := fmt.Sprintf("/repos/%s/issues/%d", m.issue.Repo, m.issue.Number)
	set := func(state string) change {
		return change{http.MethodPatch, path, map[string]string{"state": state}}
	}
	switch {
	case reconcile.SameState(m.state, "closed"):
		return []change{set("closed")}, nil
	case m.o.Project != "":
		changes, err = m.columnChanges(ctx)
	default:
		changes, err = m.labelChanges(path)
	}
	if m.issue.Closed {
		changes = append(changes, set("open"))
	}
	return changes, err
}

// labelChanges returns the changes of labels. The label of the new state comes first, and that
// of the old one goes last: the first of StateLabels that an issue has is its state.
func (m move) labelChanges(path string) (changes []change, err error) {
	to := text.First(m.o.StateLabels, func(l string) bool { return reconcile.SameState(l, m.state) })
	switch {
	case to == "" && !reconcile.SameState(m.state, "open"):
		return nil, reconcile.NoState(
			strings.Join(m.o.Repositories, ", "),
			m.state,
			append([]string{"open", "closed"}, m.o.StateLabels...),
		)
	case to != "" && !m.issue.has(to):
		changes = append(
			changes,
			change{http.MethodPost, path + "/labels", map[string]any{"labels": []string{to}}},
		)
	}
	for _, other := range slices.Backward(m.o.StateLabels) {
		// GitHub compares the name of a label that is removed exactly.
		has := text.First(m.issue.spelled, func(l string) bool { return reconcile.SameState(l, other) })
		if has != "" && !reconcile.SameState(other, to) {
			changes = append(changes, change{
				method: http.MethodDelete,
				path:   path + "/labels/" + url.PathEscape(has),
			})
		}
	}
	return changes, nil
}

// columnChanges returns the change of the column on the board. In the state open an issue has
// none.
func (m move) columnChanges(ctx context.Context) ([]change, error) {
	field, err := m.statusField(ctx, new(reconcile.TrackerProject))
	if err != nil {
		return nil, err
	}
	column := text.OrNull(
		text.First(field.Options, func(o option) bool { return reconcile.SameState(o.Name, m.state) }).ID,
	)
	switch {
	case column == nil && !reconcile.SameState(m.state, "open"):
		return nil, reconcile.NoState(
			m.Scrub("the project "+m.o.Project),
			m.state,
			append(field.names(), "open", "closed"),
		)
	case m.issue.item == nil && column == nil:
		return nil, nil
	case m.issue.item == nil:
		return nil, m.offBoard()
	}
	values := []map[string]any{{"id": field.ID, "value": column}}
	return []change{
		{
			http.MethodPatch,
			boardOf(m.o.Project) + "/items/" + m.issue.item.ID.String(),
			map[string]any{"fields": values},
		},
	}, nil
}

// offBoard returns the error of an issue that has no column, because it is not on the board.
func (m move) offBoard() error {
	id, _ := m.called(m.issue.Repo, m.issue.Number)
	return &reconcile.Error{
		Code:    "issue_not_found",
		Message: m.Scrub(fmt.Sprintf("issue %q is not on the project %s", id, m.o.Project)),
		Hint:    "add it to the project",
		Err:     reconcile.ErrGone,
	}
}

// movesTo returns the states to which a call of the agent's tool moves its issue.
func (t *tool) movesTo(ctx context.Context, issue reconcile.Issue, args json.RawMessage) ([]string, error) {
	in, err := t.read(issue, args)
	if err != nil || in.method == http.MethodGet {
		return nil, nil //nolint:nilerr // the call itself refuses such arguments
	}
	var body map[string]json.RawMessage // by exact names, as GitHub reads them
	_ = json.Unmarshal(in.body, &body)  // or a list of labels
	if in.target.rule == itemRule {
		return t.columnsOf(ctx, body["fields"])
	}
	_, number, err := t.c.issueOf(issue.ID)
	_, rest, ofIssue := strings.Cut(in.target.path, "/issues/")
	first, below, _ := strings.Cut(rest, "/")
	if n, numberErr := strconv.Atoi(first); err != nil || !ofIssue || numberErr != nil || n != number {
		return t.renamed(in, body), err
	}
	if state := textOf(body["state"]); below == "" && state == "closed" {
		return []string{state}, nil
	}
	if t.c.o.Project != "" { // labels are no states
		return nil, nil
	}
	return t.labelledState(ctx, issue.ID, in, below, body["labels"])
}

// labelledState returns the state of the issue after a change of its labels.
func (t *tool) labelledState(
	ctx context.Context,
	id string,
	in toolCall,
	below string,
	given json.RawMessage,
) ([]string, error) {
	removed, removes := strings.CutPrefix(below, "labels/")
	if below != "labels" && !removes && (below != "" || given == nil) {
		return nil, nil
	}
	found, err := t.c.ByIDs(ctx, []string{id}) // the agent may have changed them in this turn
	if err != nil {
		return nil, err
	}
	labels := found[id].Labels
	switch named := labelNames(cmp.Or(string(given), string(in.body))); {
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
	return []string{cmp.Or(text.First(t.c.o.StateLabels, has), "open")}, nil
}

// renamed returns the new name of a label that is a state.
func (t *tool) renamed(in toolCall, body map[string]json.RawMessage) []string {
	_, label, ofLabel := strings.Cut(in.target.path, "/labels/")
	isState := slices.ContainsFunc(
		t.c.o.StateLabels,
		func(l string) bool { return reconcile.SameState(l, label) },
	)
	if name := textOf(body["new_name"]); ofLabel && isState && name != "" {
		return []string{name}
	}
	return nil
}

// columnsOf returns the columns of the board that a change of the issue's item names.
func (t *tool) columnsOf(ctx context.Context, fields json.RawMessage) (states []string, err error) {
	var list []struct {
		ID    json.Number     `json:"id"`
		Value json.RawMessage `json:"value"`
	}
	_ = json.Unmarshal(fields, &list) // GitHub refuses another one
	field, err := t.c.statusField(ctx, new(reconcile.TrackerProject))
	if err != nil {
		return nil, err
	}
	for _, f := range list {
		if f.ID.String() == fmt.Sprint(field.ID) {
			column := text.First(field.Options, func(o option) bool { return textOf(f.Value) == o.ID })
			states = append(states, cmp.Or(column.Name, "open"))
		}
	}
	return states, nil
}

func textOf(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s) // "" for what is no text
	return s
}

// labelNames are the names in a body: a list, or an object with one, of texts or of objects
// with a name.
func labelNames(raw string) []string {
	var object struct{ Labels json.RawMessage }
	if json.Unmarshal([]byte(raw), &object) == nil {
		raw = string(object.Labels)
	}
	var list []json.RawMessage
	_ = json.Unmarshal([]byte(raw), &list) // GitHub refuses what is neither
	return text.Map(list, func(one json.RawMessage) string {
		var named struct{ Name string }
		_ = json.Unmarshal(one, &named)
		return cmp.Or(textOf(one), named.Name)
	})
}
