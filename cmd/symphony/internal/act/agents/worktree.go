package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/workers"
)

// Worktree is a clone of the operator's repository in which an agent works and commits, like
// the workspace of an issue.
type Worktree struct {
	Source string `json:"source"` // the operator's repository, which is only read
	Branch string `json:"branch"` // of the agent's work
	Base   string `json:"base"`   // a branch of Source, where the work begins
	// Name and Email are the operator's in that repository, which may have its own; empty if
	// git knows none there.
	Name  string `json:"name,omitempty"`
	Email string `json:"email,omitempty"`
}

const (
	worktreeProject = "agents" // to which worktrees belong in their root
	deliveredFile   = "delivered.json"
	loginPatience   = 30 * time.Second
)

// branchName is the branch of all work of an agent.
type branchName string

// Render implements runner.Prompt.
func (b branchName) Render(reconcile.Issue, int) (string, error) { return string(b), nil }

// placeWorktree finds the repository around the directory of the settings, and puts the
// directory of the worktree in its place.
func (s *Settings) placeWorktree(ctx context.Context, p *wiring.Project) error {
	top := paths.Real(s.Cwd)
	for !wiring.Exists(filepath.Join(top, ".git")) {
		if top == filepath.Dir(top) {
			return reconcile.NewError(
				CodeInvalid,
				"cwd: "+s.Cwd+" is in no git repository",
				"name a cwd in a repository, or leave worktree out",
			)
		}
		top = filepath.Dir(top)
	}
	place, err := paths.Find(top)
	if err != nil {
		return fmt.Errorf("find %s: %w", top, err)
	}
	if wiring.AgentsWriteIn(p.Env, place) {
		return reconcile.NewError(CodeInvalid, "cwd: an agent works in "+top, "name a repository of yours")
	}
	machine := wiring.ThisMachine()
	w := s.Worktree
	dirs, err := machine.GitDirs(ctx, host.GitDirsRequest{Path: top})
	if err != nil {
		return err
	}
	w.Source = dirs.Root
	w.Name, w.Email = machine.Identity(ctx, top, host.Scrub(p.Environ(), host.GitRepositoryVars...))
	if w.Base == "" {
		at, err := machine.Inspect(ctx, host.WorkspaceRequest{Path: top})
		if err != nil {
			return err
		}
		if at.Git == nil || at.Git.Branch == nil || at.Git.Commit == nil {
			return reconcile.NewError(
				CodeInvalid,
				"no branch with a commit is checked out in "+top,
				"set base to the branch where the work begins",
			)
		}
		w.Base = *at.Git.Branch
	}
	s.Cwd = filepath.Join(wiring.WorktreesDir(p.Env), s.ID)
	w.Branch = cmp.Or(w.Branch, "symphony/"+s.ID)
	return w.check(ctx, machine)
}

// check returns an error for branches with which the clone would fail after the agent was
// started.
func (w Worktree) check(ctx context.Context, machine host.Local) error {
	valid, err := machine.IsBranchName(ctx, w.Branch)
	if err != nil {
		return err
	}
	switch {
	case !machine.HasBranch(ctx, w.Source, w.Base):
		return reconcile.NewError(
			CodeInvalid,
			fmt.Sprintf("base: %s has no branch %q", w.Source, w.Base),
			"name a branch of that repository, or leave base out",
		)
	case !valid:
		return reconcile.NewError(
			CodeInvalid,
			fmt.Sprintf("branch: git does not allow the name %q", w.Branch),
			"choose another name, such as feature/login",
		)
	case w.Branch == w.Base:
		return reconcile.NewError(
			CodeInvalid,
			fmt.Sprintf("branch and base are both %q", w.Base),
			"choose another name for the branch",
		)
	}
	return nil
}

// branchFree refuses a branch that a live agent has, or one whose worktree is kept: only one of
// the two could deliver it.
func (a *Agents) branchFree(ctx context.Context, s Settings) error {
	if s.Worktree == nil {
		return nil
	}
	known, err := a.DB.Clients.FreeAgents(ctx)
	if err != nil {
		return err
	}
	for _, run := range known {
		other, err := a.agent(run)
		if err != nil {
			return err
		}
		theirs := other.Settings.Worktree
		if theirs == nil || theirs.Source != s.Worktree.Source || theirs.Branch != s.Worktree.Branch {
			continue
		}
		if run.Outcome != "" && !other.HasWorktree() {
			continue
		}
		return reconcile.NewError(
			CodeConflict,
			fmt.Sprintf("agent %s has the branch %s of %s", run.Identifier, theirs.Branch, theirs.Source),
			"choose another branch, or leave branch out",
		)
	}
	return nil
}

// setWorktree lets the worker clone and confine as for an issue.
func (s Settings) setWorktree(c *runner.Config) {
	if s.Worktree == nil {
		return
	}
	c.ProtectGit = false
	c.Policy.Project = worktreeProject
	c.KeepRemoved = keepFor
	c.Repository = runner.Repository{
		Repository: host.Repository{
			URL:   s.Worktree.Source,
			Base:  s.Worktree.Base,
			Name:  s.Worktree.Name,
			Email: s.Worktree.Email,
		},
		Branch: branchName(s.Worktree.Branch),
	}
}

// removeWorktree moves the worktree of an ended agent to the trash, and deletes old contents
// of the trash. It keeps a worktree with unsaved work, and returns a description of the work,
// such as "2 commits not on any remote".
func (a *Agents) removeWorktree(ctx context.Context, one Agent, discard bool) (unsaved string, err error) {
	holding := &runner.Holding{
		Here: runner.Place{
			Machine:  wiring.NewMachine(a.p.StateDir),
			StateDir: a.p.StateDir,
			Env:      a.p.Environ(),
			Config:   one.Settings.runnerConfig(a.p),
		},
		HoldDir: workers.Hold,
		ID:      wiring.NewRunID(a.p.Env.Now()),
		Issue:   reconcile.Issue{ID: one.IssueID, Identifier: one.Identifier},
		Root:    wiring.WorktreesDir(a.p.Env),
		Now:     a.p.Env.Now,
		Log:     slog.New(slog.DiscardHandler),
	}
	unsaved, err = holding.CleanUp(ctx, discard)
	return unsaved, errors.Join(err, holding.Release(ctx))
}

// HasWorktree reports whether the agent works in a worktree that still exists.
func (a Agent) HasWorktree() bool {
	return a.Settings.Worktree != nil && wiring.Exists(a.WorkspacePath)
}

// Prune removes the worktree and the records of an ended agent. With discard it removes even
// work that exists nowhere else.
func Prune(ctx context.Context, w *environ.Env, id string, discard bool) (err error) {
	a, err := Open(ctx, w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if err := a.p.Nested(); err != nil {
		return err
	}
	if err := a.Settle(ctx); err != nil {
		return err
	}
	return a.locked(ctx, func() error { return a.pruneOne(ctx, id, discard) })
}

// pruneOne is Prune under the lock, so that the agent is not spawned again meanwhile.
func (a *Agents) pruneOne(ctx context.Context, id string, discard bool) error {
	one, err := a.Find(ctx, id)
	if err != nil {
		return err
	}
	if !one.Settled {
		return reconcile.NewError(CodeConflict, "agent "+id+" has not ended", "symphony stop "+id+" ends it")
	}
	if !one.HasWorktree() {
		return a.forget(ctx, id)
	}
	unsaved, err := a.removeWorktree(ctx, one, discard)
	if err != nil {
		return err
	}
	if unsaved != "" {
		return reconcile.NewError(
			CodeConflict,
			fmt.Sprintf("%s is kept: %s", one.WorkspacePath, unsaved),
			"symphony prune --force "+id+" discards it",
		)
	}
	return a.forget(ctx, id)
}

// forget deletes the calls and files of an ended agent.
func (a *Agents) forget(ctx context.Context, id string) error {
	runs, err := a.DB.Operator.ForgetIssue(ctx, id)
	for _, run := range runs {
		err = errors.Join(err, os.RemoveAll(host.RunDir(a.runners.StateDir, run)))
	}
	return err
}

// Delivered describes a push of an agent's commits.
type Delivered struct {
	URL     string `json:"url"`
	Branch  string `json:"branch"`
	Commit  string `json:"commit"`
	Commits int    `json:"commits"`
}

// Deliver pushes the commits of an agent's worktree to its branch in a repository. An empty
// URL stands for the repository from which the operator's was cloned. Commit means the same as
// in host.DeliverRequest. Limit is the time that the delivery may take.
func (a *Agents) Deliver(
	ctx context.Context,
	id string,
	to host.Repository,
	commit string,
	limit time.Duration,
) (d Delivered, err error) {
	if err := a.p.Nested(); err != nil {
		return d, err
	}
	one, err := a.deliverable(ctx, id)
	if err != nil {
		return d, err
	}
	env, err := a.gitEnv(ctx, one)
	if err != nil {
		return d, err
	}
	file := filepath.Join(host.RunDir(a.runners.StateDir, one.ID), deliveredFile)
	d, err = readDelivered(file)
	if err != nil {
		return d, err
	}
	tree := one.Settings.Worktree
	answer, err := wiring.NewMachine(a.p.StateDir).DeliverWorkspace(ctx, host.WorkspaceDelivery{
		Path:        one.WorkspacePath,
		RunID:       host.HereID(one.ID),
		Source:      host.Repository{URL: tree.Source, Base: tree.Base},
		DeliveredTo: d.URL,
		DeliverRequest: host.DeliverRequest{
			Repository: to,
			Branch:     tree.Branch,
			Delivered:  d.Commit,
			Commit:     commit,
			Timeout:    limit,
			Env:        env,
		},
	})
	known, ok := errors.AsType[*reconcile.Error](err)
	if ok && known.Code == host.CodeRepositoryChanged {
		return d, reconcile.NewError(
			known.Code,
			fmt.Sprintf("the remote lacks the commit of %s where the work began", tree.Base),
			"push "+tree.Base+" first",
		)
	}
	if err != nil {
		return d, err
	}
	d = Delivered{
		URL:     answer.Address,
		Branch:  tree.Branch,
		Commit:  answer.Commit,
		Commits: answer.Commits,
	}
	if answer.Commits == 0 {
		return d, nil
	}
	data, err := json.Marshal(d)
	if err != nil {
		return d, fmt.Errorf("record the delivery: %w", err)
	}
	return d, durable.WriteFile(file, data, 0o600)
}

// deliverable returns an agent with a worktree that is not at work.
func (a *Agents) deliverable(ctx context.Context, id string) (Agent, error) {
	one, err := a.Current(ctx, id)
	if err != nil {
		return one, err
	}
	if !one.HasWorktree() {
		return one, reconcile.NewError(
			CodeInvalid,
			"agent "+id+" has no worktree",
			"spawn_agent makes one with worktree: true",
		)
	}
	calls, err := a.DB.Clients.CallsOf(ctx, one.ID)
	if err != nil {
		return one, err
	}
	for _, call := range calls {
		if !call.Ended() && one.Outcome == "" {
			return one, reconcile.NewError(
				CodeConflict,
				"agent "+id+" is at work",
				"wait_agent until its turn has ended, or interrupt it",
			)
		}
	}
	return one, nil
}

// readDelivered reads the record of an agent's last push. It is empty before the first
// delivery.
func readDelivered(file string) (d Delivered, err error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return d, fmt.Errorf("%s: %w", file, err)
	}
	return d, nil
}

// gitEnv is the environment of git for the remote repository, with the variables that the
// login profile sets.
func (a *Agents) gitEnv(ctx context.Context, one Agent) ([]string, error) {
	config := one.Settings.runnerConfig(a.p)
	env := a.p.Environ()
	// the operator's credential helper may use a token of the forge
	config.Secrets = []string{workflow.APIKeyVar}
	q := host.LoginRequest{Env: config.HookEnv(env), Timeout: loginPatience}
	login, err := wiring.ThisMachine().Run(host.HereID(one.ID)).Login(ctx, q)
	return config.GitEnv(env, login), err
}
