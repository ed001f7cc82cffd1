package github

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/githubapi"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// forBoard returns a query about the project of the workflow, with its variables.
func (c *Client) forBoard(query string) (string, map[string]any) {
	kind, login, number, _ := boardAddress(c.o.Project) // New has checked it
	return strings.ReplaceAll(query, "OWNER(", owners[kind]+"("), map[string]any{
		"login":  login,
		"number": number,
	}
}

func (c *Client) noBoard() error {
	return reconcile.NewError(
		"tracker_project_not_found",
		c.Scrub("tracker.provider.project: GitHub shows no project "+c.o.Project),
		"check the address, and that the token may read projects (read:project)",
	)
}

// board reads the issues on the project's board that belong to the repositories of the
// workflow.
func (c *Client) board(ctx context.Context) (records []record, me string, err error) {
	query, vars := c.forBoard(document("board"))
	vars["field"] = c.o.StatusField
	seen := map[ref]bool{} // an item that moves between two requests is on both pages
	err = transport.Pages(
		c.api,
		"items of the project",
		vars,
		func() (page nodes[json.RawMessage], err error) {
			data, _, err := queryIssues[struct {
				Viewer account `json:"viewer"`
				Owner  struct {
					Project *struct {
						Items nodes[json.RawMessage] `json:"items"`
					} `json:"projectV2"`
				} `json:"owner"`
			}](ctx, c.requests, func() (string, map[string]any) { return query + c.issueFields() + document("column"), vars })
			switch {
			case errors.Is(err, reconcile.ErrGone) || err == nil && data.Owner.Project == nil:
				return page, c.noBoard()
			case err != nil:
				return page, err
			}
			me = c.me(data.Viewer)
			for _, raw := range data.Owner.Project.Items.Nodes {
				r, ours := c.onBoard(raw)
				if at := (ref{r.Repo, r.Number}); ours && (!seen[at] || r.Number == 0) {
					seen[at] = true
					records = append(records, r)
				}
			}
			return data.Owner.Project.Items, nil
		},
	)
	return records, me, err
}

// onBoard reads an item of the board. It is false for what is no issue of the workflow's
// repositories: pull requests, drafts, issues that the token may not read, or of other
// repositories.
func (c *Client) onBoard(raw json.RawMessage) (record, bool) {
	var content struct {
		Content json.RawMessage `json:"content"`
	}
	var of struct {
		Repository repositoryName `json:"repository"`
	}
	if json.Unmarshal(raw, &content) != nil || json.Unmarshal(content.Content, &of) != nil {
		return record{}, false
	}
	i := slices.IndexFunc(c.o.Repositories, func(r string) bool {
		return strings.EqualFold(r, of.Repository.Name) || strings.EqualFold(c.present(r), of.Repository.Name)
	})
	if i < 0 {
		return record{}, false
	}
	r := fromGraphQL(c.o.Repositories[i], "", content.Content)
	var item boardItem
	if err := json.Unmarshal(raw, &item); err != nil && r.Malformed == "" {
		r = malformed(r.Repo, content.Content, err)
	}
	r.item = &item
	return r, true
}

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
	if strings.EqualFold(names.Assignee, "me") {
		names.Assignee = ""
	}
	for i, repo := range c.o.Repositories {
		project, more, users, err := c.verifyRepository(ctx, repo, names.Assignee, &viewer)
		if err != nil {
			return found, err
		}
		if i == 0 {
			found.Project = project
		}
		labels = append(labels, more...)
		logins = append(logins, users...)
	}
	found.User = viewer.Login
	found.OwnOperators = text.Filter(names.Operators, func(name string) bool {
		return reconcile.SameUser(name, viewer.Login, "id:"+strconv.FormatInt(viewer.ID, 10))
	})
	c.CheckScopes(c.o.Project != "")
	if c.o.Project != "" {
		field, err := c.statusField(ctx, &found.Project)
		if err != nil {
			return found, err
		}
		states := append(field.names(), "open", "closed")
		found.States = transport.Unknown(names.States, states, states)
	} else {
		// a label that does not exist is created when it is set; one that resembles another is
		// misspelt
		unlike := func(u reconcile.UnknownName) bool { return len(u.Nearest) == 0 }
		found.States = slices.DeleteFunc(transport.Unknown(c.o.StateLabels, labels, labels), unlike)
	}
	found.Labels = transport.Unknown(names.Labels, labels, labels)
	if list := transport.Unknown([]string{names.Assignee}, logins, append(logins, found.User)); names.Assignee != "" &&
		len(list) > 0 {
		found.Assignee = &list[0]
	}
	return found, nil
}

// verifyRepository reads the labels of a repository, and the accounts whose login resembles
// assignee.
func (c *Client) verifyRepository(ctx context.Context, repo, assignee string, user *account) (
	project reconcile.TrackerProject, labels, logins []string, err error,
) {
	owner, name, _ := strings.Cut(c.present(repo), "/")
	vars := map[string]any{"owner": owner, "name": name, "assignee": assignee}
	err = transport.Pages(c.api, "labels of "+repo, vars, func() (page nodes[json.RawMessage], err error) {
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
		switch {
		case errors.Is(err, reconcile.ErrGone) || err == nil && data.Repository == nil:
			return page, c.noRepository(repo, "")
		case err != nil:
			return page, err
		case !data.Repository.HasIssues:
			return page, c.noRepository(repo, "its issues are disabled")
		}
		r := data.Repository
		c.rename(repo, r.Name)
		project = reconcile.TrackerProject{ID: r.ID, Name: r.Name, Slug: repo, URL: r.URL}
		*user = data.Viewer
		logins = text.Map(r.Users.Nodes, func(u account) string { return u.Login })
		if r.Archived {
			c.WarnOnce(
				r.Name + " is archived, so that nothing in it can be changed: unarchive it in its settings",
			)
		}
		if r.May == "READ" {
			c.WarnOnce(
				fmt.Sprintf(
					"%s may only read %s: give that account the role Triage or more",
					user.Login,
					r.Name,
				),
			)
		}
		for _, raw := range r.Labels.Nodes {
			var l label
			if json.Unmarshal(raw, &l) == nil {
				labels = append(labels, l.Name)
			}
		}
		return r.Labels, nil
	})
	return project, labels, logins, err
}

// boardField is the field of the columns of a board.
type boardField struct {
	ID      int64    `json:"databaseId"`
	Name    string   `json:"name"`    // empty for a field without options
	Options []option `json:"options"` // the columns
}

type option struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func (f boardField) names() []string {
	return text.Map(f.Options, func(o option) string { return o.Name })
}

// statusField reads the project with the field of its columns.
func (c *Client) statusField(
	ctx context.Context,
	project *reconcile.TrackerProject,
) (field boardField, err error) {
	query, vars := c.forBoard(document("project"))
	data, _, err := graphQL[struct {
		Owner struct {
			Project *struct {
				ID     string            `json:"id"`
				Title  string            `json:"title"`
				URL    string            `json:"url"`
				Fields nodes[boardField] `json:"fields"`
			} `json:"projectV2"`
		} `json:"owner"`
	}](ctx, c.requests, query, vars)
	switch {
	case errors.Is(err, reconcile.ErrGone) || err == nil && data.Owner.Project == nil:
		return field, c.noBoard()
	case err != nil:
		return field, err
	}
	p := data.Owner.Project
	*project = reconcile.TrackerProject{ID: p.ID, Name: p.Title, Slug: c.o.Project, URL: p.URL}
	var fields []string
	for _, f := range p.Fields.Nodes {
		if f.Name == c.o.StatusField {
			return f, nil
		}
		if f.Name != "" {
			fields = append(fields, f.Name)
		}
	}
	return field, reconcile.NewError(
		"tracker_project_not_found",
		c.Scrub(
			fmt.Sprintf(
				"tracker.provider.status_field: the project %s has no field %q with options",
				c.o.Project,
				c.o.StatusField,
			),
		),
		c.Scrub("set tracker.provider.status_field to one of these: "+strings.Join(fields, ", ")),
	)
}

// Setup returns what init needs to connect a project to GitHub. The projects are repositories,
// which init knows from git.
func Setup() reconcile.TrackerSetup {
	return reconcile.TrackerSetup{
		Name: "GitHub", Endpoint: DefaultEndpoint,
		KeyQuestion: "GitHub token that may read and write issues (Settings, Developer settings, Personal access tokens; it is not shown)",
		Connect: func(ctx context.Context, endpoint, token, source string) (reconcile.TrackerAccount, error) {
			o := Options{Options: transport.Options{
				Endpoint:  endpoint,
				Key:       token,
				KeySource: source,
			}}
			c, err := connect(o)
			if err != nil {
				return reconcile.TrackerAccount{}, err
			}
			a, err := c.Do(ctx, http.MethodGet, "/user", nil, nil)
			if err != nil {
				return reconcile.TrackerAccount{}, err
			}
			user, err := githubapi.Decode[account](c.api, "account", a.Body)
			found := reconcile.TrackerAccount{User: user.Login}
			found.Project = func(ctx context.Context, repo, label string) (reconcile.TrackerBoard, error) {
				o.Repositories = []string{repo}
				c, err := connect(o)
				if err != nil {
					return reconcile.TrackerBoard{}, err
				}
				return c.proposal(ctx, repo, label)
			}
			return found, err
		},
		RefusedKey: service.RefusedKey,
	}
}

// proposal describes a repository to init: open and closed, and labels as the states between
// them. A label that does not exist is created when the agent sets it.
func (c *Client) proposal(ctx context.Context, repo, label string) (reconcile.TrackerBoard, error) {
	var viewer account
	project, labels, _, err := c.verifyRepository(ctx, repo, "", &viewer)
	if err != nil {
		return reconcile.TrackerBoard{}, err
	}
	with := func(word, otherwise string) reconcile.TrackerState {
		existing := text.First(
			labels,
			func(l string) bool { return strings.Contains(strings.ToLower(l), word) },
		)
		return reconcile.TrackerState{
			Name: cmp.Or(existing, otherwise),
			Kind: reconcile.StateStarted,
		}
	}
	board := reconcile.TrackerBoard{
		TrackerProject: project, Setting: project.Name,
		HasLabel: slices.ContainsFunc(labels, func(l string) bool { return strings.EqualFold(l, label) }),
		States: []reconcile.TrackerState{
			{Name: "open", Kind: reconcile.StateWaiting},
			with("progress", "In Progress"),
			with("review", "Human Review"),
			{Name: "closed", Kind: reconcile.StateEnded},
		},
	}
	for _, l := range labels {
		if _, known := board.State(l); !known {
			board.States = append(board.States, reconcile.TrackerState{Name: l})
		}
	}
	return board, nil
}
