package view

import (
	"context"
	"os"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

// placeRow is the workspace of the newest run that had one.
type PlaceRow struct {
	Path   string  `json:"path"`
	Host   *string `json:"host"`
	Exists bool    `json:"exists"`
	// Git is null where there is no repository.
	Git *GitRow `json:"git"`
	// Error says why the repository could not be read.
	Error *term.ErrorJSON `json:"error"`
}

type GitRow struct {
	Branch *string `json:"branch"` // null where HEAD is at a commit of its own
	Commit *string `json:"commit"`
	// Base is what the work is compared with, Ahead the commits that it has beside it; null where there is nothing to
	// compare with.
	Base  *string `json:"base"`
	Ahead *int    `json:"commits_ahead"`
	// RemoteBranch is origin's branch of the same name as the workspace knows it, Unpushed the commits that are not on it;
	// null where it knows none.
	RemoteBranch *string      `json:"remote_branch"`
	Unpushed     *int         `json:"commits_not_pushed"`
	ChangedCount int          `json:"changed_count"`
	Changed      []changedRow `json:"changed"`
}

type changedRow struct {
	Status string `json:"status"`
	Path   string `json:"path"`
}

func (v *IssueView) addWorkspace(ctx context.Context, f *issueFacts) error {
	for _, r := range f.runs {
		if r.WorkspacePath == "" {
			continue
		}
		row := &PlaceRow{Path: r.WorkspacePath, Host: term.OrNull(r.Host)}
		v.Workspace = row
		if row.Exists = isDir(r.WorkspacePath); !row.Exists {
			return nil
		}
		git, ok, err := workspace.Inspect(ctx, r.WorkspacePath)
		if err != nil {
			e := exit.From(project.WorkspaceError(err))
			row.Error = new(term.ErrorOf(e))
		}
		if ok {
			row.Git = newGitRow(git)
		}
		return ctx.Err()
	}
	return nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func newGitRow(g workspace.Git) *GitRow {
	row := &GitRow{Branch: term.OrNull(g.Branch), Commit: term.OrNull(g.Commit), Base: term.OrNull(g.Base), ChangedCount: g.Count, Changed: []changedRow{}}
	if g.Base != "" {
		row.Ahead = &g.Ahead
	}
	if g.Remote != "" {
		row.RemoteBranch, row.Unpushed = &g.Remote, &g.Unpushed
	}
	for _, c := range g.Changed {
		row.Changed = append(row.Changed, changedRow(c))
	}
	return row
}
