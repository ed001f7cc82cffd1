package github

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// forBoard returns a query about the project of the workflow, with its variables.
func (c *Client) forBoard(query string) (string, map[string]any) {
	kind, login, number, _ := boardAddress(c.o.Project) // checked by New
	query = strings.ReplaceAll(query, "OWNER(", owners[kind]+"(")
	return query, map[string]any{"login": login, "number": number}
}

// noBoard returns the error of a project that the token does not see.
func (c *Client) noBoard() error {
	return reconcile.NewError(
		"tracker_project_not_found",
		c.Scrub("tracker.provider.project: GitHub shows no project "+c.o.Project),
		"check the address, and that the token may read projects (read:project)",
	)
}

// board reads the issues on the project's board that belong to the repositories of the
// workflow.
func (c *Client) board(ctx context.Context) (listed, error) {
	query, vars := c.forBoard(document("board"))
	vars["field"] = statusField
	query += document("issue_fields", "column")
	var found listed
	seen := map[ref]bool{} // an item that moves between two requests is on both pages
	err := transport.Pages(c.api, "items of the project", vars, func() (nodes[json.RawMessage], error) {
		data, _, err := graphQL[struct {
			Viewer account `json:"viewer"`
			Owner  struct {
				Project *struct {
					Items nodes[json.RawMessage] `json:"items"`
				} `json:"projectV2"`
			} `json:"owner"`
		}](ctx, c.requests, query, vars)
		if errors.Is(err, reconcile.ErrGone) {
			return nodes[json.RawMessage]{}, c.noBoard()
		}
		if err != nil {
			return nodes[json.RawMessage]{}, err
		}
		if data.Owner.Project == nil {
			return nodes[json.RawMessage]{}, c.noBoard()
		}
		found.me, err = c.me(data.Viewer)
		if err != nil {
			return nodes[json.RawMessage]{}, err
		}
		for _, raw := range data.Owner.Project.Items.Nodes {
			r, ours := c.onBoard(raw)
			at := r.Ref()
			if !ours || seen[at] && r.Number != 0 {
				continue
			}
			seen[at] = true
			found.records = append(found.records, r)
		}
		return data.Owner.Project.Items, nil
	})
	if err != nil {
		return listed{}, err
	}
	return found, nil
}

// onBoard reads an item of the board. It returns false for anything but an issue of the
// workflow's repositories: pull requests, drafts, issues that the token may not read, issues
// of other repositories.
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
		return strings.EqualFold(r, of.Repository.Name) || strings.EqualFold(c.Present(r), of.Repository.Name)
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

// boardProject is the project of a board with the field of its columns.
type boardProject struct {
	reconcile.TrackerProject
	field boardField
}

// statusField is the field of a board that has its columns, as GitHub makes it.
const statusField = "Status"

// columns reads the project with the field of its columns.
func (c *Client) columns(ctx context.Context) (boardProject, error) {
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
	if errors.Is(err, reconcile.ErrGone) {
		return boardProject{}, c.noBoard()
	}
	if err != nil {
		return boardProject{}, err
	}
	p := data.Owner.Project
	if p == nil {
		return boardProject{}, c.noBoard()
	}
	project := reconcile.TrackerProject{ID: p.ID, Name: p.Title, Slug: c.o.Project, URL: p.URL}
	for _, f := range p.Fields.Nodes {
		if f.Name == statusField {
			return boardProject{project, f}, nil
		}
	}
	hint := "add a field " + statusField + " of the type single select to the project"
	const message = "tracker.provider.project: the project %s has no field %q with options"
	return boardProject{project, boardField{}}, reconcile.NewError(
		"tracker_project_not_found",
		c.Scrub(fmt.Sprintf(message, c.o.Project, statusField)),
		hint,
	)
}
