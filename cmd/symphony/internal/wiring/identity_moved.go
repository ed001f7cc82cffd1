package wiring

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/state"
)

// ownerOf returns the workflow that a state directory belongs to, empty if that can't be read.
func ownerOf(dir string) string {
	db, err := state.OpenReadOnly(context.Background(), dir)
	if err != nil {
		return ""
	}
	defer db.Close()
	path, _, err := db.Meta(context.Background(), OwnerKey)
	if err != nil {
		return ""
	}
	return path
}

// MoveHint is the next step after a workflow was moved.
func MoveHint(old, path string) string {
	return "if this WORKFLOW.md was moved from " + old + ": " +
		"symphony projects move " + text.ShellQuote(old) + " " + text.ShellQuote(path)
}

// hintGone adds to the error of a missing workflow the next step if it was moved.
func (p *Project) hintGone() {
	known, ok := errors.AsType[*reconcile.Error](p.SourceErr)
	if ok && errors.Is(p.SourceErr, fs.ErrNotExist) && p.HasState() {
		path := text.ShellQuote(p.Path)
		known.Hint = "if it was moved: symphony projects move " + path + " NEW, with its new path; " +
			"if the project is over: symphony projects remove " + path + "; otherwise restore it"
	}
}

// refuseMoved refuses the first claim of a project in a workspace root that the same workflow
// used at another path: as a folder of issues is identified by its path, a moved folder looks
// like a new project.
func refuseMoved(p *Project, cfg *workflow.Config, project, stateDir string) error {
	old := ownerOf(stateDir)
	if old == "" || Exists(old) || movedProject(project, old, p.Path) != cfg.Policy.Project {
		return nil
	}
	return reconcile.NewError(
		workspace.CodeProjectConflict,
		fmt.Sprintf("the workspaces of %s, which is gone, are in %s", old, cfg.Workspace.Root),
		MoveHint(old, p.Path)+"; otherwise symphony projects remove "+text.ShellQuote(old),
	)
}

// movedProject returns the identity of a project after its workflow was moved from old to
// path. It differs if the identity is a path that moved, too.
func movedProject(identity, old, path string) string {
	kind, place, _ := strings.Cut(identity, " ")
	rel, err := filepath.Rel(filepath.Dir(old), place)
	if err != nil || !filepath.IsAbs(place) || Exists(place) {
		return identity
	}
	moved := filepath.Join(filepath.Dir(path), rel)
	if place == old {
		moved = path
	}
	if !Exists(moved) {
		return identity
	}
	return kind + " " + moved
}

// GiveTo records that the state directory, which was moved from the path from to dir, belongs
// to the workflow that was moved from old to path. Workspaces below its old folder have moved
// with it if that folder is gone.
func GiveTo(ctx context.Context, db *state.DB, old, path, from, dir string) error {
	roots, err := RootsOf(ctx, db)
	if err != nil {
		return err
	}
	before := filepath.Dir(old)
	if !Exists(before) {
		roots, err = moveRoots(ctx, db, roots, before, filepath.Dir(path))
		if err != nil {
			return err
		}
	}
	rename := func(project string) string { return movedProject(project, old, path) }
	for _, place := range roots {
		root, found, err := workspace.FindRoot(place)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		if err := root.MoveProjects(from, dir, rename); err != nil {
			return err
		}
	}
	if err := db.Operator.MoveProjects(ctx, rename); err != nil {
		return err
	}
	// The owner last: until then the project is found by its old path.
	if err := db.SetMeta(ctx, placeKey, dir); err != nil {
		return err
	}
	return db.SetMeta(ctx, OwnerKey, path)
}

// moveRoots replaces the folder from by the folder to in the paths of workspace roots, and of
// the workspaces in them: /old/spaces becomes /new/spaces.
func moveRoots(ctx context.Context, db *state.DB, roots []string, from, to string) ([]string, error) {
	moved := text.Map(roots, func(root string) string {
		below, found := strings.CutPrefix(root, from+"/")
		if !found {
			return root
		}
		return filepath.Join(to, below)
	})
	if err := db.SetMeta(ctx, RootsKey, string(text.JSON(moved))); err != nil {
		return nil, err
	}
	return moved, db.Operator.MoveWorkspaces(ctx, from, to)
}
