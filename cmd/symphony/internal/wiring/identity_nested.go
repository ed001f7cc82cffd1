package wiring

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

// codeNested is the code of an error about a workflow that an agent could have written, or
// about a call from inside a run.
const codeNested = "nested_workflow"

// Nested refuses to run inside a workspace: an agent must not start agents.
func (p *Project) Nested() error {
	if id := p.Env.Getenv("SYMPHONY_RUN_ID"); id != "" {
		return reconcile.NewError(codeNested, "symphony was called inside run "+id,
			"run symphony from your own shell; an agent must not start agents")
	}
	if p.nested != nil {
		return p.nested
	}
	return nil
}

// Foreign returns the error of a workflow that exists where agents write. Nothing in it is
// obeyed.
func (p *Project) Foreign() error {
	if p.nested != nil && errors.Is(p.SourceErr, p.nested) {
		return p.nested
	}
	return nil
}

// AgentsWriteIn reports whether agents write in a directory: it is in a workspace or its
// remains, in a worktree of an agent, or a WORKFLOW.md in it is below the workspace root of a
// project of the account.
func AgentsWriteIn(w *environ.Env, dir paths.Place) bool {
	place, _ := agentsPlace(w, dir)
	if place == "" && Exists(filepath.Join(dir.Path, "WORKFLOW.md")) {
		place, _ = knownPlace(w, dir)
	}
	return place != ""
}

// refuseAgents drops a workflow that lies where agents write: in a workspace or its remains,
// in a worktree of an agent, below the workspace root of any project, or in a worktree that
// shows a commit. An agent would choose its hooks, its tracker program and the address to
// which it sends the tracker's key.
func (p *Project) refuseAgents() {
	missing := errors.Is(p.SourceErr, fs.ErrNotExist)
	at := placeOf(p.Path)
	place, owner := agentsPlace(p.Env, at)
	if place == "" && !missing {
		place, owner = p.suspectPlace(at)
	}
	if place == "" {
		return
	}
	hint := "use the WORKFLOW.md of your own checkout, not of an agent's"
	if owner != "" {
		hint = "the project's own workflow is " + owner + ": -w " + text.ShellQuote(owner)
	}
	p.nested = reconcile.NewError(codeNested, p.Path+" is in "+place, hint).
		WithCause(p.Env.Context().Err()) // git was not asked after a signal
	if !missing {
		p.Source = workflow.Source{Name: p.Source.Name, Path: p.Source.Path}
		p.SourceErr = p.nested
	}
}

// suspectPlace describes the directory of agents in which a workflow is, if only records of
// projects or of git show that; empty if none does, or if a pass already ran for the workflow.
// It opens no database for a workflow that is far from both, as most are.
func (p *Project) suspectPlace(at paths.Place) (place, owner string) {
	dir := placeOf(filepath.Dir(at.Path))
	inRoot := slices.ContainsFunc(dir.Names(), workspace.BelowRoot)
	commit, commitOwner := shownCommit(p.Env.Context(), dir.Path)
	if !inRoot && commit == "" {
		return "", ""
	}
	if p.isOwn(at) {
		return "", ""
	}
	place, owner = knownPlace(p.Env, dir)
	if place != "" {
		return place, owner
	}
	return commit, commitOwner
}

// isOwn reports whether a pass already ran for the workflow at a place, so that its place was
// examined before. The state says so, and not the name of its directory.
func (p *Project) isOwn(at paths.Place) bool {
	owner := ownerOf(p.StateDir)
	if owner == "" {
		return false
	}
	return owner == at.Path || at.Same(placeOf(owner))
}

// placeOf returns where a path leads, also through /proc, as the operator's shell may name it.
func placeOf(path string) paths.Place {
	place, err := paths.Find(path)
	if !errors.Is(err, paths.ErrProc) {
		return place
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return paths.Place{Path: path}
	}
	place, _ = paths.Find(real)
	return place
}

// agentsPlace describes the directory of agents in which a file is, judged by symphony's files
// around it; empty if there is none. owner is the workflow of its project; empty if that is
// not known.
func agentsPlace(w *environ.Env, file paths.Place) (place, owner string) {
	for _, path := range file.Names() {
		in, ok := workspace.Around(path)
		if ok {
			owner, _ = ownerOfWorkspace(w, in)
			return in.What + " " + in.Path, owner
		}
	}
	if !Exists(WorktreesDir(w)) {
		return "", ""
	}
	worktrees := placeOf(WorktreesDir(w))
	if file.Inside(worktrees) {
		return worktrees.Path + ", where agents work", ""
	}
	return "", ""
}

// knownPlace is agentsPlace for a directory that only the records of the account's projects
// show to be written by agents, such as a directory in a workspace root that no run used yet.
func knownPlace(w *environ.Env, dir paths.Place) (place, owner string) {
	dirs, _ := StateDirs(w) // directories that can't be listed are missing
	for _, stateDir := range dirs {
		known, _ := storedFiles(context.Background(), stateDir)
		owner = known.workflow
		for _, path := range known.roots {
			root, found, err := workspace.FindRoot(path)
			if err != nil || !found {
				continue
			}
			if top := placeOf(root.Path); dir.Inside(top) && !dir.Same(top) {
				return "the workspace root " + root.Path + " of " + owner, ""
			}
			records, _ := root.List() // records that can't be read are missing
			for _, record := range records {
				if dir.Inside(placeOf(record.Path)) {
					return "the workspace " + record.Path, owner
				}
			}
		}
	}
	return "", ""
}

// ownerOfWorkspace returns the workflow and the state directory of the project to which a
// directory of agents belongs. Both are empty unless the account has that project, and the
// project used that workspace root: an agent can write records of workspaces in its own
// workspace.
func ownerOfWorkspace(w *environ.Env, in workspace.Agents) (path, stateDir string) {
	dirs, err := StateDirs(w)
	if err != nil || !slices.Contains(dirs, in.Record.StateDir) {
		return "", ""
	}
	known, err := storedFiles(context.Background(), in.Record.StateDir)
	used := slices.ContainsFunc(known.roots, func(root string) bool { return paths.SameDir(root, in.Root) })
	if err != nil || !used {
		return "", ""
	}
	return known.workflow, in.Record.StateDir
}

// OfWorkspace returns the workflow and the state directory of the project in whose workspace
// dir is; both empty if it is in none, or if the project is not known.
func OfWorkspace(w *environ.Env, dir string) (path, stateDir string) {
	in, ok := workspace.Around(paths.Real(dir))
	if !ok {
		return "", ""
	}
	return ownerOfWorkspace(w, in)
}

// WorktreesDir is the directory with the worktrees of agents without an issue.
func WorktreesDir(w *environ.Env) string { return filepath.Join(paths.Real(StateHome(w)), "worktrees") }
