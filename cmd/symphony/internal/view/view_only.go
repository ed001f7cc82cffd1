package view

import (
	"context"
	"maps"
	"slices"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// chosenIssues are the issues that a view is confined to, by id; nil for all.
type chosenIssues map[string]bool

func (c chosenIssues) has(id string) bool { return c == nil || c[id] }

// ids are those of the issues, in an order that stays.
func (c chosenIssues) ids() []string { return slices.Sorted(maps.Keys(c)) }

// choose finds out which issues are meant by identifiers or ids.
func choose(ctx context.Context, db *state.DB, refs []string) (chosenIssues, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	only := chosenIssues{}
	for _, ref := range refs {
		id, _, known, err := db.FindIssue(ctx, ref)
		if err != nil {
			return nil, err
		}
		if !known {
			return nil, &reconcile.Error{
				Code: "issue_not_found", Message: ref + " is neither claimed nor skipped, and has no run here",
				Hint: "symphony ps --all lists what there is",
			}
		}
		only[id] = true
	}
	return only, nil
}
