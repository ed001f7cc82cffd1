package project

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/state"
)

// Resolve follows symlinks as far as the path exists.
func Resolve(path string) string {
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return r
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(Resolve(parent), filepath.Base(path))
}

// RootsKey names the workspace roots that the project has used, in the database.
const RootsKey = "workspace_roots"

// Exists reports whether a path can be looked at.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// RootsOf are the workspace roots that a project has used, the present one first.
func RootsOf(ctx context.Context, db *state.DB) ([]string, error) {
	roots := []string{}
	text, known, err := db.Meta(ctx, RootsKey)
	if err == nil && known {
		err = json.Unmarshal([]byte(text), &roots)
	}
	if err != nil {
		return []string{}, fmt.Errorf("%s: %w", RootsKey, err)
	}
	return roots, nil
}

// TemporaryAbove is the temporary directory that a path lies in, empty for none.
func TemporaryAbove(path, tmpdir string) string {
	for _, temporary := range []string{"/tmp", "/var/tmp", "/dev/shm", tmpdir} {
		if temporary != "" && text.PathInside(Resolve(temporary), path) {
			return temporary
		}
	}
	return ""
}

// RootFits checks the workspace root before a run starts in it, and claims it for the project unless this is a dry run.
func RootFits(p *Project, cfg *workflow.Config, dryRun bool) error {
	root := Resolve(cfg.Workspace.Root)
	for _, dir := range cfg.Agent.WritableRoots {
		dir = Resolve(dir)
		if text.PathInside(dir, root) || text.PathInside(root, dir) || text.PathInside(dir, p.StateDir) || text.PathInside(p.StateDir, dir) {
			return exit.Fault("invalid_config",
				fmt.Sprintf("%s: agent.writable_roots: %s would let an agent write other workspaces or symphony's state", p.Path, dir),
				"name a directory apart from workspace.root and the state directory")
		}
	}
	if dryRun {
		return workspace.CheckRoot(root, cfg.Policy.Project, p.StateDir)
	}
	opened, err := workspace.OpenRoot(root)
	if err != nil {
		return err
	}
	return opened.ClaimProject(cfg.Policy.Project, p.StateDir)
}
