package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// workspaceStep takes the workspace of the issue, runs its hooks, protects its git settings,
// and removes it (specification 9).
type workspaceStep struct {
	run       reconcile.Run // as dispatched
	site      *site
	shell     *shell
	branch    *issueBranch
	processes *processes
	journal   RunJournal
	rec       *record
	events    *eventLog
	dir       string // the run's directory, for the log of the hooks
	redactor  *agent.Redactor
	// agentRedactor removes only the tracker's key, from the variables of hooks.
	agentRedactor *agent.Redactor
	now           func() time.Time
	log           *slog.Logger

	hooksStarted bool // before_run was started, so that after_run is due
	// before is the workspace's fingerprint before before_run, "" if it took too long.
	before string
	// untrusted is why no hook may run in the workspace, nil if hooks may run.
	untrusted error
	cloned    host.CloneAnswer // of a new workspace
}

func (j *job) newWorkspaceStep() *workspaceStep {
	return &workspaceStep{
		run:           j.run,
		site:          j.site,
		shell:         j.shell,
		branch:        j.branch,
		processes:     j.processes,
		journal:       j.worker.Journal,
		rec:           j.rec,
		events:        j.events,
		dir:           j.worker.Dir,
		redactor:      j.worker.Redactor,
		agentRedactor: j.agentRedactor,
		now:           j.worker.Now,
		log:           j.log,
	}
}

// prepare takes the workspace and runs the hooks that precede an agent.
func (w *workspaceStep) prepare(ctx context.Context) error {
	if err := w.take(ctx); err != nil {
		return err
	}
	if w.untrusted != nil {
		return w.untrusted
	}
	if err := w.shell.refuseLauncher(ctx); err != nil {
		return err
	}
	if !w.site.space.Created {
		err := w.cloneOrFetch(ctx)
		if neverPushed(err) {
			return err
		}
		warn(w.log, "repository not fetched, the agent starts without the newest base", err)
	}
	before, err := w.site.Machine.Fingerprint(ctx, w.site.space.Path)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		// A large repository on a slow disk is no reason to fail the run.
		warn(w.log, "fingerprint timed out: the run will count as progress", err)
	} else if err != nil {
		return fmt.Errorf("state of %s: %w", w.site.space.Path, err)
	}
	w.before = before
	w.hooksStarted = true
	if err := w.hook(ctx, "before_run", w.site.Config.Hooks.BeforeRun, ""); err != nil {
		return err
	}
	return w.guardGit(ctx)
}

// neverPushed reports whether a fetch found that the work could not be pushed.
func neverPushed(err error) bool {
	known, _ := errors.AsType[*reconcile.Error](err)
	if known == nil {
		return false
	}
	return slices.Contains(
		[]string{host.CodeInvalidBranch, host.CodeBranchInTheWay, host.CodeBranchCheckedOut},
		known.Code,
	)
}

// take takes the workspace. A new workspace is filled with a clone, if the workflow names a
// repository, and after_create runs in it.
func (w *workspaceStep) take(ctx context.Context) error {
	answer, err := w.site.host.Prepare(ctx, w.prepareRequest())
	w.recordWorkspace(answer)
	if err != nil {
		return err
	}
	if w.site.space.Created {
		if err := w.fill(ctx); err != nil {
			return errors.Join(err, w.site.host.Confirm(ctx, host.ConfirmRequest{Discard: true}))
		}
	}
	return w.site.host.Confirm(ctx, host.ConfirmRequest{
		KeepCache: w.site.space.Created && w.site.Config.Verify.checksOut(),
	})
}

// fill fills a new workspace.
func (w *workspaceStep) fill(ctx context.Context) error {
	if err := w.cloneOrFetch(ctx); err != nil {
		return err
	}
	return w.hook(ctx, afterCreate, w.site.Config.Hooks.AfterCreate, "")
}

// cloneOrFetch fills a new workspace, or updates the remote references of an older workspace,
// if the workflow names a repository.
func (w *workspaceStep) cloneOrFetch(ctx context.Context) error {
	repository := w.site.Config.Repository
	if repository.URL == "" {
		return nil
	}
	branch, last, err := w.branch.name(ctx)
	if err != nil {
		return err
	}
	q, err := w.branch.cloneRequest(ctx, branch, last)
	if err != nil {
		return err
	}
	if w.site.space.Created {
		return w.clone(ctx, q)
	}
	return w.fetch(ctx, q)
}

func (w *workspaceStep) clone(ctx context.Context, q host.CloneRequest) error {
	q.Issue = w.run.IssueID
	answer, err := w.site.host.Clone(ctx, q)
	if err != nil {
		logOutput(w.log, err)
		return err
	}
	w.cloned = answer
	w.log.Info(
		"repository cloned",
		"branch", q.Branch,
		"base", answer.Base,
		"commit", answer.Commit,
		"kept", answer.Kept,
	)
	return nil
}

func (w *workspaceStep) fetch(ctx context.Context, q host.CloneRequest) error {
	answer, err := w.site.host.Fetch(ctx, q)
	if err != nil {
		logOutput(w.log, err)
		return err
	}
	w.branch.base = answer
	w.branch.takePushed(answer.Pushed)
	w.log.Info(
		"repository fetched",
		"base", answer.Base,
		"commit", answer.Commit,
		"behind", answer.Behind,
	)
	return nil
}

func (w *workspaceStep) prepareRequest() host.PrepareRequest {
	return host.PrepareRequest{
		Root:        w.site.root,
		KeepRemoved: w.site.Config.KeepRemoved,
		KeepGit:     w.site.Config.KeepGitConfig,
		Issue: host.Issue{
			ID:         w.run.IssueID,
			Identifier: w.run.Identifier,
			Project:    w.site.Config.Policy.Project,
			StateDir:   w.site.StateDir,
		},
	}
}

// recordWorkspace records the workspace that the run took, if any.
func (w *workspaceStep) recordWorkspace(answer host.PrepareAnswer) {
	if answer.Workspace.Path == "" {
		return
	}
	w.site.space = &answer.Workspace
	w.rec.change(func(r *reconcile.Run) {
		r.WorkspacePath = w.site.space.Path
		r.WorkspaceRoot = w.site.space.Root
		r.WorkspaceID = w.site.space.ID
	})
	w.reportRestored(answer.Git)
	if w.site.link == nil {
		return
	}
	// At once, because the link may be lost at the end of the run.
	space := reconcile.Workspace{
		IssueID:    w.run.IssueID,
		Identifier: w.run.Identifier,
		Project:    w.site.Config.Policy.Project,
		Host:       w.run.Host,
		Root:       w.site.space.Root,
		Path:       w.site.space.Path,
	}
	err := w.journal.SaveRemoteWorkspace(context.Background(), w.rec.get(), &space)
	warn(w.log, "workspace on the host not recorded", err)
}

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
	if outcome != "" {
		env = append(env, "SYMPHONY_OUTCOME="+string(outcome))
	}
	return env
}

const afterCreate = "after_create"

const hooksLimit = 256 << 10 // bytes kept of hooks.log

// hook runs a script of the workflow in the workspace; an empty script is skipped.
func (w *workspaceStep) hook(ctx context.Context, name, script string, outcome reconcile.Outcome) error {
	if strings.TrimSpace(script) == "" {
		return nil
	}
	out := io.Discard
	file, err := agent.OpenTailFile(filepath.Join(w.dir, HooksFile), hooksLimit, w.redactor)
	if err != nil { // the run's directory may be gone, but after_run must still push the work
		warn(w.log, "hook "+name+" without a log", err)
	} else {
		defer func() { warn(w.log, "log of the hooks", file.Close()) }()
		out = file
	}
	fmt.Fprintf(out, "== %s %s\n", w.now().UTC().Format(time.RFC3339), name)
	env := w.hookEnv(outcome)
	if name == afterCreate { // later an agent could have planted links in it
		env = append(env, "SYMPHONY_AGENT_CACHE="+w.site.space.CacheDir)
	}
	// before the output is written, so that secrets of the profile are redacted in it
	profile, err := w.shell.login(ctx)
	if err != nil {
		w.log.Warn("hook not started", "hook", name, "error", err)
		fmt.Fprintf(out, "--- %s: not started: %v\n", name, err)
		return err
	}
	w.log.Info("hook started", "hook", name)
	answer, err := w.site.host.RunHook(ctx, host.HookRequest{
		Name:    name,
		Where:   w.site.Config.Hooks.Where[name],
		Script:  umask(profile) + script,
		Timeout: w.site.Config.Hooks.Timeout,
		Env:     w.site.Config.AfterLogin(env, profile, w.site.Config.Secrets),
	})
	_, _ = io.WriteString(out, answer.Log)
	for _, reason := range answer.GitHooksOff {
		w.log.Info("the repository's git hooks are off in this hook, because the agent can write them",
			"reason", reason)
	}
	if err != nil {
		w.log.Warn("hook failed", "hook", name, "error", err)
		return err
	}
	w.log.Info("hook completed", "hook", name)
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
	warn(w.log, "after_run failed or did not run", failed)
	// otherwise the run itself ends with the reason
	if failed != nil && (unsafe == nil || outcome != reconcile.Succeeded) {
		_, message := codeOf(failed)
		w.rec.change(func(r *reconcile.Run) { r.AfterRunError = w.redactor.Text(message) })
	}
	return err
}

// recordProgress records whether the run changed anything. If that is not known, it counts as
// progress.
func (w *workspaceStep) recordProgress(ctx context.Context) {
	changed := true
	if w.before != "" {
		now, err := w.site.Machine.Fingerprint(ctx, w.site.space.Path)
		warn(w.log, "state of the workspace", err)
		changed = err != nil || now != w.before
	}
	w.rec.change(func(r *reconcile.Run) { r.Progress = changed })
}

// keepEnd keeps the contents of the workspace, and notes the changes of the run.
func (w *workspaceStep) keepEnd(ctx context.Context) {
	end, err := w.site.Machine.KeepEnd(ctx, w.site.space.Path)
	warn(w.log, "end of the work not kept, it can't be compared with that of other attempts", err)
	if end == nil {
		return
	}
	files := text.Plural(end.Files, "file")
	commits := text.Plural(end.Commits, "commit")
	message := fmt.Sprintf("changed %s (+%d -%d), %s", files, end.Added, end.Removed, commits)
	w.events.note(agent.EventWorkEnd, message, end)
}

// guardGit records the programs that git would run for the workflow's hooks, before an agent
// can change them.
func (w *workspaceStep) guardGit(ctx context.Context) error {
	anywhere, writable := w.site.Config.AgentWrites()
	return w.site.host.GuardGit(ctx, host.GuardGitRequest{
		Anywhere: anywhere,
		Writable: writable,
		Env:      w.hookEnv(""),
	})
}

// restoreGit undoes an agent's changes since guardGit. All processes of the agent must have
// ended, because they could change it again. After an error no hook may run in the workspace.
func (w *workspaceStep) restoreGit(ctx context.Context) error {
	restored, err := w.site.host.RestoreGit(ctx)
	w.reportRestored(restored)
	if err != nil {
		return err
	}
	return w.untrusted
}

// restoredLogged is how many restored git settings the log names. The event names all.
const restoredLogged = 10

func (w *workspaceStep) reportRestored(restored host.GitRestored) {
	if restored.Incomplete != "" {
		w.log.Warn(restored.Incomplete)
	}
	w.processes.logLocks(restored.Locks)
	w.untrusted = nil
	if restored.Untrusted != "" {
		w.untrusted = &reconcile.Error{Code: host.CodeUntrusted, Message: restored.Untrusted}
		w.log.Warn("workspace not trusted", "error", w.untrusted)
	}
	names := restored.Names
	if len(names) == 0 {
		return
	}
	first := names[:min(len(names), restoredLogged)]
	w.log.Warn("git configuration undone", "names", first)
	message := strings.Join(first, ", ")
	if more := len(names) - len(first); more > 0 {
		message += fmt.Sprintf(" and %d more", more)
	}
	w.events.note(agent.EventGitUndone, message, agent.GitUndoneEvent{Names: names})
}

// cleanUp is the only step of a cleanup run (specification 8.6 and 9.4). It removes the
// workspace of the run's issue, if any, and deletes entries that were in the trash long
// enough. It returns the work that exists nowhere else, because of which the workspace was
// kept; with discard even that is removed.
func (w *workspaceStep) cleanUp(ctx context.Context, discard bool) (unsaved string, err error) {
	if w.run.IssueID != "" {
		unsaved, err = w.remove(ctx, discard)
	}
	if unsaved != "" {
		w.log.Warn("workspace not removed: it contains work that exists nowhere else", "work", unsaved)
	}
	if err != nil {
		return "", err
	}
	answer, err := w.site.Machine.Purge(ctx, host.RootRequest{
		Root:        w.site.root,
		Project:     w.site.Config.Policy.Project,
		KeepRemoved: w.site.Config.KeepRemoved,
		MinFree:     w.site.Config.Policy.MinFreeBytes,
		Now:         w.now(),
	})
	if len(answer.Undeletable) > 0 {
		w.log.Warn("trash not deleted", "paths", answer.Undeletable)
	}
	for path, work := range answer.Unsaved {
		w.log.Warn("left in the trash: it contains work that exists nowhere else", "path", path, "work", work)
	}
	return unsaved, err
}

// remove moves the workspace into the trash, unless it returns the unsaved work because of
// which the workspace is kept.
func (w *workspaceStep) remove(ctx context.Context, discard bool) (unsaved string, err error) {
	removal, err := w.site.host.PrepareRemoval(ctx, host.RemovalRequest{
		PrepareRequest: w.prepareRequest(),
		Now:            w.now(),
		Discard:        discard,
	})
	if !removal.Found {
		return removal.Unsaved, err
	}
	w.recordWorkspace(removal.PrepareAnswer)
	far := w.site.farClone()
	defer func() { w.site.space = nil }() // the lease is released
	if err == nil && removal.HookDue {
		err = w.hook(ctx, "before_remove", w.site.Config.Hooks.BeforeRemove, "")
	}
	// A worker that was asked to end also ended the hook. A later pass starts the removal
	// again.
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	warn(w.log, "before_remove failed or did not run, removing the workspace anyway", err)
	answer, err := w.site.host.Remove(ctx)
	if err != nil || answer.Unsaved != "" {
		return answer.Unsaved, err
	}
	w.log.Info("workspace removed", "trash", answer.Trash)
	if far {
		w.branch.forget(ctx)
	}
	return "", nil
}
