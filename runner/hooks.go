package runner

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

const afterCreate = "after_create"

const hooksLimit = 256 << 10 // bytes kept of hooks.log

// hookEnv returns a hook's environment. Text of the issue reaches hooks only in variables,
// never as part of a script.
func (w *workspaceStep) hookEnv(outcome reconcile.Outcome) []string {
	issue := w.rec.get().Issue
	value := func(s string) string { return w.agentRedactor.Text(strings.ReplaceAll(s, "\x00", "")) }
	env := append(w.site.Config.RunHookEnv(w.site.Env, w.run.ID, *w.site.space),
		"SYMPHONY_ISSUE_ID="+issue.ID,
		"SYMPHONY_ISSUE_IDENTIFIER="+issue.Identifier,
		"SYMPHONY_ISSUE_TITLE="+value(issue.Title),
		"SYMPHONY_ISSUE_STATE="+value(issue.State),
		"SYMPHONY_ISSUE_URL="+value(text.OrEmpty(issue.URL)),
		"SYMPHONY_ISSUE_BRANCH="+value(text.OrEmpty(issue.BranchName)),
		"SYMPHONY_ATTEMPT="+strconv.Itoa(w.run.Attempt),
		"SYMPHONY_WORKSPACE="+w.site.space.Path,
	)
	env = append(env, w.site.Config.SlotVar()...)
	if outcome != "" {
		env = append(env, "SYMPHONY_OUTCOME="+string(outcome))
	}
	return env
}

// hook runs a script of the workflow in the workspace; an empty script is skipped.
func (w *workspaceStep) hook(ctx context.Context, name, script string, outcome reconcile.Outcome) error {
	if strings.TrimSpace(script) == "" {
		return nil
	}
	out := io.Discard
	file, err := agent.OpenTailFile(filepath.Join(w.Dir, HooksFile), hooksLimit, w.Redactor)
	if err != nil { // the run's directory may be gone, but after_run must still push the work
		warn(w.Log, "hook "+name+" without a log", err)
	} else {
		defer func() { warn(w.Log, "log of the hooks", file.Close()) }()
		out = file
	}
	fmt.Fprintf(out, "== %s %s\n", w.Now().UTC().Format(time.RFC3339), name)
	env := w.hookEnv(outcome)
	if name == afterCreate { // later an agent could have planted links in it
		env = append(env, "SYMPHONY_AGENT_CACHE="+w.site.space.CacheDir)
	}
	// before the output is written, so that secrets of the profile are redacted in it
	profile, err := w.shell.login(ctx)
	if err != nil {
		w.Log.Warn("hook not started", "hook", name, "error", err)
		fmt.Fprintf(out, "--- %s: not started: %v\n", name, err)
		return err
	}
	w.Log.Info("hook started", "hook", name)
	answer, err := w.site.host.RunHook(ctx, host.HookRequest{
		Name:    name,
		Where:   w.site.Config.Hooks.Where[name],
		Script:  umask(profile) + script,
		Timeout: w.site.Config.Hooks.Timeout,
		Env:     w.site.Config.AfterLogin(env, profile, w.site.Config.Secrets),
	})
	_, _ = io.WriteString(out, answer.Log)
	for _, reason := range answer.GitHooksOff {
		w.Log.Info("git hooks are off in this hook", "reason", reason)
	}
	if err != nil {
		w.Log.Warn("hook failed", "hook", name, "error", err)
		return err
	}
	w.Log.Info("hook completed", "hook", name)
	return nil
}

// afterRun runs after_run, unless unsafe is a reason why it may not run: git settings are not
// restored, or a process of the agent is left. It records whether the run changed anything,
// and keeps the contents of the workspace. The error is that processes of the hook could not
// be ended.
func (w *workspaceStep) afterRun(ctx context.Context, outcome reconcile.Outcome, unsafe error) error {
	if w.site.space == nil || !w.hooksStarted {
		return nil
	}
	err := w.runAfterRun(ctx, outcome, unsafe)
	w.recordProgress(ctx)
	w.keepEnd(ctx)
	return err
}

// runAfterRun runs the hook, and records why it failed or did not run.
func (w *workspaceStep) runAfterRun(
	ctx context.Context,
	outcome reconcile.Outcome,
	unsafe error,
) (err error) {
	script := w.site.Config.Hooks.AfterRun
	if strings.TrimSpace(script) == "" {
		return nil
	}
	failed := unsafe
	if unsafe == nil {
		failed = w.hook(ctx, "after_run", script, outcome)
		err = w.processes.killAll(ctx)
	}
	warn(w.Log, "after_run failed or did not run", failed)
	// otherwise the run itself ends with the reason
	if failed != nil && (unsafe == nil || !outcome.IsRegular()) {
		_, message := codeOf(failed)
		w.rec.change(func(r *reconcile.Run) { r.AfterRunError = w.Redactor.Text(message) })
	}
	return err
}
