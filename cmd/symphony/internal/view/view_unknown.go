package view

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// unknownIssue names what was probably meant.
func UnknownIssue(ctx context.Context, db *state.DB, ref, why string) error {
	names, err := db.Identifiers(ctx)
	if err != nil {
		return err
	}
	return &reconcile.Error{
		Code: "issue_not_found", Message: ref + " is not known here: " + why + NearestIssue(ref, names),
		Hint: "symphony ps --all lists what there is",
	}
}

// nearestIssue names what was probably meant, if anything is near.
func NearestIssue(ref string, names []string) string {
	best, least := []string{}, 3
	upper := strings.ToUpper(ref)
	for _, name := range names {
		d := text.EditDistance(upper, strings.ToUpper(name))
		if d < least {
			best, least = best[:0], d
		}
		if d == least && d < 3 {
			best = append(best, name)
		}
	}
	if len(best) == 0 {
		return ""
	}
	slices.SortFunc(best, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
	return ", did you mean " + strings.Join(best[:min(len(best), 3)], " or ") + "?"
}
