package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// workspaceStep takes the workspace of the issue, runs the hooks in it, and guards its git settings (specification 9).
type workspaceStep struct {
	*job
	// hooksStarted: before_run was started, so that after_run is due.
	hooksStarted bool
	// before is the workspace's fingerprint then, empty if it took too long to find out.
	before string
}

// prepare takes the workspace, clears up after its last holder, and runs the hooks that come before an agent.
func (w *workspaceStep) prepare(ctx context.Context) error {
	if err := w.take(ctx); err != nil {
		return err
	}
	facts, err := w.Host.Facts(ctx, host.FactsRequest{Path: w.space.Path, Fingerprint: true})
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		// A large repository on a slow disk is not the issue's fault.
		w.Log.LogAttrs(ctx, slog.LevelWarn, "whether the run changes anything will not be known", slog.String("error", err.Error()))
	case err != nil:
		return fmt.Errorf("state of %s: %w", w.space.Path, err)
	}
	w.before = facts.Fingerprint
	w.hooksStarted = true
	if err := w.hook(ctx, "before_run", w.Config.Hooks.BeforeRun, ""); err != nil {
		return err
	}
	return w.guardGit(ctx)
}

// take takes the workspace, and runs after_create in a new one.
func (w *workspaceStep) take(ctx context.Context) error {
	answer, err := w.Host.Prepare(ctx, w.prepareRequest())
	w.hold(ctx, answer)
	if err != nil {
		return err
	}
	if w.space.Created {
		if err := w.hook(ctx, "after_create", w.Config.Hooks.AfterCreate, ""); err != nil {
			return errors.Join(err, w.Host.Confirm(ctx, host.ConfirmRequest{Run: w.hostRun(), Discard: true}))
		}
	}
	return w.Host.Confirm(ctx, host.ConfirmRequest{Run: w.hostRun()})
}

func (w *workspaceStep) prepareRequest() host.PrepareRequest {
	return host.PrepareRequest{
		Run: w.hostRun(), Root: w.run.WorkspaceRoot, KeepRemoved: w.Config.KeepRemoved, KeepGit: w.Config.KeepGitConfig,
		Issue: host.Issue{
			ID: w.run.IssueID, Identifier: w.run.Identifier, Project: w.Config.Policy.Project, StateDir: w.StateDir,
		},
	}
}

// hold notes the workspace that the run has now, if it has one.
func (w *workspaceStep) hold(ctx context.Context, answer host.PrepareAnswer) {
	if answer.Workspace.Path == "" {
		return
	}
	w.space = &answer.Workspace
	w.rec.change(func(r *reconcile.Run) {
		r.WorkspacePath, r.WorkspaceRoot, r.WorkspaceID = w.space.Path, w.space.Root, w.space.ID
	})
	w.reportRestored(ctx, answer.Git)
}

const hooksLimit = 256 << 10 // bytes kept of hooks.log

// hook runs one of the workflow's scripts in the workspace; an empty one is skipped.
func (w *workspaceStep) hook(ctx context.Context, name, script string, outcome reconcile.Outcome) (err error) {
	if strings.TrimSpace(script) == "" {
		return nil
	}
	out := io.Discard
	if file, err := agent.OpenTailFile(filepath.Join(w.Dir, hooksFile), hooksLimit, w.Redactor); err == nil {
		defer func() {
			if err := file.Close(); err != nil {
				w.Log.LogAttrs(ctx, slog.LevelWarn, "log of the hooks", slog.String("error", err.Error()))
			}
		}()
		out = file
	} else { // the run's directory may be gone: work must be pushed all the same
		w.Log.LogAttrs(ctx, slog.LevelWarn, "hook without a log", slog.String("hook", name), slog.String("error", err.Error()))
	}
	fmt.Fprintf(out, "== %s %s\n", w.Now().UTC().Format(time.RFC3339), name)
	w.Log.LogAttrs(ctx, slog.LevelInfo, "hook started", slog.String("hook", name))
	answer, err := w.Host.RunHook(ctx, host.HookRequest{
		Run: w.hostRun(), Name: name, Script: script, Timeout: w.Config.Hooks.Timeout, Env: w.hookEnv(outcome), Unset: w.Config.Secrets,
	})
	w.Redactor.Add(secretsAmong(answer.Environ, w.Config.PassEnv)) // before its output is written
	_, _ = io.WriteString(out, answer.Log)
	for _, reason := range answer.GitHooksOff {
		w.Log.LogAttrs(ctx, slog.LevelInfo, "the repository's git hooks do not run in this hook, the agent can write them", slog.String("because", reason))
	}
	if err != nil {
		w.Log.LogAttrs(ctx, slog.LevelWarn, "hook failed", slog.String("hook", name), slog.String("error", err.Error()))
		return err
	}
	w.Log.LogAttrs(ctx, slog.LevelInfo, "hook completed", slog.String("hook", name))
	return nil
}

func (w *workspaceStep) hookEnv(outcome reconcile.Outcome) []string {
	return w.env().hook(w.rec.get().Issue, w.run.Attempt, outcome)
}

// afterRun runs the last hook, unless git settings or processes of the agent are left, and notes whether the run has
// changed anything. A failure of the hook is only noted; the error is that processes which it left can't be ended.
func (w *workspaceStep) afterRun(ctx context.Context, outcome reconcile.Outcome, safe bool) (err error) {
	if w.space == nil || !w.hooksStarted {
		return nil
	}
	switch script := w.Config.Hooks.AfterRun; {
	case strings.TrimSpace(script) == "":
	case !safe:
		w.Log.LogAttrs(ctx, slog.LevelWarn, "after_run is left out: the agent may still change the workspace")
	default:
		if err := w.hook(ctx, "after_run", script, outcome); err != nil {
			w.Log.LogAttrs(ctx, slog.LevelWarn, "after_run failed, the outcome stays", slog.String("error", err.Error()))
			_, message := codeOf(err)
			w.rec.change(func(r *reconcile.Run) { r.AfterRunError = w.Redactor.Text(message) })
		}
		err = w.killEverything(ctx)
	}
	changed := true // if it is not known, the run counts as one that made progress
	if w.before != "" {
		facts, err := w.Host.Facts(ctx, host.FactsRequest{Path: w.space.Path, Fingerprint: true})
		if err != nil {
			w.Log.LogAttrs(ctx, slog.LevelWarn, "state of the workspace", slog.String("error", err.Error()))
		}
		changed = err != nil || facts.Fingerprint != w.before
	}
	w.rec.change(func(r *reconcile.Run) { r.Progress = changed })
	return err
}

// guardGit notes what git would run for the workflow's hooks now, before an agent can change it.
func (w *workspaceStep) guardGit(ctx context.Context) error {
	anywhere, writable := w.Config.agentWrites()
	return w.Host.GuardGit(ctx, host.GuardGitRequest{
		Run: w.hostRun(), Anywhere: anywhere, Writable: writable, Env: w.hookEnv(""),
	})
}

// restoreGit puts back what an agent has changed since. All that the agent started must have ended, because a live process
// could change it again. With an error no hook may run in the workspace.
func (w *workspaceStep) restoreGit(ctx context.Context) error {
	restored, err := w.Host.RestoreGit(ctx, host.RestoreGitRequest{Run: w.hostRun()})
	w.reportRestored(ctx, restored)
	return err
}

// restoredLogged git settings are named in the log, restoredKept in the event.
const (
	restoredLogged = 10
	restoredKept   = 200
)

func (w *workspaceStep) reportRestored(ctx context.Context, restored host.GitRestored) {
	if restored.Incomplete != "" {
		w.Log.LogAttrs(ctx, slog.LevelWarn, restored.Incomplete)
	}
	names := restored.Names
	if len(names) == 0 {
		return
	}
	first := names[:min(len(names), restoredLogged)]
	w.Log.LogAttrs(ctx, slog.LevelWarn, "git configuration undone", slog.Any("names", first))
	message := strings.Join(first, ", ")
	if more := len(names) - len(first); more > 0 {
		message += fmt.Sprintf(" and %d more", more)
	}
	w.note(agent.EventGitUndone, agent.Printable(message), agent.GitUndoneEvent{Names: names[:min(len(names), restoredKept)]})
}

// agentWrites says which directories an agent of this workflow may write besides its workspace. An agent whose commands can
// be approved may write anywhere, because those run outside of the sandbox.
func (c Config) agentWrites() (anywhere bool, dirs []string) {
	dirs = c.WritableRoots
	if c.TurnSandboxPolicy != nil {
		var policy struct {
			Type          string    `json:"type"`
			WritableRoots *[]string `json:"writableRoots"`
		}
		err := json.Unmarshal(c.TurnSandboxPolicy, &policy)
		switch {
		case err != nil || policy.Type != "workspaceWrite" && policy.Type != "readOnly":
			return true, nil
		case policy.WritableRoots != nil:
			dirs = *policy.WritableRoots
		}
	}
	return string(c.ApprovalPolicy) != `"never"`, dirs
}
