package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
)

// Files in the directory of an agent's run.
const (
	settingsFile = "agent.json"
	// a FIFO; its worker reads it, and a client writes a byte after storing a call
	wakeFile = "wake"
)

// Settings of an agent, which do not change while it lives.
type Settings struct {
	ID  string `json:"id"`
	Cwd string `json:"cwd"` // absolute, without symlinks
	// Shared: other agents may work in the same directory.
	Shared bool `json:"shared,omitempty"`
	// Worktree: the agent works in a clone of the repository around Cwd, which takes the place
	// of Cwd; nil for Cwd itself.
	Worktree *Worktree `json:"worktree,omitempty"`
	// Program is the program of the agent; if it is empty, a login shell finds the program.
	Program string `json:"program,omitempty"`
	// AutoApprove approves every request of the agent; for tests.
	AutoApprove     bool          `json:"autoApprove,omitempty"`
	ApprovalTimeout time.Duration `json:"approvalTimeout"`
	CallTimeout     time.Duration `json:"callTimeout"`
	IdleTimeout     time.Duration `json:"idleTimeout"` // 0: never
	// Permit reports whether the operator permitted agents in a directory; byName: only a
	// directory that he named for them counts. Nil permits all. It returns an error for a
	// directory in which even a person can't permit them, such as ~/.ssh.
	Permit func(dir paths.Place, byName bool) (permitted bool, err error) `json:"-"`
	// Named: the operator named the directory, also while passes run for the account.
	Named bool `json:"named,omitempty"`
	// Permission is the question for a person if the operator did not permit the directory,
	// else nil.
	Permission *Permission `json:"permission,omitempty"`
	// Host is the process with which the agent ends; nil if it outlives its host.
	Host *reconcile.Handle `json:"host,omitempty"`
}

// Defaults of the settings.
const (
	DefaultApprovalTimeout = 15 * time.Minute
	DefaultCallTimeout     = time.Minute
	DefaultIdleTimeout     = time.Hour

	turnSilence = time.Hour       // without a line of the agent during a turn
	turnStall   = 5 * time.Minute // without progress during a turn
)

// prepare validates the settings and completes them: with the directory without symlinks, the
// worktree, and the question for a person. It refuses a symlink in a directory where an agent
// worked, because the agent may have made it.
func (s *Settings) prepare(ctx context.Context, a *Agents) error {
	if !validID().MatchString(s.ID) {
		return reconcile.NewError(CodeInvalid, fmt.Sprintf("id %q is not valid", s.ID),
			"use up to 64 letters, digits, - and _")
	}
	place, err := findDir(s.Cwd)
	if err != nil {
		return err
	}
	if err := a.p.Nested(); err != nil {
		return err
	}
	if s.Worktree != nil {
		return s.prepareWorktree(ctx, a.p, place)
	}
	known, err := a.DB.Clients.FreeAgents(ctx)
	if err != nil {
		return err
	}
	if err := refuseMadeLinks(place, known); err != nil {
		return err
	}
	s.Cwd = place.Path
	if err := outsideOthers(a.p, place); err != nil {
		return err
	}
	s.Named, err = s.permits(place, true)
	if err != nil {
		return err
	}
	_, err = guarded(ctx, a.p.Env, place, s.Named)
	isUnnamed := errors.Is(err, errUnnamed)
	mayRun := isUnnamed || errors.Is(err, errProject)
	if mayRun && !s.Shared && wiring.RepositoryAbove(place.Path) != "" {
		s.Worktree = &Worktree{}
		return s.prepareWorktree(ctx, a.p, place)
	}
	if err != nil && !isUnnamed {
		return err
	}
	return s.setQuestion(place, isUnnamed) // a person may name it
}

// prepareWorktree is prepare for an agent in a worktree. The operator may have permitted the
// directory, or the whole repository around it.
func (s *Settings) prepareWorktree(ctx context.Context, p *wiring.Project, place paths.Place) error {
	permitted, err := s.permits(place, false)
	if err != nil {
		return err
	}
	if err := s.placeWorktree(ctx, p); err != nil {
		return err
	}
	if permitted {
		s.Permission = nil
		return nil
	}
	source, err := findDir(s.Worktree.Source)
	if err != nil {
		return err
	}
	return s.setQuestion(source, false)
}

// permits reports whether the operator permitted agents in a directory.
func (s *Settings) permits(dir paths.Place, byName bool) (bool, error) {
	if s.Permit == nil {
		return true, nil
	}
	return s.Permit(dir, byName)
}

// setQuestion sets the question for a person, unless the operator permitted agents in a directory.
func (s *Settings) setQuestion(dir paths.Place, byName bool) error {
	permitted, err := s.permits(dir, byName)
	if err != nil {
		return err
	}
	if permitted {
		s.Permission = nil
		return nil
	}
	if s.Permission == nil {
		s.Permission = &Permission{}
	}
	s.Permission.Dir = dir.Path
	s.Permission.Passes = byName
	return nil
}

// readSettings reads the settings of an agent from the directory of its run.
func readSettings(dir string) (s Settings, err error) {
	data, err := os.ReadFile(filepath.Join(dir, settingsFile))
	if err != nil {
		return s, fmt.Errorf("settings of the agent: %w", err)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("settings of the agent: %w", err)
	}
	return s, nil
}

// runnerConfig is the configuration of the worker of an agent. The git directory is protected,
// unlike in a workspace: the directory is the user's own, and git there would run whatever an
// agent leaves.
func (s Settings) runnerConfig(p *wiring.Project) runner.Config {
	account := wiring.OpenAccount(p, "")
	kind := wiring.DefaultAgent()
	command := kind.Starts
	if s.Program != "" {
		command = text.ShellWord(s.Program) + " " + kind.ProgramArgs
	}
	c := runner.Config{
		Config: confine.Config{
			ApprovalPolicy: json.RawMessage(`"on-request"`),
			OnQuestion:     agent.QuestionAsk,
			Secrets:        workflow.EveryKeyVar(),
			ProtectGit:     true,
			Unreadable:     wiring.SecretFiles(p, account, false),
			HomeVar:        kind.HomeVar,
			LoginHome:      account.Home,
			AgentHome:      account.AgentHome(),
		},
		Agent:             kind,
		Command:           command,
		TrustLauncher:     s.Program != "",
		ReadTimeout:       cmp.Or(s.CallTimeout, DefaultCallTimeout),
		InitializeTimeout: cmp.Or(s.CallTimeout, DefaultCallTimeout) / 2,
		TurnTimeout:       turnSilence,
		StallTimeout:      turnStall,
		OnApproval:        agent.ApprovalAsk,
		AnswerTimeout:     cmp.Or(s.ApprovalTimeout, DefaultApprovalTimeout),
	}
	s.setWorktree(&c)
	if s.AutoApprove {
		c.OnApproval = agent.ApprovalApprove
	}
	return c
}
