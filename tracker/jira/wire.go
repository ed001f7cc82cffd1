package jira

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/adf"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// fields are those of an issue that are read.
var fields = []string{
	"summary", "description", "status", "priority", "labels", "assignee", "created", "updated",
	"project", "issuelinks",
}

// wireIssue is an issue in Jira's words.
type wireIssue struct {
	ID     string     `json:"id"`
	Key    string     `json:"key"`
	Fields wireFields `json:"fields"`
}

type wireFields struct {
	Summary     string          `json:"summary"`
	Description json.RawMessage `json:"description"`
	Status      status          `json:"status"`
	Priority    *struct {
		Name string `json:"name"`
	} `json:"priority"`
	Labels   []string    `json:"labels"`
	Assignee *account    `json:"assignee"`
	Created  string      `json:"created"`
	Updated  string      `json:"updated"`
	Project  project     `json:"project"`
	Links    []issueLink `json:"issuelinks"`
}

// status is a status of a workflow. In a project that its team manages two may have the same name.
type status struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Category struct {
		Key string `json:"key"` // new, indeterminate or done
	} `json:"statusCategory"`
}

func (s status) isDone() bool { return s.Category.Key == "done" }

// issueLink is a link of an issue to another one. Of the two directions one is nil.
type issueLink struct {
	Type struct {
		Name   string `json:"name"`
		Inward string `json:"inward"` // what the other issue does to this one
	} `json:"type"`
	Inward *struct {
		ID     string `json:"id"`
		Key    string `json:"key"`
		Fields struct {
			Status status `json:"status"`
		} `json:"fields"`
	} `json:"inwardIssue"`
}

// blocks reports whether the other issue blocks the one with the link.
func (l issueLink) blocks() bool {
	isNamed := strings.EqualFold(l.Type.Name, "Blocks") || strings.EqualFold(l.Type.Inward, "is blocked by")
	return isNamed && l.Inward != nil
}

// timeOf reads a time such as 2026-01-31T09:30:00.000+0100; zero if it is none.
func timeOf(written string) time.Time {
	for _, layout := range []string{"2006-01-02T15:04:05.999-0700", time.RFC3339} {
		at, err := time.Parse(layout, written)
		if err == nil {
			return at.UTC()
		}
	}
	return time.Time{}
}

// read decodes an issue. A record that is no issue has its fault. The error is of the question
// whether the issue is in the project.
func (c *client) read(ctx context.Context, raw json.RawMessage, me account) (reconcile.Issue, wireIssue, error) {
	var w wireIssue
	err := json.Unmarshal(raw, &w)
	created := timeOf(w.Fields.Created)
	fault := ""
	switch {
	case err != nil:
		fault = "it can't be decoded: " + err.Error()
	case w.ID == "" || w.Key == "":
		fault = "its id or key is missing"
	case strings.TrimSpace(w.Fields.Summary) == "":
		fault = "its summary is missing"
	case w.Fields.Status.Name == "":
		fault = "its status is missing"
	case w.Fields.Project.Key == "" || w.Fields.Project.ID == "":
		fault = "its project is missing"
	case created.IsZero():
		fault = "its time of creation is missing"
	}
	if fault != "" {
		return reconcile.Issue{
			ID:         w.ID,
			Identifier: w.Key,
			State:      w.Fields.Status.Name,
			Labels:     []string{},
			BlockedBy:  []reconcile.BlockerRef{},
			Malformed:  c.api.Scrub(fault),
		}, w, nil
	}
	issue := c.issue(w, created, me)
	isHere, err := c.isHere(ctx, w.Fields.Project)
	issue.Elsewhere = !isHere
	return issue, w, err
}

func (c *client) issue(w wireIssue, created time.Time, me account) reconcile.Issue {
	f := w.Fields
	address := c.site + "/browse/" + w.Key
	labels := text.Map(f.Labels, strings.ToLower)
	slices.Sort(labels)
	issue := reconcile.Issue{
		ID:         w.ID,
		Identifier: w.Key,
		Title:      f.Summary,
		State:      f.Status.Name,
		URL:        &address,
		Labels:     append([]string{}, labels...),
		BlockedBy:  []reconcile.BlockerRef{},
		CreatedAt:  &created,
	}
	if updated := timeOf(f.Updated); !updated.IsZero() {
		issue.UpdatedAt = &updated
	}
	if description := adf.Markdown(f.Description); description != "" {
		issue.Description = &description
	}
	if f.Priority != nil {
		issue.Priority = c.priority(f.Priority.Name)
	}
	if f.Assignee != nil {
		issue.Assignee = &reconcile.Assignee{
			ID:    f.Assignee.ID,
			Email: c.emailOf(*f.Assignee, me),
			IsMe:  f.Assignee.ID == me.ID,
		}
	}
	for _, l := range f.Links {
		if !l.blocks() {
			continue
		}
		issue.BlockedBy = append(issue.BlockedBy, reconcile.BlockerRef{
			ID:         &l.Inward.ID,
			Identifier: &l.Inward.Key,
			State:      &l.Inward.Fields.Status.Name,
			Ended:      l.Inward.Fields.Status.isDone(),
		})
	}
	return issue
}

// priority is the number of a priority, 1 to 4; nil for a name that is not in the settings.
func (c *client) priority(name string) *int {
	same := func(p string) bool { return reconcile.SameState(p, name) }
	at := slices.IndexFunc(c.o.Priorities, same)
	if at < 0 {
		return nil
	}
	number := min(at+1, 4)
	return &number
}

// emailOf is the email of an account. Jira often hides it, also to its owner.
func (c *client) emailOf(a, me account) string {
	if a.Email == "" && a.ID == me.ID {
		return c.o.User
	}
	return a.Email
}
