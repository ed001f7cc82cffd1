package gitlab

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/gitlabapi"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// labelEvent says that a label of an issue was set or removed.
type labelEvent struct {
	Action string             `json:"action"` // add or remove
	Label  *label             `json:"label"`  // nil for a label that was deleted
	User   *gitlabapi.Account `json:"user"`
	At     time.Time          `json:"created_at"`
}

// labelsSet returns who set the present labels of an issue, by GitLab's list of events. It does
// not tell when a label was renamed; agents have no tool to rename one.
func (c *client) labelsSet(ctx context.Context, issueID string) ([]reconcile.LabelSet, error) {
	// A label that is set while the events are read is not among the present labels.
	r, w, err := c.existing(ctx, issueID)
	if err != nil {
		return nil, err
	}
	me, err := c.api.Me(ctx)
	if err != nil {
		return nil, err
	}
	last := map[string]labelEvent{} // by the name of the label
	err = c.within(ctx, r.Repo, func(base string) error {
		clear(last)
		path := fmt.Sprintf("%s/issues/%d/resource_label_events", base, r.Number)
		return gitlabapi.List(ctx, c.api, path, nil, nil, func(events []labelEvent) bool {
			for _, e := range events { // the oldest first
				if e.Label != nil && e.Action == "add" {
					last[e.Label.Name] = e
				}
			}
			return true
		})
	})
	if err != nil {
		return nil, err
	}
	return text.Map(w.Labels, func(name string) reconcile.LabelSet {
		set := reconcile.LabelSet{Label: c.api.Scrub(strings.ToLower(name))}
		e, found := last[name]
		if !found || e.User == nil {
			return set
		}
		set.At = e.At.UTC()
		set.By = c.api.Scrub(e.User.Login)
		set.ByIDs = e.User.Names()
		set.Own = e.User.ID == me.ID
		return set
	}), nil
}
