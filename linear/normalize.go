package linear

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// malformed is the error of a record that lacks a field without which it is no issue (specification 8.2).
type malformed struct{ id, identifier, reason string }

func (m *malformed) Error() string { return fmt.Sprintf("issue %q: %s", m.id, m.reason) }

// wireIssue is an issue as Linear sends it. Raw fields may have any type; see optional.
type wireIssue struct {
	ID          string          `json:"id"`
	Identifier  string          `json:"identifier"`
	Title       *string         `json:"title"`
	Description json.RawMessage `json:"description"`
	Priority    json.RawMessage `json:"priority"`
	BranchName  json.RawMessage `json:"branchName"`
	URL         json.RawMessage `json:"url"`
	CreatedAt   *string         `json:"createdAt"`
	UpdatedAt   *string         `json:"updatedAt"`
	ArchivedAt  *string         `json:"archivedAt"`
	State       *wireStateName  `json:"state"`
	Project     *struct {
		SlugID string `json:"slugId"`
	} `json:"project"`
	Assignee  json.RawMessage `json:"assignee"`
	Labels    json.RawMessage `json:"labels"`
	Relations wireRelations   `json:"inverseRelations"`
	Comments  struct {
		Nodes []struct {
			CreatedAt *string `json:"createdAt"`
		} `json:"nodes"`
	} `json:"comments"`
}

type wireAssignee struct {
	ID    string `json:"id"`
	Email string `json:"email"`
	IsMe  bool   `json:"isMe"`
}

type wireStateName struct {
	Name *string `json:"name"`
}

type wireLabels struct {
	Nodes []struct {
		Name string `json:"name"`
	} `json:"nodes"`
	PageInfo *pageInfo `json:"pageInfo"`
}

type wireRelations struct {
	Nodes []struct {
		Type  string `json:"type"`
		Issue *struct {
			ID         *string        `json:"id"`
			Identifier *string        `json:"identifier"`
			State      *wireStateName `json:"state"`
		} `json:"issue"`
	} `json:"nodes"`
	PageInfo *pageInfo `json:"pageInfo"`
}

// issue normalises one record (specification 4.1.1 and 11.3) and fetches the labels and relations after the first page.
// A record that is no issue gives *malformed.
func (c *Client) issue(ctx context.Context, raw json.RawMessage) (reconcile.Issue, error) {
	var w wireIssue
	if err := json.Unmarshal(raw, &w); err != nil {
		return reconcile.Issue{}, &malformed{id: textOf(raw, "id"), identifier: textOf(raw, "identifier"), reason: err.Error()}
	}
	if err := w.complete(); err != nil {
		return reconcile.Issue{}, err
	}
	labels, err := c.labels(ctx, &w)
	if err != nil {
		return reconcile.Issue{}, err
	}
	if err := c.moreRelations(ctx, &w); err != nil {
		return reconcile.Issue{}, err
	}
	issue := reconcile.Issue{
		ID: w.ID, Identifier: w.Identifier, Title: *w.Title, Description: optional[string](c, &w, "description", w.Description),
		Priority: integer(w.Priority), State: strings.TrimSpace(*w.State.Name),
		BranchName: optional[string](c, &w, "branchName", w.BranchName), URL: optional[string](c, &w, "url", w.URL),
		Labels: labels, BlockedBy: w.Relations.blockers(),
		CreatedAt: timestamp(w.CreatedAt), UpdatedAt: timestamp(w.UpdatedAt),
		Archived: w.ArchivedAt != nil,
	}
	if w.Project != nil {
		issue.Project = w.Project.SlugID
	}
	issue.Elsewhere = !c.ours(issue.Project)
	if a := optional[wireAssignee](c, &w, "assignee", w.Assignee); a != nil {
		issue.Assignee = &reconcile.Assignee{ID: a.ID, Email: a.Email, IsMe: a.IsMe}
	}
	for _, n := range w.Comments.Nodes {
		if t := timestamp(n.CreatedAt); t != nil && (issue.LastCommentAt == nil || t.After(*issue.LastCommentAt)) {
			issue.LastCommentAt = t
		}
	}
	return issue, nil
}

// optional decodes a field without which an issue can still be worked on. A value of another type is nil, with a
// warning.
func optional[T any](c *Client, w *wireIssue, field string, raw json.RawMessage) *T {
	var value *T
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, &value); err != nil {
		c.warn(fmt.Sprintf("%s: Linear's %s has an unexpected type and is ignored", w.Identifier, field))
		return nil
	}
	return value
}

// warn reports a text once.
func (c *Client) warn(text string) {
	c.mu.Lock()
	seen := c.warned[text]
	c.warned[text] = true
	c.mu.Unlock()
	if !seen {
		c.report(c.scrub(text))
	}
}

func (w *wireIssue) complete() error {
	missing := func(field string) error {
		return &malformed{id: w.ID, identifier: w.Identifier, reason: field + " is missing"}
	}
	switch {
	case w.ID == "":
		return missing("id")
	case strings.TrimSpace(w.Identifier) == "":
		return missing("identifier")
	case w.Title == nil || strings.TrimSpace(*w.Title) == "":
		return missing("title")
	case w.State == nil || w.State.Name == nil || strings.TrimSpace(*w.State.Name) == "":
		return missing("state")
	}
	return nil
}

// textOf reads one field of a record that does not decode as a whole, to name it in messages; empty if unreadable.
func textOf(raw json.RawMessage, field string) string {
	var r map[string]any
	if json.Unmarshal(raw, &r) != nil || r[field] == nil {
		return ""
	}
	return fmt.Sprint(r[field])
}

func (r wireRelations) blockers() []reconcile.BlockerRef {
	refs := []reconcile.BlockerRef{}
	for _, n := range r.Nodes {
		if !strings.EqualFold(strings.TrimSpace(n.Type), "blocks") {
			continue
		}
		var ref reconcile.BlockerRef
		if n.Issue != nil {
			ref.ID, ref.Identifier = n.Issue.ID, n.Issue.Identifier
			if n.Issue.State != nil {
				ref.State = n.Issue.State.Name
			}
		}
		refs = append(refs, ref)
	}
	return refs
}

// integer is nil for anything but a whole number (specification 11.3). Linear's type is Float: 2 may arrive as 2.0.
func integer(raw json.RawMessage) *int {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] == '"' {
		return nil
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<31 {
		return nil
	}
	n := int(f)
	return &n
}

// timestamp reads ISO 8601 as UTC; anything else is nil.
func timestamp(s *string) *time.Time {
	if s == nil {
		return nil
	}
	layouts := [...]string{
		time.RFC3339Nano, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05",
		"2006-01-02", "20060102T150405Z0700",
	}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, strings.TrimSpace(*s)); err == nil {
			t = t.UTC()
			return &t
		}
	}
	return nil
}

// labels returns the names of all labels, in lower case; none where the record's value has another type.
func (c *Client) labels(ctx context.Context, w *wireIssue) ([]string, error) {
	names := []string{}
	err := c.pages("labels of "+w.Identifier, func(after string) (*pageInfo, error) {
		raw := w.Labels
		if after != "" {
			next, err := c.innerPage(ctx, w, "labels", moreLabelsQuery, after)
			if err != nil {
				return nil, err
			}
			raw = next.Labels
		}
		list := optional[wireLabels](c, w, "labels", raw)
		if list == nil {
			return nil, nil //nolint:nilnil // there is no further page
		}
		for _, n := range list.Nodes {
			names = append(names, strings.ToLower(strings.TrimSpace(n.Name)))
		}
		return list.PageInfo, nil
	})
	return unique(names), err
}

// moreRelations appends the relations after the first page.
func (c *Client) moreRelations(ctx context.Context, w *wireIssue) error {
	return c.pages("relations of "+w.Identifier, func(after string) (*pageInfo, error) {
		if after == "" {
			return w.Relations.PageInfo, nil
		}
		next, err := c.innerPage(ctx, w, "relations", moreRelationsQuery+relationFields, after)
		if err != nil {
			return nil, err
		}
		w.Relations.Nodes = append(w.Relations.Nodes, next.Relations.Nodes...)
		return next.Relations.PageInfo, nil
	})
}

// innerPage fetches a further page of a connection of one issue.
func (c *Client) innerPage(ctx context.Context, w *wireIssue, what, query, after string) (*wireIssue, error) {
	var data struct {
		Issue *wireIssue `json:"issue"`
	}
	if err := c.query(ctx, query, map[string]any{"id": w.ID, "first": innerPage, "after": after}, &data); err != nil {
		return nil, err
	}
	if data.Issue == nil {
		return nil, c.fail("linear_unknown_payload", "the answer holds no "+what+" of "+w.Identifier, "")
	}
	return data.Issue, nil
}
