// Package local implements the port runner/host for this machine, with a package for each
// subject: workspace for directories and hooks, repository for clones and deliveries, git for
// the repositories that agents leave, tree for processes, and files for the code that the
// others share.
package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/git"
	"github.com/symphony-cron/symphony/runner/host/local/tree"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/runner/proc"
)

// Machine is this machine. It implements host.Machine and host.Commands.
type Machine struct {
	// StateDir contains a directory for each run, below runs. Machines on which no run begins
	// or ends need none.
	StateDir string
	// AccountDir contains the locks that all projects of an account share, "" if there are
	// none.
	AccountDir string
	// Projects returns the state directories and workspace roots of all projects whose files
	// no process of a run may lock, as far as they are known. Nil for none but the run's own.
	Projects func(context.Context) (stateDirs, roots []string)
	// Logins is the file by which the workers of a pass share a login shell, nil if they do
	// not. The first login of a run closes it.
	Logins *os.File
	// Account answers requests for it. A worker on this machine makes none.
	Account host.Account
	// PrepareHome makes a home for agents of a kind, with the login of the operator's. Nil on
	// machines that start no such agent.
	PrepareHome func(host.HomeRequest) error
	// Scopes limit what sandboxes use; nil for no scopes.
	Scopes *proc.ScopeManager
}

var (
	_ host.Machine  = Machine{}
	_ host.Commands = Machine{}
)

func (m Machine) Run(id string) host.Run {
	return &run{
		directory: directory(host.RunDir(m.StateDir, id)),
		machine:   m,
		id:        id,
		logins:    m.Logins,
	}
}

// procsFile is the file in the directory of a run with every process that the run started.
// Processes that hold host.TreeFile open belong to it, too.
const procsFile = "procs"

// run is a run in this process, which is its worker. It implements host.Run.
type run struct {
	directory
	machine Machine
	id      string
	// inherited by all processes of the run, to identify them; nil until it is open
	tree *os.File

	mu     sync.Mutex           // Observe reads the following fields concurrently with other calls
	space  *workspace.Workspace // nil until the lease is held
	guard  *git.Guard           // of space
	procs  *tree.ProcFile
	locks  tree.LockWatch
	logins *os.File // Machine.Logins, nil after the first login
}

// Open implements host.Run. It opens the files that identify the run's processes, once.
func (r *run) Open(context.Context) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tree != nil {
		return nil
	}
	marker, err := tree.OpenTree(r.file(host.TreeFile))
	if err != nil {
		return err
	}
	r.procs, err = tree.CreateProcs(r.file(procsFile))
	if err != nil {
		return errors.Join(err, marker.Close())
	}
	r.tree = marker
	return nil
}

// held returns an error unless the run holds a workspace.
func (r *run) held() error {
	if r.space == nil {
		return &reconcile.Error{
			Code:    workspace.CodeFailed,
			Message: "run " + r.id + " holds no workspace",
		}
	}
	return nil
}

// hold sets the workspace that a run acquired.
func (r *run) hold(w *workspace.Workspace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.space = w
	r.guard = &git.Guard{
		Tree:   w.Path,
		Temp:   []string{w.TmpDir, w.CacheDir},
		File:   w.GitFile(),
		Verify: w.Verify,
	}
}

// holdNone forgets the workspace of a run, whose lease was released.
func (r *run) holdNone() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.space = nil
	r.guard = nil
}

func (r *run) Prepare(ctx context.Context, q host.PrepareRequest) (answer host.PrepareAnswer, err error) {
	if err := r.Open(ctx); err != nil {
		return answer, err
	}
	root, owner, err := openOwned(q, r.id)
	if err != nil {
		return answer, err
	}
	space, err := root.Acquire(ctx, owner)
	if err != nil {
		return answer, err
	}
	r.hold(space)
	return endPrevious(ctx, r.space, r.guard)
}

// openOwned opens a workspace root, and returns the owner of the workspace for a run.
func openOwned(q host.PrepareRequest, runID string) (root *workspace.Root, owner workspace.Owner, err error) {
	root, err = workspace.OpenRoot(q.Root)
	if err != nil {
		return nil, owner, err
	}
	i := q.Issue
	root.Trash = workspace.Trash{Project: i.Project, Keep: q.KeepRemoved}
	owner = workspace.Owner{
		IssueID:    i.ID,
		Identifier: i.Identifier,
		Project:    i.Project,
		StateDir:   i.StateDir,
		RunID:      runID,
	}
	return root, owner, nil
}

// endPrevious ends the processes that the previous holders of the workspace left, and restores
// git settings.
func endPrevious(
	ctx context.Context,
	space *workspace.Workspace,
	guard *git.Guard,
) (answer host.PrepareAnswer, err error) {
	answer.Workspace = space.Workspace
	// This run holds the lease, so the workers of the previous runs are dead, whichever state
	// directory they belonged to.
	for _, previous := range space.Previous {
		left, err := Machine{StateDir: previous.StateDir}.owner(host.LeftRequest{RunID: previous.RunID})
		if err != nil {
			return answer, err
		}
		if err := killAll(ctx, previous.RunID, left); err != nil {
			return answer, err
		}
	}
	answer.Git, err = tidyGit(ctx, space, guard)
	return answer, err
}

func (r *run) Confirm(ctx context.Context, q host.ConfirmRequest) error {
	if err := r.held(); err != nil {
		return err
	}
	if q.KeepCache {
		if err := r.space.KeepCache(ctx); err != nil {
			return err
		}
	}
	return r.space.Ready()
}

func (r *run) Discard(context.Context) error {
	if err := r.held(); err != nil {
		return err
	}
	return r.space.Discard()
}

func (r *run) Verify(context.Context) error {
	if err := r.held(); err != nil {
		return err
	}
	return r.space.Verify()
}

func (r *run) MakeHome(_ context.Context, q host.HomeRequest) error {
	if r.machine.PrepareHome == nil {
		return errors.New("no agents are started here")
	}
	return host.WithCode(r.machine.PrepareHome(q))
}

func (r *run) GuardGit(ctx context.Context, q host.GuardGitRequest) (err error) {
	if err := r.held(); err != nil {
		return err
	}
	reaches := func(path string) bool {
		return q.Anywhere || slices.ContainsFunc(q.Writable, func(dir string) bool {
			return paths.Reaches(dir, path) || paths.Reaches(path, dir)
		})
	}
	settings, err := git.ReadSettings(ctx, r.space.Path, q.Env)
	if err != nil {
		return err
	}
	if err := r.space.SetAccountFiles(settings.AccountFiles); err != nil {
		return err
	}
	return r.guard.Trust(ctx, reaches, settings.HooksPath)
}

// RestoreGit implements host.Run. Without a workspace it does nothing.
func (r *run) RestoreGit(ctx context.Context) (restored host.GitRestored, err error) {
	if r.space == nil {
		return restored, nil
	}
	return tidyGit(ctx, r.space, r.guard)
}

// tidyGit restores git settings, and removes the locks that killed commands of git left.
// Nothing may use the workspace. If an agent made a repository in which no locks can be looked
// for, its settings are restored all the same.
func tidyGit(ctx context.Context, space *workspace.Workspace, guard *git.Guard) (host.GitRestored, error) {
	locks, locksErr := git.RemoveLocks(space.Path)
	restored, err := guard.Undo(ctx)
	restored.Locks = locks
	if locksErr != nil && restored.Incomplete == "" {
		restored.Incomplete = "locks of git may be left: " + locksErr.Error()
	}
	return restored, err
}

func (r *run) Finish(context.Context) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tree == nil {
		return nil
	}
	if r.space != nil {
		err = errors.Join(r.space.RemoveCheckout(context.Background()), r.space.Release())
	}
	err = errors.Join(err, r.tree.Close(), r.removeParts())
	r.tree = nil
	r.procs = nil
	r.space = nil
	r.guard = nil
	return err
}

func (r *run) PrepareRemoval(
	ctx context.Context,
	q host.RemovalRequest,
) (answer host.RemovalAnswer, err error) {
	if err := r.Open(ctx); err != nil {
		return answer, err
	}
	root, owner, err := openOwned(q.PrepareRequest, r.id)
	if err != nil {
		return answer, err
	}
	space, unsaved, err := root.BeginRemoval(ctx, owner, q.Now, q.Discard)
	answer.Unsaved = unsaved
	if err != nil || space == nil {
		return answer, err
	}
	r.hold(space)
	answer.Found = true
	answer.HookDue = space.HookDue()
	if answer.HookDue {
		answer.PrepareAnswer, err = endPrevious(ctx, r.space, r.guard)
	}
	return answer, err
}

func (r *run) Remove(ctx context.Context) (answer host.RemoveAnswer, err error) {
	if err := r.held(); err != nil {
		return answer, err
	}
	answer, err = r.space.EndRemoval(ctx)
	r.holdNone()
	return answer, err
}

func (m Machine) ReadAccount(context.Context) (host.Account, error) { return m.Account, nil }

func (Machine) Existing(_ context.Context, list []string) ([]string, error) {
	return text.Filter(list, exists), nil
}

func (Machine) Resolve(_ context.Context, list []string) ([]string, error) {
	return text.Map(list, paths.Real), nil
}

func (Machine) GitDirs(_ context.Context, r host.GitDirsRequest) (dirs host.GitDirs, err error) {
	dirs.Writable, err = git.Writable(r.Path, r.Opened...)
	if err != nil {
		return dirs, fmt.Errorf("git directories of %s: %w", r.Path, err)
	}
	dirs.Root, err = git.Root(r.Path)
	if err != nil {
		return dirs, fmt.Errorf("repository of %s: %w", r.Path, err)
	}
	return dirs, nil
}

func (Machine) Launcher(_ context.Context, r host.LaunchRequest) (host.Launcher, error) {
	l := launch{LaunchRequest: r}
	return l.find(r.Command, 0), l.limit
}

func (Machine) Fingerprint(ctx context.Context, dir string) (string, error) {
	return git.Fingerprint(ctx, dir)
}

func (Machine) KeepEnd(ctx context.Context, dir string) (*host.WorkEnd, error) {
	return keepEnd(ctx, dir)
}

func (Machine) GitAround(dir string) string { return git.DirAround(dir) }

func (Machine) IsBranchName(ctx context.Context, name string) (bool, error) {
	valid, err := git.IsBranchName(ctx, name)
	return valid, git.Failed(err, "check the name of the branch %s", name)
}

func (Machine) HasBranch(ctx context.Context, repository, branch string) bool {
	return git.HasBranch(ctx, repository, branch)
}

func (Machine) Identity(ctx context.Context, repository string, env []string) (name, email string) {
	return git.Identity(ctx, repository, env)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func (Machine) ObeyedByGit(ctx context.Context, r host.ObeyedRequest) ([]string, error) {
	r.Env = host.Scrub(r.Env)
	return git.Obeyed(ctx, r)
}
