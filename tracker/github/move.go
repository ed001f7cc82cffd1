package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
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
// issue is in the old state or in the new state, so that a move that failed can be repeated.
// The error wraps reconcile.ErrGone if the issue does not exist.
func (c *Client) Move(ctx context.Context, issueID, state string) error {
	r, err := c.existing(ctx, issueID)
	if err != nil {
		return err
	}
	if r.Malformed != "" {
		return c.Fail(
			"tracker_unknown_payload",
			fmt.Sprintf("issue %q is malformed: %s", issueID, r.Malformed),
		)
	}
	if reconcile.SameState(c.state(*r), state) {
		return nil
	}
	changes, err := move{c, *r, state}.changes(ctx)
	if err != nil {
		return err
	}
	for _, next := range changes {
		_, err := c.Do(ctx, next.method, next.path, nil, next.body)
		if err == nil {
			continue
		}
		// The issue was there: GitHub hides objects that the token may not change.
		if e, ok := errors.AsType[*reconcile.Error](err); ok && e.Status == http.StatusNotFound {
			e.Hint = c.CheckKey
			e.Err = transport.ErrKey
		}
		return c.OfIssue(issueID, err)
	}
	return nil
}

// existing reads an issue. The error wraps reconcile.ErrGone if it does not exist, or was
// transferred to another repository.
func (c *Client) existing(ctx context.Context, issueID string) (*record, error) {
	at, err := c.IssueOf(issueID)
	if err != nil {
		return nil, err
	}
	var r *record
	err = c.read(ctx, []ref{at}, nil, func(_ ref, found *record, _ string) error {
		r = found
		return nil
	})
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, c.Missing(issueID)
	}
	return r, nil
}

// changes returns the changes that move the issue to the state. A closed issue is opened at
// the end, because until then it is closed whatever its labels and its column are.
func (m move) changes(ctx context.Context) ([]change, error) {
	path := fmt.Sprintf("/repos/%s/issues/%d", m.issue.Repo, m.issue.Number)
	set := func(state string) change {
		return change{method: http.MethodPatch, path: path, body: map[string]string{"state": state}}
	}
	if reconcile.SameState(m.state, "closed") {
		return []change{set("closed")}, nil
	}
	var changes []change
	var err error
	if m.o.Project != "" {
		changes, err = m.columnChanges(ctx)
	} else {
		changes, err = m.labelChanges(path)
	}
	if err != nil {
		return nil, err
	}
	if m.issue.Closed {
		changes = append(changes, set("open"))
	}
	return changes, nil
}

// labelChanges returns the changes of labels.
func (m move) labelChanges(path string) ([]change, error) {
	add, remove, err := m.LabelsTo(m.issue.Record, m.state)
	if err != nil {
		return nil, err
	}
	var changes []change
	if add != "" {
		changes = append(changes, change{
			method: http.MethodPost,
			path:   path + "/labels",
			body:   map[string]any{"labels": []string{add}},
		})
	}
	for _, label := range remove {
		// GitHub compares the name of a label that is removed exactly.
		spelled := text.First(m.issue.spelled, func(l string) bool { return reconcile.SameState(l, label) })
		changes = append(changes, change{
			method: http.MethodDelete,
			path:   path + "/labels/" + url.PathEscape(spelled),
		})
	}
	return changes, nil
}

// columnChanges returns the change of the column on the board. In the state open an issue is
// in no column.
func (m move) columnChanges(ctx context.Context) ([]change, error) {
	board, err := m.columns(ctx)
	if err != nil {
		return nil, err
	}
	field := board.field
	isState := func(o option) bool { return reconcile.SameState(o.Name, m.state) }
	column := text.OrNull(text.First(field.Options, isState).ID)
	if column == nil && !reconcile.SameState(m.state, "open") {
		states := append(field.names(), "open", "closed")
		return nil, reconcile.NoState(m.Scrub("the project "+m.o.Project), m.state, states)
	}
	if m.issue.item == nil {
		if column == nil {
			return nil, nil
		}
		return nil, m.offBoard()
	}
	return []change{{
		method: http.MethodPatch,
		path:   boardOf(m.o.Project) + "/items/" + m.issue.item.ID.String(),
		body:   map[string]any{"fields": []map[string]any{{"id": field.ID, "value": column}}},
	}}, nil
}

// offBoard returns the error of an issue without a column, because it is not on the board.
func (m move) offBoard() error {
	id, _ := m.Called(m.issue.Repo, m.issue.Number)
	return &reconcile.Error{
		Code:    "issue_not_found",
		Message: m.Scrub(fmt.Sprintf("issue %q is not on the project %s", id, m.o.Project)),
		Hint:    "add it to the project",
		Err:     reconcile.ErrGone,
	}
}
