package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local"
)

// The files of a run's directory.
const (
	aliveFile    = local.AliveFile
	workflowFile = "workflow.md"
	procsFile    = local.ProcsFile
	treeFile     = local.TreeFile
	scopeFile    = local.ScopeFile
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
	if err := a.takeWorkspace(ctx); err != nil {
		return err
	}
	facts, err := a.Host.Facts(ctx, host.FactsRequest{Path: a.space.Path, Fingerprint: true})
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		// A large repository on a slow disk is not the issue's fault.
		a.Log.LogAttrs(ctx, slog.LevelWarn, "whether the run changes anything will not be known", slog.String("error", err.Error()))
	case err != nil:
		return fmt.Errorf("state of %s: %w", a.space.Path, err)
	}
	a.before = facts.Fingerprint
	a.hooksStarted = true
	if err := a.hook(ctx, "before_run", a.Config.Hooks.BeforeRun, ""); err != nil {
		return err
	}
	return a.guardGit(ctx)
}

// takeWorkspace takes the workspace of the issue, and runs after_create in a new one.
func (a *attempt) takeWorkspace(ctx context.Context) error {
	answer, err := a.Host.Prepare(ctx, a.prepareRequest())
	a.hold(ctx, answer)
	if err != nil {
		return err
	}
	if a.space.Created {
		if err := a.hook(ctx, "after_create", a.Config.Hooks.AfterCreate, ""); err != nil {
			return errors.Join(err, a.Host.Confirm(ctx, host.ConfirmRequest{Run: a.hostRun(), Discard: true}))
		}
	}
	return a.Host.Confirm(ctx, host.ConfirmRequest{Run: a.hostRun()})
}

// hold notes the workspace that the run has now, if it has one.
func (a *attempt) hold(ctx context.Context, answer host.PrepareAnswer) {
	if answer.Workspace.Path == "" {
		return
	}
	a.space = &answer.Workspace
	a.rec.change(func(r *reconcile.Run) {
		r.WorkspacePath, r.WorkspaceRoot, r.WorkspaceID = a.space.Path, a.space.Root, a.space.ID
	})
	a.reportRestored(ctx, answer.Git)
}

func (a *attempt) hostRun() host.Run { return host.Run{ID: a.run.ID, Dir: a.Dir} }

func (a *attempt) prepareRequest() host.PrepareRequest {
	return host.PrepareRequest{
		Run: a.hostRun(), Root: a.run.WorkspaceRoot, KeepRemoved: a.Config.KeepRemoved, KeepGit: a.Config.KeepGitConfig,
		Issue: host.Issue{
			ID: a.run.IssueID, Identifier: a.run.Identifier, Project: a.Config.Policy.Project, StateDir: a.StateDir,
		},
	}
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
	fmt.Fprintf(out, "== %s %s\n", a.Now().UTC().Format(time.RFC3339), name)
	a.Log.LogAttrs(ctx, slog.LevelInfo, "hook started", slog.String("hook", name))
	answer, err := a.Host.RunHook(ctx, host.HookRequest{
		Run: a.hostRun(), Name: name, Script: script, Timeout: a.Config.Hooks.Timeout, Env: a.hookEnv(outcome), Unset: a.Config.Secrets,
	})
	a.Redactor.Add(secretsAmong(answer.Environ, a.Config.PassEnv)) // before its output is written
	_, _ = io.WriteString(out, answer.Log)
	for _, reason := range answer.GitHooksOff {
		a.Log.LogAttrs(ctx, slog.LevelInfo, "the repository's git hooks do not run in this hook, the agent can write them", slog.String("because", reason))
	}
	if err != nil {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "hook failed", slog.String("hook", name), slog.String("error", err.Error()))
		return err
	}
	a.Log.LogAttrs(ctx, slog.LevelInfo, "hook completed", slog.String("hook", name))
	return nil
}

func (a *attempt) hookEnv(outcome reconcile.Outcome) []string {
	return a.env().hook(a.rec.get().Issue, a.run.Attempt, outcome)
}

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
		err = a.restoreGit(ctx)
	}
	crash.At("runner.finish.guarded")
	err = errors.Join(err, a.afterRun(ctx, outcome, err == nil))
	if err != nil && outcome == reconcile.Succeeded {
		outcome = reconcile.Failed
		code, message = a.codeOf(err)
	} else if err != nil {
		a.Log.LogAttrs(ctx, slog.LevelError, "the run's end", slog.String("error", err.Error()))
	}
	if err := a.Host.Finish(ctx, host.FinishRequest{Run: a.hostRun()}); err != nil {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "lease", slog.String("error", err.Error()))
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
	if a.space == nil || !a.hooksStarted {
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
	changed := true // where it is not known: runs that may have worked hold no issue as idle
	if a.before != "" {
		facts, err := a.Host.Facts(ctx, host.FactsRequest{Path: a.space.Path, Fingerprint: true})
		if err != nil {
			a.Log.LogAttrs(ctx, slog.LevelWarn, "state of the workspace", slog.String("error", err.Error()))
		}
		changed = err != nil || facts.Fingerprint != a.before
	}
	a.rec.change(func(r *reconcile.Run) { r.Progress = changed })
	return err
}

// killEverything ends the run's whole tree: what carries its mark or its thread's, what was recorded, and
// what descends from this worker.
func (a *attempt) killEverything(ctx context.Context) error {
	a.noteProcesses()
	run := a.rec.get()
	return a.kill(ctx, host.KillRequest{Owned: host.Owned{
		Run: a.hostRun(), ThreadID: run.ThreadID, Root: run.WorkspaceRoot, Below: true,
	}})
}

// kill ends processes, whatever ended the run, and fails if some are left.
func (a *attempt) kill(ctx context.Context, r host.KillRequest) error {
	answer, err := a.Host.Kill(context.WithoutCancel(ctx), r)
	if err != nil {
		return err
	}
	return host.Leftover(r.Owned.Run.ID, answer.Left)
}

// noteProcesses records every process below the worker, so that a later pass finds those that shed their mark.
func (a *attempt) noteProcesses() { a.observe(host.ObserveRequest{Run: a.hostRun(), All: true}) }

// noteNewProcesses records those that were not there a moment ago.
func (a *attempt) noteNewProcesses() { a.observe(host.ObserveRequest{Run: a.hostRun()}) }

// checkLocks records every process and ends those that keep a lock of symphony.
func (a *attempt) checkLocks() {
	a.observe(host.ObserveRequest{Run: a.hostRun(), All: true, StateDir: a.StateDir, AccountDir: a.AccountDir})
}

func (a *attempt) observe(r host.ObserveRequest) {
	if a.Host == nil {
		return // the run could not be begun
	}
	answer, err := a.Host.Observe(context.Background(), r)
	for _, p := range answer.LockHolders {
		a.Log.Warn("ended a process of the agent that kept a lock of symphony", slog.Int("pid", p.PID), slog.String("name", p.Name))
		a.note(EventLockEnded, fmt.Sprintf("process %d (%s), which kept a lock of symphony, was ended", p.PID, p.Name), LockEndedEvent{p.PID, p.Name})
	}
	if err != nil {
		a.Log.Warn("processes of the run", slog.String("error", err.Error()))
	}
}

// EventLockEnded is a process of the run that was ended because it kept a lock of symphony; its payload a LockEndedEvent.
const EventLockEnded = "lock_ended"

// LockEndedEvent is the payload of EventLockEnded.
type LockEndedEvent struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
}

// removeWorkspace is the work of a cleanup run (specification 8.6 and 9.4): it removes the workspace of its issue, if
// there is one, and deletes what has been in the trash for its time.
func (a *attempt) removeWorkspace(ctx context.Context) error {
	if a.run.IssueID != "" {
		if err := a.remove(ctx, false); err != nil {
			return err
		}
	}
	crash.At("runner.cleanup.removed")
	answer, err := a.Host.Purge(ctx, host.PurgeRequest{
		Root: a.run.WorkspaceRoot, Project: a.Config.Policy.Project, KeepRemoved: a.Config.KeepRemoved,
		MinFree: a.Config.Policy.MinFreeBytes, Now: a.Now(),
	})
	if len(answer.Undeletable) > 0 {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "could not be deleted", slog.Any("paths", answer.Undeletable))
	}
	for path, work := range answer.Unsaved {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "left in the trash: it holds work that exists nowhere else", slog.String("path", path), slog.String("work", work))
	}
	return err
}

// remove removes the workspace. With discard it goes even if work in it exists nowhere else.
func (a *attempt) remove(ctx context.Context, discard bool) error {
	removal, err := a.Host.PrepareRemoval(ctx, host.RemovalRequest{PrepareRequest: a.prepareRequest(), Now: a.Now(), Discard: discard})
	if removal.Unsaved != "" {
		a.leftAlone(ctx, removal.Unsaved)
	}
	if !removal.Found {
		return err
	}
	a.hold(ctx, removal.PrepareAnswer)
	defer func() { a.space = nil }() // the lease is given up
	if err == nil && removal.HookDue {
		err = a.hook(ctx, "before_remove", a.Config.Hooks.BeforeRemove, "")
	}
	if err != nil {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "workspace removed, but", slog.String("error", err.Error()))
	}
	answer, err := a.Host.Remove(ctx, host.RemoveRequest{Run: a.hostRun()})
	if err != nil {
		return err
	}
	if answer.Unsaved != "" {
		a.leftAlone(ctx, answer.Unsaved)
		return nil
	}
	a.Log.LogAttrs(ctx, slog.LevelInfo, "workspace removed", slog.String("trash", answer.Trash))
	if answer.Warning != "" {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "workspace removed, but", slog.String("error", answer.Warning))
	}
	return nil
}

func (a *attempt) leftAlone(ctx context.Context, work string) {
	a.Log.LogAttrs(ctx, slog.LevelWarn, "workspace left alone: it holds work that exists nowhere else", slog.String("work", work))
}
