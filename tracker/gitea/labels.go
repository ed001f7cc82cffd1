package gitea

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/giteaapi"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// labelEvent is an entry of an issue's timeline. Of the type label it says that a label was set,
// with the body 1, or removed.
type labelEvent struct {
	Type      string            `json:"type"`
	Body      string            `json:"body"`
	Label     *label            `json:"label"`
	User      *giteaapi.Account `json:"user"`
	CreatedAt time.Time         `json:"created_at"`
}

// labelsSet returns who set the present labels of an issue, by its timeline. Gitea does not tell
// when a label was renamed; agents have no tool to rename one.
func (c *client) labelsSet(ctx context.Context, issueID string) ([]reconcile.LabelSet, error) {
	// A label that is set while the timeline is read is not among the present labels.
	r, w, err := c.existing(ctx, issueID)
	if err != nil {
		return nil, err
	}
	me, err := c.api.Me(ctx)
	if err != nil {
		return nil, err
	}
	last := map[int64]labelEvent{} // by the id of the label
	err = c.within(r.Repo, func(base string) error {
		clear(last)
		path := fmt.Sprintf("%s/issues/%d/timeline", base, r.Number)
		return giteaapi.List(
			ctx, c.api, giteaapi.ReadIssue, path, url.Values{}, nil,
			func(events []labelEvent) bool {
				for _, e := range events { // the oldest first
					if e.Type == "label" && e.Label != nil && e.Body == "1" {
						last[e.Label.ID] = e
					}
				}
				return true
			},
		)
	})
	if err != nil {
		return nil, err
	}
	return text.Map(w.Labels, func(l label) reconcile.LabelSet {
		set := reconcile.LabelSet{Label: c.api.Scrub(strings.ToLower(l.Name))}
		e, found := last[l.ID]
		if !found || e.User == nil || e.User.ID == giteaapi.GhostID {
			return set
		}
		set.At = e.CreatedAt.UTC()
		set.By = c.api.Scrub(e.User.Login)
		set.ByIDs = reconcile.UserNames(e.User.Login, e.User.ID)
		set.Own = e.User.ID == me.ID
		return set
	}), nil
}
