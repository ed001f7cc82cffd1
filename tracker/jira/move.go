package jira

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/adf"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// transition is a way from the present status of an issue to another one.
type transition struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	To     status `json:"to"`
	Fields map[string]struct {
		Name       string `json:"name"`
		Required   bool   `json:"required"`
		HasDefault bool   `json:"hasDefaultValue"`
	} `json:"fields"`
}

// needs are the names of the fields that its screen requires.
func (t transition) needs() []string {
	var names []string
	for _, id := range slices.Sorted(maps.Keys(t.Fields)) {
		if f := t.Fields[id]; f.Required && !f.HasDefault {
			names = append(names, f.Name)
		}
	}
	return names
}

// move makes the transition that leads an issue to the state.
func (c *client) move(ctx context.Context, issueID, state string) error {
	issue, err := c.existing(ctx, issueID)
	if err != nil {
		return err
	}
	if reconcile.SameState(issue.State, state) {
		return nil
	}
	t, err := c.transitionTo(ctx, issue, state)
	if err != nil {
		return err
	}
	_, err = do[struct{}](ctx, c, http.MethodPost, issuePath(issueID, "transitions"), nil, map[string]any{
		"transition": map[string]string{"id": t.ID},
	})
	e, known := errors.AsType[*reconcile.Error](err)
	if known && errors.Is(err, reconcile.ErrRejected) {
		e.Hint = fmt.Sprintf("Jira refused the transition %q: move the issue by hand, or correct the workflow of "+
			"the project", t.Name)
	}
	return c.ofIssue(ctx, issueID, err)
}

// transitionTo finds the transition of an issue to a state, preferably one without questions.
func (c *client) transitionTo(ctx context.Context, issue reconcile.Issue, state string) (transition, error) {
	list, err := c.transitions(ctx, issue.ID)
	if err != nil {
		return transition{}, err
	}
	fitting := text.Filter(list, func(t transition) bool { return reconcile.SameState(t.To.Name, state) })
	if len(fitting) == 0 {
		reachable := text.Unique(text.Map(list, func(t transition) string { return t.To.Name }))
		return transition{}, reconcile.NewError(
			reconcile.CodeNoState,
			fmt.Sprintf("no transition leads from %s to %s; from there %s can reach %s",
				issue.State, state, issue.Identifier, strings.Join(reachable, ", ")),
			"add a transition to the workflow of the project, or name a state in WORKFLOW.md that can be reached",
		)
	}
	free := func(t transition) bool { return len(t.needs()) == 0 }
	if i := slices.IndexFunc(fitting, free); i >= 0 {
		return fitting[i], nil
	}
	t := fitting[0]
	return t, reconcile.NewError(
		"jira_transition_fields",
		fmt.Sprintf("the transition %q to %s asks for %s", t.Name, t.To.Name, strings.Join(t.needs(), ", ")),
		"take these fields off the screen of the transition, or give symphony a transition of its own",
	)
}

// transitions are the transitions of an issue from its present status.
func (c *client) transitions(ctx context.Context, issueID string) ([]transition, error) {
	query := url.Values{"expand": {"transitions.fields"}}
	found, err := get[struct {
		Transitions []transition `json:"transitions"`
	}](ctx, c, issuePath(issueID, "transitions"), query)
	if err != nil {
		return nil, c.ofIssue(ctx, issueID, err)
	}
	if found.Transitions == nil {
		return nil, c.api.Fail(unknownPayload, "the answer contains no list of transitions")
	}
	return found.Transitions, nil
}

// create makes an issue, and moves it to the state in which it should begin.
func (c *client) create(ctx context.Context, n reconcile.NewIssue) (*reconcile.Issue, error) {
	kind, err := c.issueType(ctx)
	if err != nil {
		return nil, err
	}
	written := map[string]any{
		"project":   map[string]string{"key": c.key()},
		"issuetype": map[string]string{"id": kind},
		"summary":   n.Title,
	}
	if strings.TrimSpace(n.Body) != "" {
		written["description"] = adf.Document(n.Body)
	}
	if len(n.Labels) > 0 {
		written["labels"] = n.Labels
	}
	made, err := do[struct {
		ID string `json:"id"`
	}](ctx, c, http.MethodPost, "/issue", nil, map[string]any{"fields": written})
	if err != nil {
		return nil, err
	}
	if made.ID == "" {
		return nil, c.api.Fail(unknownPayload, "the new issue has no id")
	}
	if n.State != "" {
		if err := c.move(ctx, made.ID, n.State); err != nil {
			return nil, fmt.Errorf("the issue was made, but not moved to %s: %w", n.State, err)
		}
	}
	issue, err := c.existing(ctx, made.ID)
	if err != nil {
		return nil, err
	}
	return &issue, nil
}

// issueType returns the id of the type of new issues: Task, or else the first one that is neither
// a part of another issue nor a collection of issues.
func (c *client) issueType(ctx context.Context) (string, error) {
	found, err := get[struct {
		Types []struct {
			ID      string `json:"id"`
			Name    string `json:"name"`
			Subtask bool   `json:"subtask"`
			Level   int    `json:"hierarchyLevel"`
		} `json:"issueTypes"`
	}](ctx, c, "/issue/createmeta/"+url.PathEscape(c.key())+"/issuetypes", nil)
	if errors.Is(err, reconcile.ErrGone) {
		return "", c.noProject()
	}
	if err != nil {
		return "", err
	}
	id := ""
	for _, t := range found.Types {
		if t.Subtask || t.Level > 0 {
			continue
		}
		if id == "" || strings.EqualFold(t.Name, "Task") {
			id = t.ID
		}
	}
	if id == "" {
		return "", reconcile.NewError(
			apiStatus,
			"the account may create no issue in the project "+c.o.Project,
			"give it the permission Create Issues",
		)
	}
	return id, nil
}
