package view

import (
	"context"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/state"
)

// KeptRow is the workspace of a finished issue that is kept because it contains work that exists nowhere else.
type KeptRow struct {
	IssueID    string    `json:"issue_id"`
	Identifier string    `json:"issue_identifier"`
	Path       string    `json:"workspace_path"`
	Unsaved    string    `json:"unsaved"`
	Since      time.Time `json:"kept_since"`
	CheckedAt  time.Time `json:"checked_at"`
}

// Kept lists the workspaces of a project's unclaimed issues that the last removal kept because of unsaved work. It reads their
// records, because the skips of the last pass are older. A root that can't be read has none: the passes report it.
func Kept(ctx context.Context, stateDir string, db *state.DB, recorded reconcile.State) (list []reconcile.Workspace, err error) {
	if db == nil {
		return nil, nil
	}
	roots, err := project.RootsOf(ctx, db)
	claimed := func(id string) bool {
		return slices.ContainsFunc(recorded.Claims, func(c reconcile.Claim) bool { return c.IssueID == id })
	}
	for _, root := range roots {
		answer, _ := project.NewHost().Root(ctx, host.RootRequest{Root: root, Records: true})
		for _, w := range answer.Workspaces {
			if w.Unsaved != "" && w.StateDir == stateDir && !claimed(w.IssueID) {
				list = append(list, w.Workspace)
			}
		}
	}
	return list, err
}

func newKeptRow(w reconcile.Workspace) *KeptRow {
	return &KeptRow{w.IssueID, w.Identifier, w.Path, w.Unsaved, w.KeptSince.UTC(), w.UnsavedAt.UTC()}
}

// keptRows returns the rows of the issues that are wanted.
func (f *facts) keptRows(kept []reconcile.Workspace) []KeptRow {
	rows := []KeptRow{}
	for _, w := range kept {
		if f.wants(w.IssueID) {
			rows = append(rows, *newKeptRow(w))
		}
	}
	return rows
}
