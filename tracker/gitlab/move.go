package gitlab

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/symphony-cron/symphony/internal/adapter/gitlabapi"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// move brings an issue into a state by a single request. The error wraps reconcile.ErrGone if the
// issue does not exist.
func (c *client) move(ctx context.Context, issueID, state string) error {
	r, w, err := c.existing(ctx, issueID)
	if err != nil {
		return err
	}
	if reconcile.SameState(c.StateByLabels(r), state) {
		return nil
	}
	sent := map[string]any{}
	added := ""
	if reconcile.SameState(state, "closed") {
		sent["state_event"] = "close"
	} else {
		add, remove, err := c.LabelsTo(r, state)
		if err != nil {
			return err
		}
		if add != "" {
			added, err = c.spelled(ctx, r.Repo, add)
			if err != nil {
				return err
			}
			sent["add_labels"] = []string{added}
		}
		// as GitLab spells them, which tells letters in two cases apart
		old := text.Filter(w.Labels, func(l string) bool {
			return slices.ContainsFunc(remove, func(name string) bool { return reconcile.SameState(name, l) })
		})
		if len(old) > 0 {
			sent["remove_labels"] = old
		}
		if r.Closed {
			sent["state_event"] = "reopen"
		}
	}
	after, err := do[wireIssue](
		ctx, c, r.Repo, http.MethodPut, fmt.Sprintf("/issues/%d", r.Number), sent,
	)
	if err != nil {
		return err
	}
	// GitLab leaves out, without a word, what the token may not change.
	if now := c.StateByLabels(after.record(r.Repo)); !reconcile.SameState(now, state) {
		return c.api.Fail(
			"tracker_api_status",
			fmt.Sprintf("GitLab left issue %d of %s in the state %q", r.Number, r.Repo, now),
		).WithHint("%s", c.api.Lacks())
	}
	return nil
}

// spelled returns the name of a label as GitLab spells it. It is the name itself for a label that
// does not exist, which GitLab makes when it is set.
func (c *client) spelled(ctx context.Context, project, name string) (string, error) {
	labels, err := c.labels(ctx, project, name)
	if err != nil {
		return "", err
	}
	for _, l := range labels {
		if reconcile.SameState(l.Name, name) {
			return l.Name, nil
		}
	}
	return name, nil
}

// label is a label of a project, or of a group that the project is in.
type label struct {
	ID       int64  `json:"id"`
	Name     string `json:"name"`
	Archived bool   `json:"archived"` // it can't be chosen any more
}

// labels reads the labels that issues of a project can get: those whose name or description
// contains a text, or all if that is empty.
func (c *client) labels(ctx context.Context, project, containing string) ([]label, error) {
	var labels []label
	err := c.within(ctx, project, func(base string) error {
		labels = nil
		query := url.Values{}
		if containing != "" {
			query.Set("search", containing)
		}
		return gitlabapi.List(ctx, c.api, base+"/labels", query, nil, func(page []label) bool {
			labels = append(labels, text.Filter(page, func(l label) bool { return !l.Archived })...)
			return true
		})
	})
	return labels, err
}

// create makes an issue in the first project.
func (c *client) create(ctx context.Context, n reconcile.NewIssue) (*reconcile.Issue, error) {
	project := c.o.Projects[0]
	names := slices.Clone(n.Labels)
	isClosed := reconcile.SameState(n.State, "closed")
	if n.State != "" && !isClosed {
		add, _, err := c.LabelsTo(record{}, n.State)
		if err != nil {
			return nil, err
		}
		if add != "" {
			names = append(names, add)
		}
	}
	for i, name := range names {
		spelled, err := c.spelled(ctx, project, name)
		if err != nil {
			return nil, err
		}
		names[i] = spelled
	}
	made, err := do[wireIssue](ctx, c, project, http.MethodPost, "/issues", map[string]any{
		"title":       n.Title,
		"description": n.Body,
		"labels":      names,
	})
	if err != nil {
		return nil, err
	}
	if isClosed {
		path := fmt.Sprintf("/issues/%d", made.Number)
		sent := map[string]string{"state_event": "close"}
		made, err = do[wireIssue](ctx, c, project, http.MethodPut, path, sent)
		if err != nil {
			return nil, err
		}
	}
	r := made.record(project)
	if r.Malformed != "" {
		return nil, c.api.Fail(unknownPayload, "the new issue is malformed: "+r.Malformed)
	}
	issue := c.issue(r, "")
	return &issue, nil
}
