package cleanup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

// space is a workspace that may go.
type space struct {
	root *workspace.Root
	rec  workspace.Record
	size int64
	// held: somebody has its lease.
	held bool
	// unsaved is the work in it that is nowhere else, empty for none.
	unsaved string
}

// remark is what a person should know before it goes.
func (s space) remark() string {
	text := " (" + term.BytesText(s.size)
	if s.held {
		text += ", in use"
	}
	if s.unsaved != "" {
		text += ", " + s.unsaved
	}
	return text + ")"
}

// spacesOf are the workspaces that a project has in its roots, and those there that no project has.
func spacesOf(ctx context.Context, w *term.Env, row project.State) ([]space, error) {
	var list []space
	for _, path := range row.Roots {
		root, found, err := workspace.FindRoot(path)
		if err != nil {
			return nil, project.WorkspaceError(err)
		}
		if !found {
			continue
		}
		records, err := root.List()
		if err != nil {
			return nil, project.WorkspaceError(err)
		}
		for _, rec := range records {
			if rec.StateDir != row.StateDir && !surelyGone(filepath.Join(rec.StateDir, "state.db")) {
				continue // another's; one of a project that was removed is whoever's has the root now
			}
			s := space{root: root, rec: rec}
			if err := s.look(ctx); err != nil {
				return nil, err
			}
			list = append(list, s)
		}
	}
	return list, nil
}

// surelyGone: what can't be looked at may be there.
func surelyGone(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// look finds out how large the workspace is, who has it, and what would be lost with it.
func (s *space) look(ctx context.Context) (err error) {
	if s.held, err = s.root.Held(s.rec.Key); err != nil {
		return project.WorkspaceError(err)
	}
	if s.size, _, err = sizeOf(ctx, s.rec.Path); err != nil {
		return err
	}
	s.unsaved = workspace.Unsaved(ctx, s.rec.Path)
	return nil
}

// removable refuses what somebody works in, and what would be lost.
func removable(spaces []space, force bool) error {
	for _, s := range spaces {
		switch {
		case s.held:
			return &reconcile.Error{
				Code: workspace.CodeBusy, Message: s.rec.Path + " is in use by run " + s.rec.RunID,
				Hint: "end what works in it first: symphony stop " + s.rec.Identifier,
			}
		case s.unsaved != "" && !force:
			return &reconcile.Error{
				Code: "unsaved_work", Message: s.rec.Path + " has " + s.unsaved,
				Hint: "push or copy it first, or give --force to lose it; of what a hook has pushed from elsewhere git fetch learns there",
			}
		}
	}
	return nil
}

// removedByHand names who has removed a workspace where no run has.
const removedByHand = "by-hand"

// delete removes the workspace for good, under its lease.
func (s space) delete(ctx context.Context, now time.Time) error {
	owner := workspace.Owner{
		IssueID: s.rec.IssueID, Identifier: s.rec.Identifier, Project: s.rec.Project, StateDir: s.rec.StateDir, RunID: removedByHand,
	}
	removed, err := s.root.Remove(ctx, owner, workspace.RemoveOptions{Now: now, Discard: s.unsaved != ""})
	return errors.Join(err, removed.Undeletable)
}
