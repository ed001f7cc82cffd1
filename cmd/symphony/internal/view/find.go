package view

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// issueSet is the ids of the issues that a view is confined to; nil for all.
type issueSet map[string]bool

func (s issueSet) has(id string) bool { return s == nil || s[id] }

func (s issueSet) ids() []string { return slices.Sorted(maps.Keys(s)) }

// findIssues finds issues by identifiers or ids in the database.
func findIssues(ctx context.Context, db *state.DB, refs []string) (issueSet, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	found := issueSet{}
	for _, ref := range refs {
		id, _, known, err := db.Views.FindIssue(ctx, ref)
		if err != nil {
			return nil, err
		}
		if !known {
			return nil, UnknownIssue(ctx, db, ref, "it is neither claimed nor skipped, and has had no run")
		}
		found[id] = true
	}
	return found, nil
}

// UnknownIssue is the error for an issue that the database does not know. It suggests similar identifiers.
func UnknownIssue(ctx context.Context, db *state.DB, ref, why string) error {
	names, err := db.Views.Identifiers(ctx)
	if err != nil {
		return err
	}
	return &reconcile.Error{
		Code: "issue_not_found", Message: ref + " is not known here: " + why + similarIssues(ref, names),
		Hint: "symphony ps --all lists the known issues; symphony show " + ref + " asks the tracker",
	}
}

// WorkspacePath is the workspace of an issue's last run.
func WorkspacePath(ctx context.Context, p *project.Project, ref string) (path, identifier string, err error) {
	db, err := project.OpenForReading(ctx, p)
	if err != nil {
		return "", "", err
	}
	defer db.Close()
	id, identifier, known, err := db.Views.FindIssue(ctx, ref)
	if err != nil {
		return "", "", err
	}
	if !known {
		return "", "", UnknownIssue(ctx, db, ref, "it has no workspace")
	}
	run, _, err := db.Views.LastRun(ctx, id)
	if err == nil && run.WorkspacePath == "" {
		err = &reconcile.Error{Code: "workspace_not_found", Message: identifier + " has had no workspace yet", Hint: "symphony show " + identifier + " says why"}
	}
	return run.WorkspacePath, identifier, err
}

// similarIssues suggests up to three identifiers at the smallest edit distance, if that is at most two.
func similarIssues(ref string, names []string) string {
	const near, shown = 2, 3
	best, least := []string{}, near
	for _, name := range names {
		switch d := text.EditDistance(strings.ToUpper(ref), strings.ToUpper(name)); {
		case d < least:
			best, least = []string{name}, d
		case d == least:
			best = append(best, name)
		}
	}
	if len(best) == 0 {
		return ""
	}
	slices.SortFunc(best, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
	return ", did you mean " + strings.Join(best[:min(len(best), shown)], " or ") + "?"
}
