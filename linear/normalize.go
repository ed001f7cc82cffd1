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

// malformed says why a record can't be an issue: one of the fields that specification 8.2 asks for is missing.
type malformed struct{ id, reason string }

func (m *malformed) Error() string { return fmt.Sprintf("issue %q: %s", m.id, m.reason) }

type wireIssue struct {
	ID          string          `json:"id"`
	Identifier  string          `json:"identifier"`
	Title       *string         `json:"title"`
	Description *string         `json:"description"`
	Priority    json.RawMessage `json:"priority"`
	BranchName  *string         `json:"branchName"`
	URL         *string         `json:"url"`
	CreatedAt   *string         `json:"createdAt"`
	UpdatedAt   *string         `json:"updatedAt"`
	ArchivedAt  *string         `json:"archivedAt"`
	State       *wireState      `json:"state"`
	Project     *struct {
		SlugID string `json:"slugId"`
	} `json:"project"`
	Assignee *struct {
		ID    string `json:"id"`
		Email string `json:"email"`
		IsMe  bool   `json:"isMe"`
	} `json:"assignee"`
	Labels    wireLabels    `json:"labels"`
	Relations wireRelations `json:"inverseRelations"`
	Comments  struct {
		Nodes []struct {
			CreatedAt *string `json:"createdAt"`
		} `json:"nodes"`
	} `json:"comments"`
}

type wireState struct {
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
			ID         *string    `json:"id"`
			Identifier *string    `json:"identifier"`
			State      *wireState `json:"state"`
		} `json:"issue"`
	} `json:"nodes"`
	PageInfo *pageInfo `json:"pageInfo"`
}

// issue normalises one record (specification 4.1.1 and 11.3) and fetches what did not fit into its first page of
// labels and relations. A record that is no issue gives *malformed.
func (c *Client) issue(ctx context.Context, raw json.RawMessage) (reconcile.Issue, error) {
	var w wireIssue
	if err := json.Unmarshal(raw, &w); err != nil {
		return reconcile.Issue{}, &malformed{id: idOf(raw), reason: err.Error()}
	}
	if err := w.complete(); err != nil {
		return reconcile.Issue{}, err
	}
	if err := c.rest(ctx, &w); err != nil {
		return reconcile.Issue{}, err
	}
	issue := reconcile.Issue{
		ID: w.ID, Identifier: w.Identifier, Title: *w.Title, Description: w.Description,
		Priority: integer(w.Priority), State: strings.TrimSpace(*w.State.Name),
		BranchName: w.BranchName, URL: w.URL,
		Labels: w.Labels.names(), BlockedBy: w.Relations.blockers(),
		CreatedAt: timestamp(w.CreatedAt), UpdatedAt: timestamp(w.UpdatedAt),
		Archived: w.ArchivedAt != nil,
	}
	if w.Project != nil {
		issue.Project = w.Project.SlugID
	}
	issue.Elsewhere = !c.ours(issue.Project)
	if w.Assignee != nil {
		issue.Assignee = &reconcile.Assignee{ID: w.Assignee.ID, Email: w.Assignee.Email, IsMe: w.Assignee.IsMe}
	}
	for _, n := range w.Comments.Nodes {
		if t := timestamp(n.CreatedAt); t != nil && (issue.LastCommentAt == nil || t.After(*issue.LastCommentAt)) {
			issue.LastCommentAt = t
		}
	}
	return issue, nil
}

func (w *wireIssue) complete() error {
	missing := func(field string) error { return &malformed{id: w.ID, reason: field + " is missing"} }
	switch {
	case w.ID == "":
		return &malformed{id: w.Identifier, reason: "id is missing"}
	case strings.TrimSpace(w.Identifier) == "":
		return missing("identifier")
	case w.Title == nil || strings.TrimSpace(*w.Title) == "":
		return missing("title")
	case w.State == nil || w.State.Name == nil || strings.TrimSpace(*w.State.Name) == "":
		return missing("state")
	}
	return nil
}

// idOf finds the id in a record that does not decode as a whole, to name it in the log.
func idOf(raw json.RawMessage) string {
	var r struct {
		ID any `json:"id"`
	}
	// Only for a message; a record without a readable id stays nameless.
	if json.Unmarshal(raw, &r) != nil || r.ID == nil {
		return ""
	}
	return fmt.Sprint(r.ID)
}

func (l wireLabels) names() []string {
	names := make([]string, 0, len(l.Nodes))
	for _, n := range l.Nodes {
		names = append(names, strings.ToLower(strings.TrimSpace(n.Name)))
	}
	return unique(names)
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

// integer is nil for anything that is no whole number (specification 11.3). Linear's schema says Float, so that
// 2 may arrive as 2.0.
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

// timestamp reads ISO 8601 as UTC; what can't be read is nil.
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

// rest fetches the labels and relations after the first page.
func (c *Client) rest(ctx context.Context, w *wireIssue) error {
	labels := pager{c: c, what: "labels of " + w.Identifier}
	err := c.more(ctx, &labels, w.ID, w.Labels.PageInfo, moreLabelsQuery, func(i wireIssue) *pageInfo {
		w.Labels.Nodes = append(w.Labels.Nodes, i.Labels.Nodes...)
		return i.Labels.PageInfo
	})
	if err != nil {
		return err
	}
	relations := pager{c: c, what: "relations of " + w.Identifier}
	return c.more(ctx, &relations, w.ID, w.Relations.PageInfo, moreRelationsQuery+relationFields, func(i wireIssue) *pageInfo {
		w.Relations.Nodes = append(w.Relations.Nodes, i.Relations.Nodes...)
		return i.Relations.PageInfo
	})
}

func (c *Client) more(ctx context.Context, p *pager, id string, info *pageInfo, query string, add func(wireIssue) *pageInfo) error {
	for {
		after, err := p.next(info)
		if err != nil || after == "" {
			return err
		}
		var data struct {
			Issue *wireIssue `json:"issue"`
		}
		if err := c.query(ctx, query, map[string]any{"id": id, "first": restSize, "after": after}, &data); err != nil {
			return err
		}
		if data.Issue == nil {
			return c.fail("linear_unknown_payload", "the answer holds no "+p.what, "")
		}
		info = add(*data.Issue)
	}
}
