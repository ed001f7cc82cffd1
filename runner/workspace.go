package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	*job
	hooksStarted bool // before_run was started, so that after_run is due
	// before is the workspace's fingerprint before before_run, "" if it took too long.
	before string
	// untrusted is why no hook may run in the workspace, nil if hooks may run.
	untrusted error
	// delivered is the last push for the issue, if there is no Journal.
	delivered reconcile.Delivered
	cloned    host.CloneAnswer // of a new workspace
}

// prepare takes the workspace and runs the hooks that precede an agent.
func (w *workspaceStep) prepare(ctx context.Context) error {
	if err := w.take(ctx); err != nil {
		return err
	}
	if w.untrusted != nil {
		return w.untrusted
	}
	if err := w.refuseLauncher(ctx); err != nil {
		return err
	}
	if !w.space.Created {
		err := w.cloneOrFetch(ctx)
		if neverPushed(err) {
			return err
		}
		w.warn("repository not fetched, the agent starts without the newest base", err)
	}
	before, err := w.Machine.Fingerprint(ctx, w.space.Path)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		// A large repository on a slow disk is no reason to fail the run.
		w.warn("fingerprint timed out: the run will count as progress", err)
	} else if err != nil {
		return fmt.Errorf("state of %s: %w", w.space.Path, err)
	}
	w.before = before
	w.hooksStarted = true
	if err := w.hook(ctx, "before_run", w.Config.Hooks.BeforeRun, ""); err != nil {
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
	answer, err := w.host.Prepare(ctx, w.prepareRequest())
	w.recordWorkspace(answer)
	if err != nil {
		return err
	}
	if w.space.Created {
		if err := w.fill(ctx); err != nil {
			return errors.Join(err, w.host.Confirm(ctx, host.ConfirmRequest{Discard: true}))
		}
	}
	return w.host.Confirm(ctx, host.ConfirmRequest{KeepCache: w.space.Created && w.checksOut()})
}

// fill fills a new workspace.
func (w *workspaceStep) fill(ctx context.Context) error {
	if err := w.cloneOrFetch(ctx); err != nil {
		return err
	}
	return w.hook(ctx, afterCreate, w.Config.Hooks.AfterCreate, "")
}

// repositoryTimeout bounds a clone or a push, which may have to transfer much. A longer limit
// of hooks counts instead.
const repositoryTimeout = 10 * time.Minute

// checkoutEnv returns the environment of git for a checkout on the machine of the workspace.
// Another machine gets no token of this machine.
func (j *job) checkoutEnv(ctx context.Context) ([]string, error) {
	if j.gitHere == nil {
		return j.gitEnv(ctx)
	}
	profile, err := j.login(ctx)
	return j.Config.AfterLogin(j.Config.HookEnv(j.Env), profile, j.Config.Secrets), err
}

// cloneRequest is the request to clone or to fetch.
func (j *job) cloneRequest(
	ctx context.Context,
	branch string,
	last reconcile.Delivered,
) (host.CloneRequest, error) {
	env, err := j.gitEnv(ctx)
	if err != nil {
		return host.CloneRequest{}, err
	}
	checkout, err := j.checkoutEnv(ctx)
	if err != nil {
		return host.CloneRequest{}, err
	}
	return host.CloneRequest{
		Repository:  j.Config.Repository.Repository,
		Branch:      branch,
		Delivered:   last.Commit,
		Timeout:     max(repositoryTimeout, j.Config.Hooks.Timeout),
		Env:         env,
		CheckoutEnv: checkout,
	}, nil
}

// pushedMeanwhile returns others' pushes to the branch of the issue that the workspace does
// not contain; nil for none. Before the first delivery there is no such branch. Programs of
// the agent may be at work.
func (j *job) pushedMeanwhile(ctx context.Context) (*host.Pushed, error) {
	pushed, err := j.fetchPushed(ctx, true)
	if err != nil || pushed == nil || pushed.Taken {
		return nil, err
	}
	return pushed, nil
}

// fetchPushed fetches others' pushes to the branch of the issue since the last delivery; nil
// for none. With look, programs of the agent may be at work; without, the workspace is moved
// to the new commits, where that is possible.
func (j *job) fetchPushed(ctx context.Context, look bool) (*host.Pushed, error) {
	if j.Journal == nil || !j.Config.Repository.Deliver {
		return nil, nil
	}
	last, _, err := j.Journal.Delivered(ctx, j.run.IssueID)
	if err != nil || last.Branch == "" || last.URL != j.Config.Repository.URL {
		return nil, err
	}
	q, err := j.cloneRequest(ctx, last.Branch, last)
	if err != nil {
		return nil, err
	}
	q.Look = look
	answer, err := j.host.Fetch(ctx, q)
	return answer.Pushed, err
}

// takePushed records others' pushes, which the next turn tells the agent.
func (j *job) takePushed(p *host.Pushed) {
	j.base.Pushed = p
	if p == nil {
		return
	}
	j.Log.Info(
		"others have pushed to the branch",
		"commit", p.Commit,
		"commits", p.Total,
		"taken", p.Taken,
		"why", p.Why,
	)
	how := "the workspace has them now"
	if !p.Taken {
		how = fmt.Sprintf("the agent has to merge %.12s, because %s", p.Commit, p.Why)
	}
	j.note("pushed", "others have pushed "+text.Plural(p.Total, "commit")+" to the branch: "+how, p)
}

// cloneOrFetch fills a new workspace, or updates the remote references of an older workspace,
// if the workflow names a repository.
func (w *workspaceStep) cloneOrFetch(ctx context.Context) error {
	repository := w.Config.Repository
	if repository.URL == "" {
		return nil
	}
	branch, last, err := w.branch(ctx, w.delivered)
	if err != nil {
		return err
	}
	q, err := w.cloneRequest(ctx, branch, last)
	if err != nil {
		return err
	}
	if w.space.Created {
		return w.clone(ctx, q)
	}
	return w.fetch(ctx, q)
}

func (w *workspaceStep) clone(ctx context.Context, q host.CloneRequest) error {
	q.Issue = w.run.IssueID
	answer, err := w.host.Clone(ctx, q)
	if err != nil {
		w.logOutput(err)
		return err
	}
	w.cloned = answer
	w.Log.Info(
		"repository cloned",
		"branch", q.Branch,
		"base", answer.Base,
		"commit", answer.Commit,
		"kept", answer.Kept,
	)
	return nil
}

func (w *workspaceStep) fetch(ctx context.Context, q host.CloneRequest) error {
	answer, err := w.host.Fetch(ctx, q)
	if err != nil {
		w.logOutput(err)
		return err
	}
	w.base = answer
	w.takePushed(answer.Pushed)
	w.Log.Info(
		"repository fetched",
		"base", answer.Base,
		"commit", answer.Commit,
		"behind", answer.Behind,
	)
	return nil
}

// keepRequest asks this machine to keep the commits of an issue. That needs no remote, and so
// no login shell.
func (p Place) keepRequest(issueID string) host.KeepRequest {
	return host.KeepRequest{
		Repository: p.Config.Repository.Repository,
		Issue:      issueID,
		Timeout:    max(repositoryTimeout, p.Config.Hooks.Timeout),
		Env:        p.Config.HookEnv(p.Env),
	}
}

// farClone reports whether the workspace is a clone on another machine, with which its commits
// can be lost.
func (j *job) farClone() bool {
	return j.gitHere != nil && j.space != nil && j.Config.Repository.URL != ""
}

// keep copies the commits of the workspace to this machine, if they are on another machine: if
// that dies, such as a container, it costs at most the running turn. A handover knows which
// commit it is about.
func (j *job) keep(ctx context.Context) {
	if !j.farClone() {
		return
	}
	commit, err := j.host.Keep(ctx, j.Here.keepRequest(j.run.IssueID))
	if err != nil {
		j.warn("the commits are not copied to this machine", err)
		return
	}
	j.rec.change(func(r *reconcile.Run) { r.Delivery.Handover = r.Delivery.Handover.About(commit) })
}

// forgetKept drops the commits that were kept of a workspace, after it was removed.
func (j *job) forgetKept(ctx context.Context) {
	err := j.host.Forget(ctx, j.Here.keepRequest(j.run.IssueID))
	j.warn("the commits of the workspace stay on this machine", err)
}

// branch returns the branch of the issue and the last push to it, from the journal or, without
// a journal, from delivered. An issue keeps its branch once something was pushed, even if its
// title or the workflow changes.
func (j *job) branch(
	ctx context.Context,
	delivered reconcile.Delivered,
) (name string, last reconcile.Delivered, err error) {
	last = delivered
	if j.Journal != nil {
		last, _, err = j.Journal.Delivered(ctx, j.run.IssueID)
		if err != nil {
			return "", last, err
		}
	}
	repository := j.Config.Repository
	if last.URL == repository.URL {
		return last.Branch, last, nil
	}
	name, err = repository.Branch.Render(j.rec.get().Issue, 0)
	if err != nil || name != last.Branch {
		return name, reconcile.Delivered{}, err
	}
	// the new address may lead to the same repository
	return name, reconcile.Delivered{Commit: last.Commit}, nil
}

func (w *workspaceStep) prepareRequest() host.PrepareRequest {
	return host.PrepareRequest{
		Root:        w.run.WorkspaceRoot,
		KeepRemoved: w.Config.KeepRemoved,
		KeepGit:     w.Config.KeepGitConfig,
		Issue: host.Issue{
			ID:         w.run.IssueID,
			Identifier: w.run.Identifier,
			Project:    w.Config.Policy.Project,
			StateDir:   w.StateDir,
		},
	}
}

// recordWorkspace records the workspace that the run took, if any.
func (w *workspaceStep) recordWorkspace(answer host.PrepareAnswer) {
	if answer.Workspace.Path == "" {
		return
	}
	w.space = &answer.Workspace
	w.rec.change(func(r *reconcile.Run) {
		r.WorkspacePath = w.space.Path
		r.WorkspaceRoot = w.space.Root
		r.WorkspaceID = w.space.ID
	})
	w.reportRestored(answer.Git)
	if w.link == nil {
		return
	}
	// At once, because the link may be lost at the end of the run.
	space := reconcile.Workspace{
		IssueID:    w.run.IssueID,
		Identifier: w.run.Identifier,
		Project:    w.Config.Policy.Project,
		Host:       w.run.Host,
		Root:       w.space.Root,
		Path:       w.space.Path,
	}
	err := w.Journal.SaveRemoteWorkspace(context.Background(), w.rec.get(), &space)
	w.warn("workspace on the host not recorded", err)
}

// hookEnv returns a hook's environment. Text of the issue reaches hooks only in variables,
// never as part of a script.
func (w *workspaceStep) hookEnv(outcome reconcile.Outcome) []string {
	issue := w.rec.get().Issue
	value := func(s string) string { return w.agentRedactor.Text(strings.ReplaceAll(s, "\x00", "")) }
	env := append(w.Config.RunHookEnv(w.Env, w.run.ID, *w.space),
		"SYMPHONY_ISSUE_ID="+issue.ID,
		"SYMPHONY_ISSUE_IDENTIFIER="+issue.Identifier,
		"SYMPHONY_ISSUE_TITLE="+value(issue.Title),
		"SYMPHONY_ISSUE_STATE="+value(issue.State),
		"SYMPHONY_ISSUE_URL="+value(text.OrEmpty(issue.URL)),
		"SYMPHONY_ISSUE_BRANCH="+value(text.OrEmpty(issue.BranchName)),
		"SYMPHONY_ATTEMPT="+strconv.Itoa(w.run.Attempt),
		"SYMPHONY_WORKSPACE="+w.space.Path,
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
	file, err := agent.OpenTailFile(filepath.Join(w.Dir, HooksFile), hooksLimit, w.Redactor)
	if err != nil { // the run's directory may be gone, but after_run must still push the work
		w.warn("hook "+name+" without a log", err)
	} else {
		defer func() { w.warn("log of the hooks", file.Close()) }()
		out = file
	}
	fmt.Fprintf(out, "== %s %s\n", w.Now().UTC().Format(time.RFC3339), name)
	env := w.hookEnv(outcome)
	if name == afterCreate { // later an agent could have planted links in it
		env = append(env, "SYMPHONY_AGENT_CACHE="+w.space.CacheDir)
	}
	// before the output is written, so that secrets of the profile are redacted in it
	profile, err := w.login(ctx)
	if err != nil {
		w.Log.Warn("hook not started", "hook", name, "error", err)
		fmt.Fprintf(out, "--- %s: not started: %v\n", name, err)
		return err
	}
	w.Log.Info("hook started", "hook", name)
	answer, err := w.host.RunHook(ctx, host.HookRequest{
		Name:    name,
		Where:   w.Config.Hooks.Where[name],
		Script:  umask(profile) + script,
		Timeout: w.Config.Hooks.Timeout,
		Env:     w.Config.AfterLogin(env, profile, w.Config.Secrets),
	})
	_, _ = io.WriteString(out, answer.Log)
	for _, reason := range answer.GitHooksOff {
		w.Log.Info("the repository's git hooks are off in this hook, because the agent can write them",
			"reason", reason)
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
	if w.space == nil || !w.hooksStarted {
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
	script := w.Config.Hooks.AfterRun
	if strings.TrimSpace(script) == "" {
		return nil
	}
	failed := unsafe
	if unsafe == nil {
		failed = w.hook(ctx, "after_run", script, outcome)
		err = w.killAll(ctx)
	}
	w.warn("after_run failed or did not run", failed)
	// otherwise the run itself ends with the reason
	if failed != nil && (unsafe == nil || outcome != reconcile.Succeeded) {
		_, message := codeOf(failed)
		w.rec.change(func(r *reconcile.Run) { r.AfterRunError = w.Redactor.Text(message) })
	}
	return err
}

// recordProgress records whether the run changed anything. If that is not known, it counts as
// progress.
func (w *workspaceStep) recordProgress(ctx context.Context) {
	changed := true
	if w.before != "" {
		now, err := w.Machine.Fingerprint(ctx, w.space.Path)
		w.warn("state of the workspace", err)
		changed = err != nil || now != w.before
	}
	w.rec.change(func(r *reconcile.Run) { r.Progress = changed })
}

// keepEnd keeps the contents of the workspace, and notes the changes of the run.
func (w *workspaceStep) keepEnd(ctx context.Context) {
	end, err := w.Machine.KeepEnd(ctx, w.space.Path)
	w.warn("end of the work not kept, it can't be compared with that of other attempts", err)
	if end == nil {
		return
	}
	files := text.Plural(end.Files, "file")
	commits := text.Plural(end.Commits, "commit")
	message := fmt.Sprintf("changed %s (+%d -%d), %s", files, end.Added, end.Removed, commits)
	w.note(agent.EventWorkEnd, message, end)
}

// guardGit records the programs that git would run for the workflow's hooks, before an agent
// can change them.
func (w *workspaceStep) guardGit(ctx context.Context) error {
	anywhere, writable := w.Config.AgentWrites()
	return w.host.GuardGit(ctx, host.GuardGitRequest{
		Anywhere: anywhere,
		Writable: writable,
		Env:      w.hookEnv(""),
	})
}

// restoreGit undoes an agent's changes since guardGit. All processes of the agent must have
// ended, because they could change it again. After an error no hook may run in the workspace.
func (w *workspaceStep) restoreGit(ctx context.Context) error {
	restored, err := w.host.RestoreGit(ctx)
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
		w.Log.Warn(restored.Incomplete)
	}
	w.logLocks(restored.Locks)
	w.untrusted = nil
	if restored.Untrusted != "" {
		w.untrusted = &reconcile.Error{Code: host.CodeUntrusted, Message: restored.Untrusted}
		w.Log.Warn("workspace not trusted", "error", w.untrusted)
	}
	names := restored.Names
	if len(names) == 0 {
		return
	}
	first := names[:min(len(names), restoredLogged)]
	w.Log.Warn("git configuration undone", "names", first)
	message := strings.Join(first, ", ")
	if more := len(names) - len(first); more > 0 {
		message += fmt.Sprintf(" and %d more", more)
	}
	w.note(agent.EventGitUndone, message, agent.GitUndoneEvent{Names: names})
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
		w.Log.Warn("workspace not removed: it contains work that exists nowhere else", "work", unsaved)
	}
	if err != nil {
		return "", err
	}
	answer, err := w.Machine.Purge(ctx, host.RootRequest{
		Root:        w.run.WorkspaceRoot,
		Project:     w.Config.Policy.Project,
		KeepRemoved: w.Config.KeepRemoved,
		MinFree:     w.Config.Policy.MinFreeBytes,
		Now:         w.Now(),
	})
	if len(answer.Undeletable) > 0 {
		w.Log.Warn("trash not deleted", "paths", answer.Undeletable)
	}
	for path, work := range answer.Unsaved {
		w.Log.Warn("left in the trash: it contains work that exists nowhere else", "path", path, "work", work)
	}
	return unsaved, err
}

// remove moves the workspace into the trash, unless it returns the unsaved work because of
// which the workspace is kept.
func (w *workspaceStep) remove(ctx context.Context, discard bool) (unsaved string, err error) {
	removal, err := w.host.PrepareRemoval(ctx, host.RemovalRequest{
		PrepareRequest: w.prepareRequest(),
		Now:            w.Now(),
		Discard:        discard,
	})
	if !removal.Found {
		return removal.Unsaved, err
	}
	w.recordWorkspace(removal.PrepareAnswer)
	far := w.farClone()
	defer func() { w.space = nil }() // the lease is released
	if err == nil && removal.HookDue {
		err = w.hook(ctx, "before_remove", w.Config.Hooks.BeforeRemove, "")
	}
	// A worker that was asked to end also ended the hook. A later pass starts the removal
	// again.
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	w.warn("before_remove failed or did not run, removing the workspace anyway", err)
	answer, err := w.host.Remove(ctx)
	if err != nil || answer.Unsaved != "" {
		return answer.Unsaved, err
	}
	w.Log.Info("workspace removed", "trash", answer.Trash)
	if far {
		w.forgetKept(ctx)
	}
	return "", nil
}
