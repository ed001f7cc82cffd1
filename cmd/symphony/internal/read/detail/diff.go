package detail

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/patch"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/state"
)

// WriteDiff writes the changes in the workspace of an issue since its base commit, or between
// attempts such as "1..2", as git diff does, and returns the run whose workspace it is. It
// runs no program that the repository names.
func WriteDiff(
	ctx context.Context, p *wiring.Project, ref, attempts string, w io.Writer,
) (run reconcile.Run, err error) {
	db, err := wiring.OpenForReading(ctx, p)
	if err != nil {
		return run, err
	}
	defer db.Close()
	run, err = lastRun(ctx, p, db, ref)
	if err != nil {
		return run, err
	}
	q := host.WorkspaceRequest{Path: run.WorkspacePath}
	if attempts != "" {
		q.From, q.To, err = between(ctx, p, db, run, attempts)
		if err != nil {
			return run, err
		}
	}
	found := false
	err = wiring.Visit(ctx, p, db, run, "diff", func(ctx context.Context, m host.Machine) error {
		found, err = m.Diff(ctx, q, w)
		return err
	})
	if err != nil {
		return run, err
	}
	if !found {
		return run, reconcile.NewError("not_found", "there is no git repository at "+run.WorkspaceWhere(), "").
			WithHint("%s says what is there", reconcile.CommandFor("show", run.Identifier))
	}
	return run, nil
}

// Diff is the output of WriteDiff.
type Diff struct {
	Identifier string `json:"issue_identifier"`
	// the attempts that are compared, such as 1..2; null for all changes
	Attempts *string      `json:"attempts"`
	Files    []patch.File `json:"files"`
	Diff     string       `json:"diff"`
}

// lastRun is the last run with a workspace of an issue, or of an agent without an issue.
func lastRun(ctx context.Context, p *wiring.Project, db *state.DB, ref string) (run reconcile.Run, err error) {
	id, identifier, known, err := db.Views.FindIssue(ctx, ref)
	if err != nil {
		return run, err
	}
	if !known {
		if err := wiring.RefuseOfTeam(ctx, p, db, ref); err != nil {
			return run, err
		}
		return run, wiring.UnknownIssue(ctx, db, ref, "it has no workspace")
	}
	runs, err := db.Runs.Since(ctx, id, time.Time{})
	if err != nil {
		return run, err
	}
	for _, run = range slices.Backward(runs) {
		if run.WorkspacePath != "" { // a run that fails at its start has none
			run.Identifier = identifier
			return run, nil
		}
	}
	return reconcile.Run{}, reconcile.NewError("not_found", identifier+" has had no workspace yet", "").
		WithHint("%s explains it", reconcile.CommandFor("show", identifier))
}
