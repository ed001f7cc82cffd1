// Package local implements the port runner/host for this machine, with a package for each subject: workspace for directories and hooks,
// repository for clones and deliveries, git for what agents leave in repositories, tree for processes, and files for what the others share.
package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/git"
	"github.com/symphony-cron/symphony/runner/host/local/tree"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

// Host is this machine. The zero value is ready; one Host may serve several runs.
type Host struct {
	mu   sync.Mutex
	runs map[string]*run
}

var _ host.Terminal = (*Host)(nil)

// run is the state of a run in this process, from Prepare to Finish.
type run struct {
	host.Run
	tree *os.File // inherited by all processes of the run, to identify them

	mu    sync.Mutex           // Observe reads the following fields concurrently with other calls
	space *workspace.Workspace // nil until the lease is held
	guard *git.Guard           // of space
	procs *tree.ProcFile
	locks tree.LockWatch
}

// open returns the run's state. The first call for a run opens its files.
func (h *Host) open(r host.Run) (*run, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.runs[r.ID]; known != nil {
		return known, nil
	}
	marker, err := tree.OpenTree(filepath.Join(r.Dir, host.TreeFile))
	if err != nil {
		return nil, err
	}
	opened := &run{Run: r, tree: marker}
	if opened.procs, err = tree.CreateProcs(filepath.Join(r.Dir, host.ProcsFile)); err != nil {
		return nil, errors.Join(err, marker.Close())
	}
	if h.runs == nil {
		h.runs = map[string]*run{}
	}
	h.runs[r.ID] = opened
	return opened, nil
}

// known returns the state of a run, nil if it is not open.
func (h *Host) known(r host.Run) *run {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs[r.ID]
}

// held returns a run that holds a workspace.
func (h *Host) held(r host.Run) (*run, error) {
	known := h.known(r)
	if known == nil || known.space == nil {
		return nil, &reconcile.Error{Code: workspace.CodeFailed, Message: "run " + r.ID + " holds no workspace"}
	}
	return known, nil
}

// hold sets the workspace that a run has acquired, nil for none.
func (r *run) hold(w *workspace.Workspace, keepGit bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.space, r.guard = w, nil
	if w != nil {
		r.guard = &git.Guard{
			Tree: w.Path, Temp: []string{w.TmpDir, w.CacheDir}, File: w.GitFile(), Verify: w.Verify, Off: keepGit,
		}
	}
}

// Prepare implements host.Host.
func (h *Host) Prepare(ctx context.Context, r host.PrepareRequest) (answer host.PrepareAnswer, err error) {
	defer func() { err = host.WithCode(err) }()
	opened, root, owner, err := h.begin(r)
	if err != nil {
		return answer, err
	}
	space, err := root.Acquire(ctx, owner)
	if err != nil {
		return answer, err
	}
	opened.hold(space, r.KeepGit)
	return opened.takeOver(ctx)
}

// Open implements host.Host.
func (h *Host) Open(_ context.Context, r host.Run) error {
	_, err := h.open(r)
	return host.WithCode(err)
}

// begin opens the files of a run and the workspace root, and returns the owner of the workspace.
func (h *Host) begin(r host.PrepareRequest) (opened *run, root *workspace.Root, owner workspace.Owner, err error) {
	if opened, err = h.open(r.Run); err != nil {
		return nil, nil, owner, err
	}
	if root, err = workspace.OpenRoot(r.Root); err != nil {
		return nil, nil, owner, err
	}
	root.Trash = workspace.Trash{Project: r.Issue.Project, Keep: r.KeepRemoved}
	i := r.Issue
	owner = workspace.Owner{IssueID: i.ID, Identifier: i.Identifier, Project: i.Project, StateDir: i.StateDir, RunID: r.Run.ID}
	return opened, root, owner, nil
}

// takeOver ends the processes that the previous holders of the workspace left, and restores git settings.
func (r *run) takeOver(ctx context.Context) (answer host.PrepareAnswer, err error) {
	space := r.space
	answer.Workspace = space.Workspace
	// This run has the lease, so the workers of those runs are dead, whichever state directory they belonged to.
	for _, previous := range space.Previous {
		left, err := owner(host.Owned{Run: host.Run{ID: previous.RunID, Dir: filepath.Join(previous.StateDir, "runs", previous.RunID)}})
		if err == nil {
			err = killAll(ctx, previous.RunID, left)
		}
		if err != nil {
			return answer, err
		}
	}
	answer.Git, err = r.guard.Undo(ctx)
	return answer, err
}

// Confirm implements host.Host.
func (h *Host) Confirm(_ context.Context, r host.ConfirmRequest) (err error) {
	defer func() { err = host.WithCode(err) }()
	known, err := h.held(r.Run)
	switch {
	case err != nil:
		return err
	case r.Discard:
		return known.space.Discard()
	}
	return known.space.Ready()
}

// GuardGit implements host.Host.
func (h *Host) GuardGit(ctx context.Context, r host.GuardGitRequest) (err error) {
	defer func() { err = host.WithCode(err) }()
	known, err := h.held(r.Run)
	if err != nil {
		return err
	}
	reaches := func(path string) bool {
		path = paths.Real(path)
		return r.Anywhere || slices.ContainsFunc(r.Writable, func(dir string) bool {
			dir = paths.Real(dir)
			return paths.Overlap(dir, path)
		})
	}
	return known.guard.Trust(ctx, reaches, r.Env)
}

// RestoreGit implements host.Host. For a run without a workspace it does nothing.
func (h *Host) RestoreGit(ctx context.Context, r host.Run) (restored host.GitRestored, err error) {
	defer func() { err = host.WithCode(err) }()
	known := h.known(r)
	if known == nil || known.space == nil {
		return restored, nil
	}
	return known.guard.Undo(ctx)
}

// Finish implements host.Host.
func (h *Host) Finish(_ context.Context, r host.Run) (err error) {
	defer func() { err = host.WithCode(err) }()
	h.mu.Lock()
	known := h.runs[r.ID]
	delete(h.runs, r.ID)
	h.mu.Unlock()
	if known == nil {
		return nil
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	known.procs = nil
	if known.space != nil {
		err = known.space.Release()
	}
	return errors.Join(err, known.tree.Close())
}

// PrepareRemoval implements host.Host.
func (h *Host) PrepareRemoval(ctx context.Context, r host.RemovalRequest) (answer host.RemovalAnswer, err error) {
	defer func() { err = host.WithCode(err) }()
	opened, root, owner, err := h.begin(r.PrepareRequest)
	if err != nil {
		return answer, err
	}
	space, unsaved, err := root.BeginRemoval(ctx, owner, r.Now, r.Discard)
	answer.Unsaved = unsaved
	if err != nil || space == nil {
		return answer, err
	}
	opened.hold(space, r.KeepGit)
	answer.Found, answer.HookDue = true, space.HookDue()
	if answer.HookDue {
		answer.PrepareAnswer, err = opened.takeOver(ctx)
	}
	return answer, err
}

// Remove implements host.Host.
func (h *Host) Remove(ctx context.Context, r host.Run) (answer host.RemoveAnswer, err error) {
	defer func() { err = host.WithCode(err) }()
	known, err := h.held(r)
	if err != nil {
		return answer, err
	}
	answer, err = known.space.EndRemoval(ctx)
	known.hold(nil, false) // EndRemoval has released the lease
	return answer, err
}

// Purge implements host.Host.
func (h *Host) Purge(ctx context.Context, r host.RootRequest) (answer host.PurgeAnswer, err error) {
	defer func() { err = host.WithCode(err) }()
	root, err := workspace.OpenRoot(r.Root)
	if err != nil {
		return answer, err
	}
	root.Trash = trash(r)
	return root.PurgeTrash(ctx, r.Now)
}

// trash returns how the project of a request keeps removed workspaces.
func trash(r host.RootRequest) workspace.Trash {
	free, err := workspace.FreeBytes(r.Root)
	return workspace.Trash{Project: r.Project, Keep: r.KeepRemoved, Short: err == nil && free < r.MinFree}
}

// Root implements host.Host.
func (h *Host) Root(_ context.Context, r host.RootRequest) (answer host.RootAnswer, err error) {
	defer func() { err = host.WithCode(err) }()
	answer.FreeBytes = -1
	if free, err := workspace.FreeBytes(r.Root); err == nil {
		answer.FreeBytes = free
	}
	if !r.Records && !r.Trash {
		return answer, nil
	}
	root, found, err := workspace.FindRoot(r.Root)
	if err != nil || !found {
		return answer, err
	}
	if r.Records {
		var records []workspace.Record
		records, err = root.List()
		for _, rec := range records {
			answer.Workspaces = append(answer.Workspaces, host.WorkspaceRecord{StateDir: rec.StateDir, Workspace: reconcile.Workspace{
				IssueID: rec.IssueID, Identifier: rec.Identifier, Key: rec.Key, Root: root.Path, Path: rec.Path,
				Project: rec.Project, Unsaved: rec.Unsaved, UnsavedAt: rec.UnsavedAt, KeptSince: rec.KeptSince, Restored: rec.Restored,
			}})
		}
	}
	if r.Trash {
		root.Trash = trash(r)
		expired, trashErr := root.ExpiredTrash(r.Now)
		answer.TrashDue, err = len(expired) > 0, errors.Join(err, trashErr)
	}
	return answer, err
}

// Facts implements host.Host.
func (h *Host) Facts(ctx context.Context, r host.FactsRequest) (answer host.FactsAnswer, err error) {
	defer func() { err = host.WithCode(err) }()
	if r.Run != nil {
		known, err := h.held(*r.Run)
		if err == nil {
			err = known.space.Verify()
		}
		if err != nil {
			return answer, err
		}
	}
	if r.Fingerprint {
		if answer.Fingerprint, err = git.Fingerprint(ctx, r.Path); err != nil {
			return answer, err
		}
	}
	if r.Launch != nil {
		l := launch{LaunchRequest: *r.Launch, dir: r.Path}
		if answer.Launcher = l.find(r.Launch.Command, 0); answer.Launcher.Program != "" {
			answer.Launcher.Direct = l.direct()
		}
	}
	if r.GitDirs {
		if answer.GitWritable, err = git.Writable(r.Path, r.Opened...); err != nil {
			return answer, fmt.Errorf("git directories of %s: %w", r.Path, err)
		}
		if answer.RepoRoot, err = git.Root(r.Path); err != nil {
			return answer, fmt.Errorf("repository of %s: %w", r.Path, err)
		}
	}
	return answer, nil
}
