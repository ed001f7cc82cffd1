package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// workspaceStep takes the workspace of the issue, runs its hooks, protects its git settings,
// and removes it (specification 9).
type workspaceStep struct {
	*parts
	branch *issueBranch
	claim  *claimKeeper

	hooksStarted bool // before_run was started, so that after_run is due
	// before is the workspace's fingerprint before before_run, "" if it took too long.
	before string
	// untrusted is why no hook may run in the workspace, nil if hooks may run.
	untrusted error
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
	if err := w.shell.refuseLauncher(ctx); err != nil {
		return err
	}
	if !w.site.space.Created {
		err := w.cloneOrFetch(ctx)
		if neverPushed(err) {
			return err
		}
		warn(w.Log, "repository not fetched, the agent starts without the newest base", err)
	}
	before, err := w.site.Machine.Fingerprint(ctx, w.site.space.Path)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		// A large repository on a slow disk is no reason to fail the run.
		warn(w.Log, "fingerprint timed out", err)
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

// neverPushed reports whether a fetch found that the work could not be pushed, or that another machine does
// it.
func neverPushed(err error) bool {
	known, _ := errors.AsType[*reconcile.Error](err)
	if known == nil {
		return false
	}
	return slices.Contains(
		[]string{
			host.CodeInvalidBranch,
			host.CodeIssueElsewhere,
			host.CodeBranchInTheWay,
			host.CodeBranchCheckedOut,
			host.CodeWorkspaceBroken,
		},
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
			return errors.Join(err, w.site.host.Discard(ctx))
		}
	}
	return w.site.host.Confirm(ctx, host.ConfirmRequest{
		KeepCache: w.site.space.Created && w.site.Config.Verify.Command != "",
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
		logOutput(w.Log, err)
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
	if answer.Found != nil {
		return w.goOnFrom(ctx, q.Branch, *answer.Found, answer.Base)
	}
	if answer.InTheWay != "" {
		message := fmt.Sprintf("the repository has a branch %s already, at %.12s, which this symphony has not made: "+
			"rename it, or set repository.claims if another symphony works here", q.Branch, answer.InTheWay)
		w.events.note("branch_in_the_way", message, nil)
	}
	return nil
}

// goOnFrom records that the work continues a branch that is there without a claim of the issue that names
// it. A machine of the team has probably made it, and its claim was deleted; a person reads of it, who
// knows better. If the claim of another issue names the branch, that is an error.
func (w *workspaceStep) goOnFrom(ctx context.Context, branch string, found host.FoundBranch, base string) error {
	if err := w.claim.mayContinue(ctx, branch); err != nil {
		return err
	}
	why := "this machine has pushed it before"
	if found.Origin != "" {
		why = "its last commit is by " + found.Origin
	}
	message := fmt.Sprintf("the repository has a branch %s already, at %.12s, which no claim names: the work goes on "+
		"from there, because %s", branch, found.Commit, why)
	w.events.note("branch_found", message, nil)
	return w.branch.recordFound(ctx, branch, found, base, w.Now())
}

func (w *workspaceStep) fetch(ctx context.Context, q host.CloneRequest) error {
	answer, err := w.site.host.Fetch(ctx, q)
	if err != nil {
		logOutput(w.Log, err)
		return err
	}
	w.branch.base = answer
	if answer.Found != nil {
		if err := w.goOnFrom(ctx, q.Branch, *answer.Found, answer.Base); err != nil {
			return err
		}
	}
	w.branch.takePushed(ctx, answer.Pushed)
	w.Log.Info(
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
	err := w.Journal.SaveRemoteWorkspace(context.Background(), w.rec.get(), &space)
	warn(w.Log, "workspace on the host not recorded", err)
}

// recordProgress records whether the run changed anything. If that is not known, it counts as
// progress.
func (w *workspaceStep) recordProgress(ctx context.Context) {
	changed := true
	if w.before != "" {
		now, err := w.site.Machine.Fingerprint(ctx, w.site.space.Path)
		warn(w.Log, "state of the workspace", err)
		changed = err != nil || now != w.before
	}
	w.rec.change(func(r *reconcile.Run) { r.Progress = changed })
}

// keepEnd keeps the contents of the workspace, and notes the changes of the run.
func (w *workspaceStep) keepEnd(ctx context.Context) {
	end, err := w.site.Machine.KeepEnd(ctx, w.site.space.Path)
	warn(w.Log, "end of the work not kept", err)
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
		w.Log.Warn(restored.Incomplete)
	}
	w.processes.logLocks(restored.Locks)
	w.untrusted = nil
	if restored.Untrusted != "" {
		w.untrusted = &reconcile.Error{Code: host.CodeUntrusted, Message: restored.Untrusted}
		w.Log.Warn("workspace not trusted", "error", w.untrusted)
	}
	names := restored.Names
	if len(names) == 0 {
		return
	}
	message := listed(names, restoredLogged)
	w.Log.Warn("git configuration undone", "names", message)
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
		w.Log.Warn("workspace not removed", "unsaved", unsaved)
	}
	if err != nil {
		return "", err
	}
	answer, err := w.site.Machine.Purge(ctx, host.ProjectTrash{
		Root:        w.site.root,
		Project:     w.site.Config.Policy.Project,
		KeepRemoved: w.site.Config.KeepRemoved,
		MinFree:     w.site.Config.Policy.MinFreeBytes,
		Now:         w.Now(),
	})
	if len(answer.Undeletable) > 0 {
		w.Log.Warn("trash not deleted", "paths", answer.Undeletable)
	}
	for _, path := range slices.Sorted(maps.Keys(answer.Unsaved)) {
		w.Log.Warn("left in the trash", "path", path, "unsaved", answer.Unsaved[path])
	}
	return unsaved, err
}

// remove moves the workspace into the trash, unless it returns the unsaved work because of
// which the workspace is kept.
func (w *workspaceStep) remove(ctx context.Context, discard bool) (unsaved string, err error) {
	removal, err := w.site.host.PrepareRemoval(ctx, host.RemovalRequest{
		PrepareRequest: w.prepareRequest(),
		Now:            w.Now(),
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
	warn(w.Log, "before_remove failed or did not run", err)
	answer, err := w.site.host.Remove(ctx)
	if err != nil || answer.Unsaved != "" {
		return answer.Unsaved, err
	}
	w.Log.Info("workspace removed", "trash", answer.Trash)
	if far {
		w.branch.forget(ctx)
	}
	return "", nil
}
