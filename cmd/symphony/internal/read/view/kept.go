package view

import (
	"context"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile"
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
// root that can't be read is left out: the passes report it.
func Kept(
	ctx context.Context, stateDir string, db *state.DB, recorded reconcile.State,
) (list []reconcile.Workspace, err error) {
	if db == nil {
		return nil, nil
	}
	roots, err := wiring.RootsOf(ctx, db)
	if err != nil {
		return nil, err
	}
	claimed := func(id string) bool {
		return slices.ContainsFunc(recorded.Claims, func(c reconcile.Claim) bool { return c.IssueID == id })
	}
	for _, root := range roots {
		spaces, _ := wiring.ThisMachine().Workspaces(ctx, root)
		for _, w := range spaces {
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
	return list, nil
}

// KeptRow takes title and address from the issue's last run.
func (f *Facts) KeptRow(w reconcile.Workspace, last reconcile.Run) KeptRow {
	return KeptRow{
		IssueHead: IssueHead{
			Project:    f.Name,
			IssueID:    w.IssueID,
			Identifier: w.Identifier,
			IssueURL:   last.Issue.URL,
			Title:      last.Issue.Title,
			labels:     last.Issue.Labels,
		},
		Path:      w.Where(),
		Unsaved:   w.Unsaved,
		Since:     w.KeptSince.UTC(),
		CheckedAt: w.UnsavedAt.UTC(),
	}
}

// KeptRows returns the rows of the issues that are wanted.
func (f *Facts) KeptRows(ctx context.Context) ([]KeptRow, error) {
	kept, err := Kept(ctx, f.Project.StateDir, f.DB, f.Recorded)
	if err != nil {
		return nil, err
	}
	rows := []KeptRow{}
	for _, w := range kept {
		if !f.wants(w.IssueID) {
			continue
		}
		last, _, err := f.DB.Runs.Last(ctx, w.IssueID)
		if err != nil {
			return nil, err
		}
		rows = append(rows, f.KeptRow(w, last))
	}
	return rows, nil
}
