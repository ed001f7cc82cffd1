package view

import (
	"context"
	"maps"
	"slices"

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

// UnknownIssue is the error for an issue that the database does not know. It suggests a similar identifier.
func UnknownIssue(ctx context.Context, db *state.DB, ref, why string) error {
	names, err := db.Views.Identifiers(ctx)
	if err != nil {
		return err
	}
	return &reconcile.Error{
		Code: "issue_not_found", Message: ref + " is not known here: " + why + text.DidYouMean(ref, names, "%s"),
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
