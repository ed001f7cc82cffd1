package view

import (
	"context"
	"io"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// WriteDiff writes what has changed in the workspace of an issue since its base commit, as git diff does, and returns the issue's
// identifier. Nothing that the repository names is run.
func WriteDiff(ctx context.Context, p *project.Project, ref string, w io.Writer) (identifier string, err error) {
	path, identifier, err := WorkspacePath(ctx, p, ref)
	if err != nil {
		return "", err
	}
	found, err := git.Diff(ctx, path, w)
	if err == nil && !found {
		err = exit.Fault("workspace_not_found", "there is no git repository at "+path, "symphony show "+identifier+" says what is there")
	}
	return identifier, err
}
