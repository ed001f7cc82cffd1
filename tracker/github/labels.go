package github

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// maxEventPages bounds each read of the labels that were set on an issue, with 100 events a
// page. If a label was set before them, nobody is known to have set it.
const maxEventPages = 5

// labelEvent says that a label was set. It contains the id of today's label, also if that was
// renamed since.
type labelEvent struct {
	CreatedAt time.Time `json:"createdAt"`
	Label     struct {
		ID string `json:"id"`
	} `json:"label"`
	Actor *eventActor `json:"actor"` // nil if the account was deleted
}

type eventActor struct {
	Type  string `json:"__typename"`
	Login string `json:"login"`
	ID    int64  `json:"databaseId"` // only of users
}

// labelsOf are the labels of an issue, with a page of the events in which labels were set, the
// oldest first.
type labelsOf struct {
	Labels nodes[struct {
		ID        string     `json:"id"`
		Name      string     `json:"name"`
		CreatedAt *time.Time `json:"createdAt"`
		UpdatedAt *time.Time `json:"updatedAt"`
	}] `json:"labels"`
	Events nodes[labelEvent] `json:"timelineItems"`
}

// LabelsSet returns who set the present labels of an issue, by its timeline.
func (c *Client) LabelsSet(ctx context.Context, issueID string) ([]reconcile.LabelSet, error) {
	at, err := c.IssueOf(issueID)
	if err != nil {
		return nil, err
	}
	owner, name, _ := strings.Cut(c.Present(at.Repo), "/")
	vars := map[string]any{"owner": owner, "name": name, "number": at.Number, "before": nil}
	// A label that is set while the pages are read has its event on none of them, so that an
	// older event would count for it.
	var present *labelsOf
	var me string
	last := map[string]labelEvent{} // by the id of the label
	for range maxEventPages {
		data, _, err := graphQL[struct {
			Viewer     account `json:"viewer"`
			Repository struct {
				Issue *labelsOf `json:"issue"`
			} `json:"repository"`
		}](ctx, c.requests, document("labels_set"), vars)
		if err != nil {
			return nil, err
		}
		me = data.Viewer.Login
		page := data.Repository.Issue
		if page == nil {
			return nil, c.Missing(issueID)
		}
		if me == "" {
			return nil, c.unknownViewer()
		}
		if present == nil {
			present = page
		}
		for _, event := range slices.Backward(page.Events.Nodes) {
			if _, later := last[event.Label.ID]; !later {
				last[event.Label.ID] = event
			}
		}
		if !page.Events.PageInfo.HasPreviousPage {
			break
		}
		vars["before"] = page.Events.PageInfo.StartCursor
	}
	var sets []reconcile.LabelSet
	for _, label := range present.Labels.Nodes {
		set := reconcile.LabelSet{Label: c.Scrub(strings.ToLower(label.Name))}
		if label.UpdatedAt != nil && (label.CreatedAt == nil || !label.UpdatedAt.Equal(*label.CreatedAt)) {
			set.ChangedAt = label.UpdatedAt.UTC()
		}
		event, found := last[label.ID]
		if found && event.Actor != nil {
			set.At = event.CreatedAt.UTC()
			by, ids := event.Actor.names()
			set.By = c.Scrub(by)
			set.ByIDs = ids
			set.Own = strings.EqualFold(by, me)
		}
		sets = append(sets, set)
	}
	return sets, nil
}

// names returns the name of an actor for people, and its possible names in tracker.operators,
// as in comments. A user could have the login of an app, and an imported account any login.
func (a eventActor) names() (by string, ids []string) {
	switch a.Type {
	case "User":
		return a.Login, reconcile.UserNames(a.Login, a.ID)
	case "Bot":
		by = strings.TrimSuffix(a.Login, "[bot]") + "[bot]"
		return by, []string{by}
	}
	return a.Login, nil
}
