package linear

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// malformed is the error of a record that lacks a required field (specification 8.2).
type malformed struct{ id, identifier, reason string }

func (m *malformed) Error() string { return fmt.Sprintf("issue %q: %s", m.id, m.reason) }

// field is a value whose JSON may have another type than in Linear's schema.
type field[T any] struct {
	value *T
	wrong bool // its type is not T; value is nil
}

// UnmarshalJSON implements json.Unmarshaler. It never fails, so that a wrong value does not
// make a whole page unreadable.
func (f *field[T]) UnmarshalJSON(data []byte) error {
	// A page has thousands of strings, and json.Unmarshal would check each a second time.
	target, isString := any(&f.value).(**string)
	if isString && isPlain(data) {
		value := string(data[1 : len(data)-1])
		*target = &value
		return nil
	}
	if err := json.Unmarshal(data, &f.value); err != nil {
		*f = field[T]{wrong: true}
	}
	return nil
}

// isPlain reports whether valid JSON is a string without escapes: "ABC-7" is one, "a\tb" is not.
func isPlain(data []byte) bool {
	return len(data) >= 2 && data[0] == '"' && bytes.IndexByte(data, '\\') < 0 && utf8.Valid(data)
}

// wireIssue is an issue as Linear sends it.
type wireIssue struct {
	ID          field[string]        `json:"id"`
	Identifier  field[string]        `json:"identifier"`
	Title       field[string]        `json:"title"`
	Description field[string]        `json:"description"`
	Priority    json.RawMessage      `json:"priority"`
	BranchName  field[string]        `json:"branchName"`
	URL         field[string]        `json:"url"`
	CreatedAt   field[string]        `json:"createdAt"`
	UpdatedAt   field[string]        `json:"updatedAt"`
	State       field[wireStateName] `json:"state"`
	Project     field[struct {
		SlugID      string        `json:"slugId"`
		Description field[string] `json:"description"` // asked for only if a prompt names it
	}] `json:"project"`
	Assignee  field[wireAssignee]          `json:"assignee"`
	Labels    field[list[field[wireName]]] `json:"labels"`
	Relations field[list[wireRelation]]    `json:"inverseRelations"`
	Comments  field[list[struct {
		CreatedAt *string `json:"createdAt"`
	}]] `json:"comments"`
}

type wireAssignee struct {
	ID    string `json:"id"`
	Email string `json:"email"`
	IsMe  bool   `json:"isMe"`
}

type wireStateName struct {
	Name *string `json:"name"`
}

type wireRelation struct {
	Type  string `json:"type"`
	Issue struct {
		ID         *string       `json:"id"`
		Identifier *string       `json:"identifier"`
		State      wireStateName `json:"state"`
	} `json:"issue"`
}

// issue normalises a record (specification 4.1.1 and 11.3) and fetches the further pages of
// its labels and relations. The error is *malformed if the record is no issue.
func (c *Client) issue(ctx context.Context, w *wireIssue) (reconcile.Issue, error) {
	id := text.OrEmpty(w.ID.value)
	identifier := text.OrEmpty(w.Identifier.value)
	if reason := w.fault(); reason != "" {
		return reconcile.Issue{}, &malformed{id, identifier, reason}
	}
	for _, name := range w.unreadable() {
		c.warn(identifier, name)
	}
	labels, err := c.labels(ctx, w)
	if err != nil {
		return reconcile.Issue{}, err
	}
	blockers, err := c.blockers(ctx, w)
	if err != nil {
		return reconcile.Issue{}, err
	}
	issue := reconcile.Issue{
		ID:          id,
		Identifier:  identifier,
		Title:       *w.Title.value,
		Description: w.Description.value,
		Priority:    integer(w.Priority),
		State:       strings.TrimSpace(*w.State.value.Name),
		BranchName:  w.BranchName.value,
		URL:         w.URL.value,
		Labels:      labels,
		BlockedBy:   blockers,
		Assignee:    (*reconcile.Assignee)(w.Assignee.value),
		Project:     text.OrEmpty(w.Project.value).SlugID,
		CreatedAt:   text.Time(text.OrEmpty(w.CreatedAt.value)),
		UpdatedAt:   text.Time(text.OrEmpty(w.UpdatedAt.value)),
	}
	// Linear writes "" for none
	issue.ProjectDescription = text.OrNull(text.OrEmpty(text.OrEmpty(w.Project.value).Description.value))
	issue.Elsewhere = !c.has(issue)
	return issue, nil
}

// unreadable lists the optional fields of a record whose values have another type than in
// Linear's schema, such as "url". The issue is used without them. Client.labels looks at the
// labels, which have several pages.
func (w *wireIssue) unreadable() (names []string) {
	note := func(name string, wrong bool) {
		if wrong {
			names = append(names, name)
		}
	}
	note("description", w.Description.wrong)
	note("branchName", w.BranchName.wrong)
	note("url", w.URL.wrong)
	note("assignee", w.Assignee.wrong)
	note("project description", text.OrEmpty(w.Project.value).Description.wrong)
	return names
}

// has reports whether an issue is in the client's project and team. Linear gives an issue a
// new identifier when it moves to another team: WEB-12 becomes OPS-3.
func (c *Client) has(issue reconcile.Issue) bool {
	if c.team != "" && !strings.HasPrefix(strings.ToUpper(issue.Identifier), c.team+"-") {
		return false
	}
	slugs := c.slugIDs()
	return len(slugs) == 0 || slices.Contains(slugs, issue.Project)
}

// fault returns why a record is no issue; empty if it is an issue.
func (w *wireIssue) fault() string {
	blank := func(s *string) bool { return s == nil || strings.TrimSpace(*s) == "" }
	for _, f := range []struct {
		name    string
		wrong   bool
		missing bool
	}{
		{"id", w.ID.wrong, blank(w.ID.value)},
		{"identifier", w.Identifier.wrong, blank(w.Identifier.value)},
		{"title", w.Title.wrong, blank(w.Title.value)},
		{"state", w.State.wrong, blank(text.OrEmpty(w.State.value).Name)},
		{"inverseRelations", w.Relations.wrong, false},
		{"project", w.Project.wrong, false},
	} {
		switch {
		case f.wrong:
			return f.name + " has an unexpected type"
		case f.missing:
			return f.name + " is missing"
		}
	}
	return ""
}

// warn reports once that a field of an issue is ignored. The issue can still be worked on.
func (c *Client) warn(identifier, field string) {
	c.WarnOnce(fmt.Sprintf("%s: Linear's %s has an unexpected type and is ignored", identifier, field))
}

// integer returns a whole number, and nil for anything else (specification 11.3). Linear's
// type is Float: 2 may arrive as 2.0.
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

// labels returns the names of all labels, in lower case. A label of a wrong type, such as 7 or
// {"name": 7}, is ignored, with a warning; so is one without a name.
func (c *Client) labels(ctx context.Context, w *wireIssue) ([]string, error) {
	labelsOf := func(page *wireIssue) list[field[wireName]] {
		if page.Labels.wrong {
			c.warn(*w.Identifier.value, "labels")
			return list[field[wireName]]{Nodes: []field[wireName]{}}
		}
		return text.OrEmpty(page.Labels.value)
	}
	all, err := innerPages(ctx, c, w, "labels", document("more_labels"), labelsOf)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, label := range all {
		name := strings.ToLower(text.OrEmpty(label.value).Name)
		if name == "" {
			c.warn(*w.Identifier.value, "a label")
			continue
		}
		names = append(names, name)
	}
	return text.Unique(names), nil
}

// blockers returns the issues that block this issue.
func (c *Client) blockers(ctx context.Context, w *wireIssue) ([]reconcile.BlockerRef, error) {
	query := document("more_relations", "relation_fields")
	relationsOf := func(w *wireIssue) list[wireRelation] { return text.OrEmpty(w.Relations.value) }
	all, err := innerPages(ctx, c, w, "relations", query, relationsOf)
	if err != nil {
		return nil, err
	}
	blockers := []reconcile.BlockerRef{}
	for _, r := range all {
		if !strings.EqualFold(strings.TrimSpace(r.Type), "blocks") {
			continue
		}
		blockers = append(blockers, reconcile.BlockerRef{
			ID:         r.Issue.ID,
			Identifier: r.Issue.Identifier,
			State:      r.Issue.State.Name,
		})
	}
	return blockers, nil
}

// innerPages returns the entries of a connection of the record, with its further pages. of
// returns the list in a page. A further page without a list is an error: without its blockers
// the issue could start.
func innerPages[T any](
	ctx context.Context,
	c *Client,
	w *wireIssue,
	what, query string,
	of func(*wireIssue) list[T],
) (all []T, err error) {
	what += " of " + *w.Identifier.value
	vars := map[string]any{"id": *w.ID.value, "first": innerPage}
	err = transport.Pages(c.Client, what, vars, func() (page list[T], err error) {
		issue := w
		if vars["after"] != nil {
			data, err := ask[struct {
				Issue *wireIssue `json:"issue"`
			}](ctx, c, query, vars)
			if err != nil {
				return page, err
			}
			if data.Issue == nil {
				return page, c.Fail("linear_unknown_payload", "the answer contains no "+what)
			}
			issue = data.Issue
		}
		page = of(issue)
		if page.Nodes == nil && issue == w {
			page.Nodes = []T{}
		}
		all = append(all, page.Nodes...)
		return page, nil
	})
	return all, err
}
