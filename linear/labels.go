package linear

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// historyPage is how many changes of an issue a request reads.
const historyPage = 100

// maxHistory bounds the changes that are read, the newest first. If a label was set before
// them, nobody is known to have set it.
const maxHistory = 500

// wireLabel is a label of an issue.
type wireLabel struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	CreatedAt string `json:"createdAt"`
	UpdatedAt string `json:"updatedAt"`
}

// wireChange is an entry in the history of an issue. Linear adds a user's next changes, if
// they follow soon, to the user's last entry, so that a label may have been added at any time
// between CreatedAt and UpdatedAt.
type wireChange struct {
	Added     []string `json:"addedLabelIds"`
	Removed   []string `json:"removedLabelIds"`
	CreatedAt string   `json:"createdAt"`
	UpdatedAt string   `json:"updatedAt"`
	Actor     *struct {
		wireUser
		ID   string `json:"id"`
		IsMe bool   `json:"isMe"`
	} `json:"actor"` // nil for programs and automations
	Bot *wireUser `json:"botActor"`
}

// LabelsSet returns who set the present labels of an issue, by its history. It omits labels
// with which the issue was created.
func (c *Client) LabelsSet(ctx context.Context, issueID string) ([]reconcile.LabelSet, error) {
	vars := map[string]any{"id": issueID, "first": historyPage}
	// A label that is set while the pages are read has its change on none of them, so that an
	// older change would count for it.
	var present []wireLabel
	var changes []wireChange
	err := transport.Pages(c.Client, "changes of the issue", vars, func() (page list[wireChange], err error) {
		data, err := ask[struct {
			Issue struct {
				Labels  list[wireLabel]  `json:"labels"`
				History list[wireChange] `json:"history"`
			} `json:"issue"`
		}](ctx, c, document("labels_set"), vars)
		if errors.Is(err, reconcile.ErrGone) {
			return page, c.missing(issueID)
		}
		if err != nil {
			return page, err
		}
		if vars["after"] == nil {
			present = data.Issue.Labels.Nodes
		}
		page = data.Issue.History
		changes = append(changes, page.Nodes...)
		page.PageInfo.HasNextPage = page.PageInfo.HasNextPage && len(changes) < maxHistory
		return page, nil
	})
	if err != nil {
		return nil, err
	}
	return text.Map(present, func(l wireLabel) reconcile.LabelSet { return c.labelSet(l, changes) }), nil
}

// labelSet returns who set a label, by the changes of its issue.
func (c *Client) labelSet(l wireLabel, changes []wireChange) reconcile.LabelSet {
	set := reconcile.LabelSet{Label: strings.ToLower(l.Name)}
	changed := text.Time(l.UpdatedAt)
	if changed == nil {
		return set // it may have been renamed
	}
	if l.UpdatedAt != l.CreatedAt {
		set.ChangedAt = *changed
	}
	touching := text.Filter(changes, func(w wireChange) bool {
		return slices.Contains(w.Added, l.ID) || slices.Contains(w.Removed, l.ID)
	})
	var last wireChange
	for _, w := range touching {
		at := text.OrEmpty(text.Time(w.CreatedAt))
		if at.After(set.At) {
			set.At = at
			last = w
		}
	}
	if !slices.Contains(last.Added, l.ID) {
		return set // the last change may have replaced another label by this label
	}
	for _, w := range touching {
		until := text.OrEmpty(text.Time(w.UpdatedAt))
		if !last.sameActor(w) && !until.Before(set.At) {
			return set // the label may have been set by either
		}
	}
	if last.Bot != nil {
		set.By = c.Scrub(last.Bot.Name)
		return set
	}
	if last.Actor == nil {
		return set
	}
	set.By = c.Scrub(strings.TrimSpace(last.Actor.Name))
	set.ByIDs = text.Unique([]string{last.Actor.ID, last.Actor.Email})
	set.Own = last.Actor.IsMe
	return set
}

// sameActor reports whether two changes were made by the same user or program.
func (w wireChange) sameActor(other wireChange) bool {
	if w.Bot != nil || other.Bot != nil {
		return w.Bot != nil && other.Bot != nil && w.Bot.Name == other.Bot.Name
	}
	return w.Actor != nil && other.Actor != nil && w.Actor.ID == other.Actor.ID
}
