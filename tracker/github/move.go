package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// change is a request that is a part of a move.
type change struct {
	method, path string
	body         any // nil for none
}

func same(a, b string) bool { return reconcile.NormalizeState(a) == reconcile.NormalizeState(b) }

// Move makes the changes after which names.state returns the state. After each of them the issue is in the old state or in the new one, so
// that a move that failed can be repeated. The error wraps reconcile.ErrGone if the issue does not exist.
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
		return c.Fail("github_unknown_payload", fmt.Sprintf("issue %q is malformed: %s", issueID, r.Malformed))
	case same(c.state(*r), state):
		return nil
	}
	changes, err := c.changesTo(ctx, *r, state)
	if err != nil {
		return err
	}
	for _, next := range changes {
		var e *reconcile.Error
		_, err := c.do(ctx, next.method, next.path, nil, next.body)
		if errors.As(err, &e) && e.Status == http.StatusNotFound { // the issue was there: GitHub hides what the token may not change
			e.Hint, e.Err = c.CheckKey, nil
		}
		if err != nil {
			return c.ofIssue(issueID, err)
		}
	}
	return nil
}

// changesTo returns what moves an issue to a state. A closed issue is opened at the end, because until then it is closed whatever
// labels and column it has.
func (c *Client) changesTo(ctx context.Context, r record, state string) (changes []change, err error) {
	path := fmt.Sprintf("/repos/%s/issues/%d", r.Repo, r.Number)
	set := func(state string) change {
		return change{http.MethodPatch, path, map[string]string{"state": state}}
	}
	switch {
	case same(state, "closed"):
		return []change{set("closed")}, nil
	case c.o.Project != "":
		changes, err = c.columnTo(ctx, r, state)
	default:
		changes, err = c.labelsTo(r, path, state)
	}
	if r.Closed {
		changes = append(changes, set("open"))
	}
	return changes, err
}

// labelsTo returns the changes of labels. The label of the new state comes first, and that of the old one goes last: the first of
// StateLabels that an issue has is its state.
func (c *Client) labelsTo(r record, path, state string) (changes []change, err error) {
	to := text.First(c.o.StateLabels, func(l string) bool { return same(l, state) })
	switch {
	case to == "" && !same(state, "open"):
		return nil, reconcile.NoState(strings.Join(c.o.Repositories, ", "), state, append([]string{"open", "closed"}, c.o.StateLabels...))
	case to != "" && !r.has(to):
		changes = append(changes, change{http.MethodPost, path + "/labels", map[string]any{"labels": []string{to}}})
	}
	for _, other := range slices.Backward(c.o.StateLabels) {
		// GitHub compares the name of a label that is removed exactly.
		if has := text.First(r.spelled, func(l string) bool { return same(l, other) }); has != "" && !same(other, to) {
			changes = append(changes, change{method: http.MethodDelete, path: path + "/labels/" + url.PathEscape(has)})
		}
	}
	return changes, nil
}

// columnTo returns the change of the column on the board. In the state open an issue has none.
func (c *Client) columnTo(ctx context.Context, r record, state string) ([]change, error) {
	field, err := c.statusField(ctx, new(reconcile.TrackerProject))
	if err != nil {
		return nil, err
	}
	column := text.OrNull(text.First(field.Options, func(o option) bool { return same(o.Name, state) }).ID)
	switch {
	case column == nil && !same(state, "open"):
		return nil, reconcile.NoState(c.Scrub("the project "+c.o.Project), state, append(field.names(), "open", "closed"))
	case r.item == nil && column == nil:
		return nil, nil
	case r.item == nil:
		return nil, c.offBoard(r)
	}
	values := []map[string]any{{"id": field.ID, "value": column}}
	return []change{{http.MethodPatch, boardOf(c.o.Project) + "/items/" + r.item.ID.String(), map[string]any{"fields": values}}}, nil
}

// offBoard returns the error of an issue that has no column, because it is not on the board.
func (c *Client) offBoard(r record) error {
	id, _ := c.called(r.Repo, r.Number)
	return &reconcile.Error{
		Code: "issue_not_found", Message: c.Scrub(fmt.Sprintf("issue %q is not on the project %s", id, c.o.Project)),
		Hint: "add it to the project", Err: reconcile.ErrGone,
	}
}
