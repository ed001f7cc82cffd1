package gitea

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/symphony-cron/symphony/internal/adapter/giteaapi"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// move makes the changes after which an issue is in the state. After each of them the issue is
// in the old state or in the new state, so that a move that failed can be repeated. The error
// wraps reconcile.ErrGone if the issue does not exist.
func (c *client) move(ctx context.Context, issueID, state string) error {
	r, w, err := c.existing(ctx, issueID)
	if err != nil {
		return err
	}
	if reconcile.SameState(c.StateByLabels(r), state) {
		return nil
	}
	path := fmt.Sprintf("/issues/%d", r.Number)
	if reconcile.SameState(state, "closed") {
		return c.change(ctx, r, http.MethodPatch, path, map[string]string{"state": "closed"})
	}
	add, remove, err := c.LabelsTo(r, state)
	if err != nil {
		return err
	}
	if add != "" {
		if err := c.addLabel(ctx, r, add); err != nil {
			return err
		}
	}
	for _, name := range remove {
		for _, l := range w.Labels { // several may have this name
			if !reconcile.SameState(l.Name, name) {
				continue
			}
			if err := c.change(ctx, r, http.MethodDelete, fmt.Sprint(path, "/labels/", l.ID), nil); err != nil {
				return err
			}
		}
	}
	// until then it is closed whatever its labels are
	if r.Closed {
		return c.change(ctx, r, http.MethodPatch, path, map[string]string{"state": "open"})
	}
	return nil
}

// change changes an issue that exists.
func (c *client) change(ctx context.Context, r record, method, path string, body any) error {
	_, err := do[struct{}](ctx, c, giteaapi.WriteIssue, r.Repo, method, path, body)
	e, known := errors.AsType[*reconcile.Error](err)
	if known && e.Status == http.StatusPreconditionFailed {
		e.Hint = "close the issues on which it depends, or remove the dependencies"
	}
	return err
}

// addLabel sets a label on an issue. Gitea says nothing about a label that it does not know, so
// the answer is checked.
func (c *client) addLabel(ctx context.Context, r record, name string) error {
	id, err := c.labelID(ctx, r.Repo, name)
	if err != nil {
		return err
	}
	path := fmt.Sprintf("/issues/%d/labels", r.Number)
	sent := map[string]any{"labels": []int64{id}}
	set, err := do[[]label](ctx, c, giteaapi.WriteIssue, r.Repo, http.MethodPost, path, sent)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(set, func(l label) bool { return l.ID == id }) {
		return c.api.Fail(unknownPayload, fmt.Sprintf("Gitea has not set the label %q", name))
	}
	return nil
}

// labelColour is the colour of labels that symphony makes.
const labelColour = "#ededed"

// labelID returns the id of a label, whatever the case of its letters. A label that does not
// exist is created.
func (c *client) labelID(ctx context.Context, repo, name string) (int64, error) {
	labels, err := c.labels(ctx, repo)
	if err != nil {
		return 0, err
	}
	known := text.First(labels, func(l label) bool { return reconcile.SameState(l.Name, name) })
	if known.ID != 0 {
		return known.ID, nil
	}
	made, err := do[label](ctx, c, giteaapi.WriteIssue, repo, http.MethodPost, "/labels", map[string]string{
		"name":  name,
		"color": labelColour,
	})
	if err == nil && made.ID == 0 {
		err = c.api.Fail(unknownPayload, "the new label has no id")
	}
	return made.ID, err
}

// labels reads the labels that issues of a repository can get: those of the repository and, if
// the token may read them, of its organization. Archived labels are left out.
func (c *client) labels(ctx context.Context, repo string) ([]label, error) {
	var labels []label
	add := func(page []label) bool {
		labels = append(labels, text.Filter(page, func(l label) bool { return !l.Archived })...)
		return true
	}
	err := c.within(repo, func(base string) error {
		labels = nil
		return giteaapi.List(ctx, c.api, giteaapi.ReadIssue, base+"/labels", url.Values{}, nil, add)
	})
	if err != nil {
		return nil, err
	}
	path := "/orgs/" + ownerOf(c.Present(repo)) + "/labels"
	err = giteaapi.List(ctx, c.api, giteaapi.ReadOrganization, path, url.Values{}, nil, add)
	e, known := errors.AsType[*reconcile.Error](err)
	isHidden := known && e.Status == http.StatusForbidden
	if isHidden || errors.Is(err, reconcile.ErrGone) { // or the owner is a person
		err = nil
	}
	return labels, err
}

// create makes an issue in the first repository.
func (c *client) create(ctx context.Context, n reconcile.NewIssue) (*reconcile.Issue, error) {
	repo := c.o.Repositories[0]
	names := slices.Clone(n.Labels)
	isOpen := n.State == "" || reconcile.SameState(n.State, "open") || reconcile.SameState(n.State, "closed")
	if !isOpen {
		add, _, err := c.LabelsTo(record{}, n.State)
		if err != nil {
			return nil, err
		}
		names = append(names, add)
	}
	ids := []int64{}
	for _, name := range names { // Gitea refuses names
		id, err := c.labelID(ctx, repo, name)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	made, err := do[wireIssue](ctx, c, giteaapi.WriteIssue, repo, http.MethodPost, "/issues", map[string]any{
		"title":  n.Title,
		"body":   n.Body,
		"labels": ids,
		"closed": reconcile.SameState(n.State, "closed"),
	})
	if err != nil {
		return nil, err
	}
	r := made.record(repo)
	if r.Malformed != "" {
		return nil, c.api.Fail(unknownPayload, "the new issue is malformed: "+r.Malformed)
	}
	issue := c.issue(r, "")
	return &issue, nil
}
