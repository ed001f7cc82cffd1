package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

// The files of a run's directory.
const (
	aliveFile    = "alive"
	workflowFile = "workflow.md"
	procsFile    = "procs"
	treeFile     = "tree"  // empty; whoever has it open belongs to the run
	scopeFile    = "scope" // the cgroup of the worker's scope, where it has one
	eventsFile   = "events.jsonl"
	hooksFile    = "hooks.log"
	stderrFile   = "agent.stderr"
	workerFile   = "worker.log"
	profileFile  = "profile-has-key" // made where the login profile sets a secret
)

const (
	stderrLimit = 256 << 10 // bytes kept of the agent's stderr
	hooksLimit  = 256 << 10
	killGrace   = 2 * time.Second
	killBound   = 4 * time.Second
)

// prepare takes the workspace, clears up after its last holder, and runs the hooks that come before an
// agent (specification 9.2 and 9.4).
func (a *attempt) prepare(ctx context.Context) error {
	root, err := workspace.OpenRoot(a.run.WorkspaceRoot)
	if err != nil {
		return err
	}
	root.Trash = trashOf(a.Config.Policy.Project, a.Config.KeepRemoved)
	if a.space, err = root.Acquire(ctx, a.owner()); err != nil {
		return err
	}
	a.rec.change(func(r *reconcile.Run) {
		r.WorkspacePath, r.WorkspaceRoot, r.WorkspaceID = a.space.Path, a.space.Root, a.space.ID
	})
	if err := a.reapPrevious(ctx); err != nil {
		return err
	}
	if err := a.undoGit(ctx); err != nil {
		return err
	}
	if a.space.CreatedNow {
		if err := a.hook(ctx, "after_create", a.Config.Hooks.AfterCreate, ""); err != nil {
			return errors.Join(err, a.space.Discard())
		}
	}
	if err := a.space.Ready(); err != nil {
		return err
	}
	a.before, err = a.fingerprint(ctx, a.space.Path)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		// A large repository on a slow disk is no fault of the issue's.
		a.Log.LogAttrs(ctx, slog.LevelWarn, "whether the run changes anything will not be known", slog.String("error", err.Error()))
	case err != nil:
		return fmt.Errorf("state of %s: %w", a.space.Path, err)
	}
	a.begun = true
	if err := a.hook(ctx, "before_run", a.Config.Hooks.BeforeRun, ""); err != nil {
		return err
	}
	return a.trustGit(ctx)
}

func (a *attempt) owner() workspace.Owner {
	return workspace.Owner{
		IssueID: a.run.IssueID, Identifier: a.run.Identifier, Project: a.Config.Policy.Project,
		StateDir: a.StateDir, RunID: a.run.ID,
	}
}

// reapPrevious ends what the workspace's last run left, whichever state directory it belonged to. The
// lease is ours, so that run's worker is dead.
func (a *attempt) reapPrevious(ctx context.Context) error {
	for _, previous := range a.space.Previous {
		owner, err := ownerOf(RunDir(previous.StateDir, previous.RunID), previous.RunID)
		if err != nil {
			return err
		}
		if err := a.killAll(ctx, owner); err != nil {
			return err
		}
	}
	return nil
}

// ownerOf says what belongs to a run by its mark, its tree file and what its directory recorded.
func ownerOf(dir, runID string, threads ...string) (proc.Owner, error) {
	recorded, boot, err := proc.ReadProcs(filepath.Join(dir, procsFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return proc.Owner{}, fmt.Errorf("processes of run %s: %w", runID, err)
	}
	scope, err := proc.ReadScope(filepath.Join(dir, scopeFile), runID)
	if err != nil {
		return proc.Owner{}, fmt.Errorf("scope of run %s: %w", runID, err)
	}
	threads = slices.DeleteFunc(threads, func(s string) bool { return s == "" })
	return proc.Owner{
		RunID: runID, Recorded: recorded, Boot: boot, ThreadIDs: threads, Tree: filepath.Join(dir, treeFile), Scope: scope,
	}, nil
}

func (a *attempt) killAll(ctx context.Context, owner proc.Owner) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killBound)
	defer cancel()
	left, err := proc.KillTree(ctx, owner, killGrace)
	if err != nil {
		return fmt.Errorf("ending processes of run %s: %w", owner.RunID, err)
	}
	if len(left) > 0 {
		return &reconcile.Error{
			Code:    "leftover_process",
			Message: fmt.Sprintf("process %d (%s) of run %s could not be ended", left[0].PID, left[0].Name, owner.RunID),
		}
	}
	return nil
}

// hook runs one of the workflow's scripts in the workspace; an empty one is nothing to do.
func (a *attempt) hook(ctx context.Context, name, script string, outcome reconcile.Outcome) (err error) {
	if strings.TrimSpace(script) == "" {
		return nil
	}
	out := io.Discard
	if file, err := agent.OpenTailFile(filepath.Join(a.Dir, hooksFile), hooksLimit, a.Redactor); err == nil {
		defer func() {
			if err := file.Close(); err != nil {
				a.Log.LogAttrs(ctx, slog.LevelWarn, "log of the hooks", slog.String("error", err.Error()))
			}
		}()
		out = file
	} else { // the run's directory may be gone: work must be pushed all the same
		a.Log.LogAttrs(ctx, slog.LevelWarn, "hook without a log", slog.String("hook", name), slog.String("error", err.Error()))
	}
	env, err := a.gitEnv(ctx, a.env().hook(a.rec.get().Issue, a.run.Attempt, outcome))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "== %s %s\n", a.Now().UTC().Format(time.RFC3339), name)
	a.Log.LogAttrs(ctx, slog.LevelInfo, "hook started", slog.String("hook", name))
	// The login profile of the hook's shell may have gone elsewhere, and set the key again.
	script = proc.ShellIn(a.space.Path, proc.ShellUnset(a.Config.Secrets, script))
	hook := workspace.Hook{Name: name, Script: script, Timeout: a.Config.Hooks.Timeout}
	err = workspace.RunHook(ctx, hook, a.startHook, env, a.space, out)
	if err != nil {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "hook failed", slog.String("hook", name), slog.String("error", err.Error()))
		return err
	}
	a.Log.LogAttrs(ctx, slog.LevelInfo, "hook completed", slog.String("hook", name))
	return nil
}

// firstExtra is the descriptor that the first of a command's extra files becomes.
const firstExtra = 3

// finish ends the agent and everything that the run has started, takes back what it would have after_run's git execute,
// runs after_run, ends what that has left, and writes down the outcome in the worker's copy. Nothing of it is cut short
// by what ended the run.
func (a *attempt) finish(ctx context.Context, workErr error) error {
	outcome, code, message := a.judge(ctx, workErr)
	ours := !errors.Is(context.Cause(ctx), errNotOurs)
	ctx = context.WithoutCancel(ctx)
	if ours {
		a.rec.phase(ctx, reconcile.Finishing)
	}
	a.endAgent(ctx)
	a.shareFault(ctx, code, a.Redactor.Text(message))
	err := a.killEverything(ctx)
	if err == nil {
		err = a.undoGit(ctx)
	}
	crash.At("runner.finish.guarded")
	err = errors.Join(err, a.afterRun(ctx, outcome, err == nil))
	if err != nil && outcome == reconcile.Succeeded {
		outcome = reconcile.Failed
		code, message = a.codeOf(err)
	} else if err != nil {
		a.Log.LogAttrs(ctx, slog.LevelError, "the run's end", slog.String("error", err.Error()))
	}
	if a.space != nil {
		if err := a.space.Release(); err != nil {
			a.Log.LogAttrs(ctx, slog.LevelWarn, "lease", slog.String("error", err.Error()))
		}
	}
	if !ours {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "run lost, nothing is recorded")
		return errNotOurs
	}
	message = a.Redactor.Text(message)
	a.rec.change(func(r *reconcile.Run) {
		r.Outcome, r.ErrorCode, r.ErrorText, r.EndedAt = outcome, code, message, a.Now()
	})
	a.Log.LogAttrs(ctx, slog.LevelInfo, "run ended", slog.String("outcome", string(outcome)), slog.String("code", code), slog.String("error", message))
	return nil
}

// afterRun runs the last hook, where it may run, and looks whether the run has changed anything. Both are only noted;
// the error is that what the hook left can't be ended.
func (a *attempt) afterRun(ctx context.Context, outcome reconcile.Outcome, may bool) (err error) {
	if a.space == nil || !a.begun {
		return nil
	}
	switch script := a.Config.Hooks.AfterRun; {
	case strings.TrimSpace(script) == "":
	case !may:
		a.Log.LogAttrs(ctx, slog.LevelWarn, "after_run is left out: the agent still has a hand in the workspace")
	default:
		if err := a.hook(ctx, "after_run", script, outcome); err != nil {
			a.Log.LogAttrs(ctx, slog.LevelWarn, "after_run failed, the outcome stays", slog.String("error", err.Error()))
			_, message := a.codeOf(err)
			a.rec.change(func(r *reconcile.Run) { r.AfterRunError = a.Redactor.Text(message) })
		}
		err = a.killEverything(ctx)
	}
	changed := true // where nobody knows: runs that may have worked hold no issue as idle
	if a.before != "" {
		after, err := a.fingerprint(ctx, a.space.Path)
		if err != nil {
			a.Log.LogAttrs(ctx, slog.LevelWarn, "state of the workspace", slog.String("error", err.Error()))
		}
		changed = err != nil || after != a.before
	}
	a.rec.change(func(r *reconcile.Run) { r.Progress = changed })
	return err
}

// killEverything ends the run's whole tree: what carries its mark or its thread's, what was recorded, and
// what descends from this worker.
func (a *attempt) killEverything(ctx context.Context) error {
	a.noteProcesses()
	run := a.rec.get()
	owner, err := ownerOf(a.Dir, run.ID, run.ThreadID)
	if err != nil {
		return err
	}
	self, err := proc.Self()
	if err != nil {
		return fmt.Errorf("own process: %w", err)
	}
	owner.Roots = []reconcile.Process{{PID: self.PID, Start: self.Start}}
	ofWorker(&owner, self, run.WorkspaceRoot)
	return a.killAll(ctx, owner)
}

// noteProcesses writes down every process that descends from the worker, so that a later pass finds those
// that shed their mark.
func (a *attempt) noteProcesses() {
	a.noting.Lock()
	defer a.noting.Unlock()
	if a.procs == nil {
		return // it could not be opened: the run ends, and has started nothing
	}
	list, err := proc.Descendants(os.Getpid())
	if err == nil {
		err = a.procs.Record(list)
	}
	if err != nil {
		a.Log.Warn("processes not recorded", slog.String("error", err.Error()))
	}
}

// noteFresh writes down those that were not there a moment ago, without looking at the whole machine. Where the kernel
// offers no such look, the whole machine is looked at less often.
func (a *attempt) noteFresh() {
	if a.brood == nil {
		if a.glances++; a.glances%slowGlance == 0 {
			a.noteProcesses()
		}
		return
	}
	a.noting.Lock()
	defer a.noting.Unlock()
	list, err := a.brood.Fresh()
	if err = errors.Join(err, a.procs.Record(list)); err != nil {
		a.Log.Warn("processes not recorded", slog.String("error", err.Error()))
	}
}

// removeWorkspace is the work of a cleanup run (specification 8.6 and 9.4): the workspace of its issue, if
// it has one, and what in the trash has been kept for its time.
func (a *attempt) removeWorkspace(ctx context.Context) error {
	root, err := workspace.OpenRoot(a.run.WorkspaceRoot)
	if err != nil {
		return err
	}
	root.Trash = trashOf(a.Config.Policy.Project, a.Config.KeepRemoved)
	if a.run.IssueID != "" {
		if err := a.remove(ctx, root, false); err != nil {
			return err
		}
	}
	keep := a.Config.KeepRemoved
	if free, err := workspace.FreeBytes(root.Path); err == nil && free < a.Config.Policy.MinFreeBytes {
		keep = 0 // space is short: what is left of it goes to the living
	}
	crash.At("runner.cleanup.removed")
	purged, err := root.PurgeTrash(ctx, workspace.Purge{Now: a.Now(), Keep: keep})
	if len(purged.Undeletable) > 0 {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "could not be deleted", slog.Any("paths", purged.Undeletable))
	}
	for _, left := range purged.Unsaved {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "left in the trash: it holds work that exists nowhere else", slog.String("path", left.Path), slog.String("work", left.Work))
	}
	return err
}

func (a *attempt) remove(ctx context.Context, root *workspace.Root, discard bool) error {
	before := func(w *workspace.Workspace) error {
		a.space = w
		defer func() { a.space = nil }() // the lease is Remove's
		if err := a.reapPrevious(ctx); err != nil {
			return err
		}
		if err := a.undoGit(ctx); err != nil {
			return err
		}
		return a.hook(ctx, "before_remove", a.Config.Hooks.BeforeRemove, "")
	}
	removal, err := root.Remove(ctx, a.owner(), workspace.RemoveOptions{
		Now: a.Now(), Keep: a.Config.KeepRemoved, Before: before, Discard: discard,
	})
	if err != nil {
		return err
	}
	if removal.Unsaved != "" {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "workspace left alone: it holds work that exists nowhere else", slog.String("work", removal.Unsaved))
		return nil
	}
	a.Log.LogAttrs(ctx, slog.LevelInfo, "workspace removed", slog.Bool("was_there", removal.Removed), slog.String("trash", removal.Trash))
	if err := errors.Join(removal.HookErr, removal.Undeletable); err != nil {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "workspace removed, but", slog.String("error", err.Error()))
	}
	return nil
}
