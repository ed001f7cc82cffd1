package github

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Verify checks that repositories, project, states, labels and assignee exist. Without a
// project the workflow's own check knows which states there are. It warns about a token that
// cannot write issues.
func (c *Client) Verify(
	ctx context.Context,
	names reconcile.TrackerNames,
) (reconcile.TrackerFindings, error) {
	var found reconcile.TrackerFindings
	var labels, logins []string
	var viewer account
	assignee := names.Assignee
	if strings.EqualFold(assignee, "me") {
		assignee = ""
	}
	for i, name := range c.o.Repositories {
		repo, err := c.verifyRepository(ctx, name, assignee)
		if err != nil {
			return found, err
		}
		if i == 0 {
			found.Project = repo.project
		}
		labels = append(labels, repo.labels...)
		logins = append(logins, repo.logins...)
		viewer = repo.viewer
		found.Denied = cmp.Or(found.Denied, repo.denied)
	}
	found.User = viewer.Login
	found.OwnOperators = text.Filter(names.Operators, func(name string) bool {
		return reconcile.SameUser(name, reconcile.UserNames(viewer.Login, viewer.ID)...)
	})
	c.CheckIssueScope()
	if c.o.Project != "" {
		c.CheckBoardScope()
		board, err := c.columns(ctx)
		if err != nil {
			return found, err
		}
		found.Project = board.TrackerProject
		states := append(board.field.names(), "open", "closed")
		found.States = transport.Unknown(names.States, states, states)
	} else {
		found.States = c.Misspelt(labels)
	}
	found.Labels = transport.Unknown(names.Labels, labels, labels)
	if assignee != "" {
		unknown := transport.Unknown([]string{assignee}, logins, append(logins, found.User))
		if len(unknown) > 0 {
			found.Assignee = &unknown[0]
		}
	}
	return found, nil
}

// repository is a repository of the workflow, as the token sees it.
type repository struct {
	project reconcile.TrackerProject
	labels  []string
	logins  []string         // the accounts whose login resembles the assignee
	viewer  account          // the token's account
	denied  *reconcile.Error // see reconcile.TrackerFindings
}

// verifyRepository reads a repository with its labels, and the accounts whose login resembles
// assignee.
func (c *Client) verifyRepository(ctx context.Context, repo, assignee string) (repository, error) {
	owner, name, _ := strings.Cut(c.Present(repo), "/")
	vars := map[string]any{"owner": owner, "name": name, "assignee": assignee}
	var found repository
	err := transport.Pages(c.api, "labels of "+repo, vars, func() (nodes[json.RawMessage], error) {
		data, _, err := graphQL[struct {
			Viewer     account `json:"viewer"`
			Repository *struct {
				ID        string                 `json:"id"`
				Name      string                 `json:"nameWithOwner"`
				URL       string                 `json:"url"`
				HasIssues bool                   `json:"hasIssuesEnabled"`
				Archived  bool                   `json:"isArchived"`
				May       string                 `json:"viewerPermission"`
				Labels    nodes[json.RawMessage] `json:"labels"`
				Users     nodes[account]         `json:"assignableUsers"`
			} `json:"repository"`
		}](ctx, c.requests, document("repository"), vars)
		if errors.Is(err, reconcile.ErrGone) {
			return nodes[json.RawMessage]{}, c.NoRepository(repo, "")
		}
		if err != nil {
			return nodes[json.RawMessage]{}, err
		}
		r := data.Repository
		if r == nil {
			return nodes[json.RawMessage]{}, c.NoRepository(repo, "")
		}
		if !r.HasIssues {
			return nodes[json.RawMessage]{}, c.NoRepository(repo, "its issues are disabled")
		}
		c.Rename(repo, r.Name)
		found.project = reconcile.TrackerProject{ID: r.ID, Name: r.Name, Slug: repo, URL: r.URL}
		found.viewer = data.Viewer
		found.logins = text.Map(r.Users.Nodes, func(u account) string { return u.Login })
		found.denied = c.CheckRights(r.Name, data.Viewer.Login, r.Archived, r.May != "READ")
		for _, raw := range r.Labels.Nodes {
			var l label
			if json.Unmarshal(raw, &l) == nil {
				found.labels = append(found.labels, l.Name)
			}
		}
		return r.Labels, nil
	})
	if err != nil {
		return repository{}, err
	}
	return found, nil
}
