package detail

import (
	"context"
	"io"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// WriteDiff writes what has changed in the workspace of an issue since its base commit, as git diff does, and returns the issue's
// identifier. Nothing that the repository names is run.
func WriteDiff(ctx context.Context, p *project.Project, ref string, w io.Writer) (identifier string, err error) {
	path, identifier, err := workspacePath(ctx, p, ref)
	if err != nil {
		return "", err
	}
	found, err := project.ThisMachine().Diff(ctx, host.WorkspaceRequest{Path: path}, w)
	if err == nil && !found {
		err = reconcile.NewError("workspace_not_found", "there is no git repository at "+path, "symphony show "+identifier+" says what is there")
	}
	return identifier, err
}

// workspacePath is the workspace of an issue's last run.
func workspacePath(ctx context.Context, p *project.Project, ref string) (path, identifier string, err error) {
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
		return "", "", project.UnknownIssue(ctx, db, ref, "it has no workspace")
	}
	if err := project.RefuseElsewhere(ctx, db, id, "diff"); err != nil {
		return "", identifier, err
	}
	run, _, err := db.Runs.Last(ctx, id)
	if err == nil && run.WorkspacePath == "" {
		err = reconcile.NewError("workspace_not_found", identifier+" has had no workspace yet", "symphony show "+identifier+" explains it")
	}
	return run.WorkspacePath, identifier, err
}
