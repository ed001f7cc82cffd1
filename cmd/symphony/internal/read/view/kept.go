package view

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/state"
)

// KeptRow is the workspace of a finished issue that is kept because it contains work that
// exists nowhere else.
type KeptRow struct {
	IssueHead
	Path      string    `json:"workspace_path"`
	Unsaved   string    `json:"unsaved"`
	Since     time.Time `json:"kept_since"`
	CheckedAt time.Time `json:"checked_at"`
}

// Kept lists the workspaces of a project's unclaimed issues that the last removal kept because
// of unsaved work. It reads their records, because the skips of the last pass are older. A
// root that can't be read has none: the passes report it.
func Kept(
	ctx context.Context,
	stateDir string,
	db *state.DB,
	recorded reconcile.State,
) (list []reconcile.Workspace, err error) {
	if db == nil {
		return nil, nil
	}
	roots, err := wiring.RootsOf(ctx, db)
	claimed := func(id string) bool {
		return slices.ContainsFunc(recorded.Claims, func(c reconcile.Claim) bool { return c.IssueID == id })
	}
	for _, root := range roots {
		answer, _ := wiring.ThisMachine().Root(ctx, host.RootRequest{Root: root, Records: true})
		for _, w := range answer.Workspaces {
			if w.Unsaved != "" && w.StateDir == stateDir && !claimed(w.IssueID) {
				list = append(list, w.Workspace)
			}
		}
	}
	for _, w := range recorded.RemoteWorkspaces {
		if w.Unsaved != "" && !claimed(w.IssueID) {
			list = append(list, w)
		}
	}
	return list, err
}

// KeptRow takes title and address from the issue's last run.
func (f *Facts) KeptRow(w reconcile.Workspace, last reconcile.Run) KeptRow {
	head := IssueHead{
		f.Name,
		w.IssueID,
		w.Identifier,
		last.Issue.URL,
		last.Issue.Title,
		last.Issue.Labels,
		"",
	}
	return KeptRow{head, w.Where(), w.Unsaved, w.KeptSince.UTC(), w.UnsavedAt.UTC()}
}

// KeptRows returns the rows of the issues that are wanted.
func (f *Facts) KeptRows(ctx context.Context) ([]KeptRow, error) {
	rows := []KeptRow{}
	kept, err := Kept(ctx, f.Project.StateDir, f.DB, f.Recorded)
	for _, w := range kept {
		if !f.wants(w.IssueID) {
			continue
		}
		last, _, runErr := f.DB.Runs.Last(ctx, w.IssueID)
		rows = append(rows, f.KeptRow(w, last))
		err = errors.Join(err, runErr)
	}
	return rows, err
}
