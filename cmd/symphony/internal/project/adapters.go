package project

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/linear"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/state"
)

// newTracker makes the adapter of a configuration.
func NewTracker(cfg *workflow.Config, now func() time.Time, log *slog.Logger) (*linear.Client, error) {
	return linear.New(linear.Options{
		Endpoint: cfg.Tracker.Endpoint, APIKey: cfg.Tracker.APIKey.Reveal(), ProjectSlug: cfg.Tracker.ProjectSlug,
		Now: now, Log: log,
	})
}

// verified checks, before the tracker's first answer is used, that project, states, labels and assignee
// exist: once for each combination, remembered in the database. Without one, in a dry run, it asks each time.
type Verified struct {
	*linear.Client
	Db   *state.DB // may be nil
	Cfg  *workflow.Config
	Path string // of the workflow, for what is said about it
	Warn func(string)
	once sync.Once
	err  error
}

func (v *Verified) ByIDs(ctx context.Context, ids []string) (map[string]reconcile.Issue, error) {
	if err := v.verify(ctx); err != nil {
		return nil, err
	}
	return v.Client.ByIDs(ctx, ids)
}

func (v *Verified) Candidates(ctx context.Context, states []string) ([]reconcile.Issue, error) {
	if err := v.verify(ctx); err != nil {
		return nil, err
	}
	return v.Client.Candidates(ctx, states)
}

func (v *Verified) verify(ctx context.Context) error {
	v.once.Do(func() { v.err = v.ask(ctx) })
	return v.err
}

func (v *Verified) ask(ctx context.Context) error {
	t := v.Cfg.Tracker
	spec := linear.VerifySpec{
		States: slices.Concat(t.ActiveStates, t.TerminalStates), Labels: t.RequiredLabels, Assignee: t.Assignee,
	}
	combination := fmt.Sprintf("%q", slices.Concat([]string{t.Endpoint, t.ProjectSlug, spec.Assignee}, spec.Labels, []string{""}, spec.States))
	if v.Db != nil {
		known, _, err := v.Db.Meta(ctx, verifiedKey)
		if err != nil || known == combination {
			return err
		}
	}
	found, err := v.Verify(ctx, spec)
	if err != nil {
		var known *reconcile.Error
		if errors.As(err, &known) && known.Code == "tracker_project_not_found" {
			known.Message = v.Path + ": tracker.project_slug: " + known.Message
		}
		return err
	}
	warn := func(text string) { v.Warn(v.Path + ": " + text) }
	for _, u := range found.UnknownStates {
		if slices.Contains(t.NamedStates, u.Name) {
			warn("the project has no state " + u.String())
		}
	}
	for _, u := range found.UnknownLabels {
		warn("tracker.required_labels: the tracker has no label " + u.String())
	}
	if found.UnknownAssignee != nil {
		warn("tracker.assignee: the tracker knows nobody called " + found.UnknownAssignee.String())
	}
	if v.Db == nil {
		return nil
	}
	return v.Db.SetMeta(ctx, verifiedKey, combination)
}

const verifiedKey = "verified"

// policy completes the configuration's policy by what only this machine knows: the resolved root.
func Policy(cfg *workflow.Config) reconcile.Policy {
	p := cfg.Policy()
	p.WorkspaceRoot = Resolve(cfg.Workspace.Root)
	p.StopGrace = reconcile.ShortestStop
	if cfg.Hooks.AfterRun != "" {
		p.StopGrace += cfg.Hooks.Timeout
	}
	return p
}

// resolve follows symlinks as far as the path exists.
func Resolve(path string) string {
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return r
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(Resolve(parent), filepath.Base(path))
}

// selfExe is the running program, whatever has become of its file.
func selfExe() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err == nil {
		return self, nil
	}
	return os.Executable()
}

// newRunners gives a pass the workers of this machine.
func NewRunners(p *Project, cfg *workflow.Config) (*runner.Local, error) {
	exe, err := selfExe()
	if err != nil {
		return nil, fmt.Errorf("own program: %w", err)
	}
	l := &runner.Local{
		StateDir: p.StateDir, Exe: exe, Env: p.WorkerEnviron(), Workflow: cfg.Redacted(), WorkflowPath: p.Path,
		Project: cfg.Policy().Project, Root: Resolve(cfg.Workspace.Root), KeepRemoved: cfg.Workspace.KeepRemoved,
		Scopes: &proc.Shelter{Env: p.Env.Environ},
	}
	if cfg.KeyIsLiteral {
		l.Secret = []byte(cfg.Tracker.APIKey.Reveal())
	}
	return l, nil
}

// runnerConfig is what a worker carries its run out by.
func RunnerConfig(cfg *workflow.Config) runner.Config {
	c := runner.Config{
		Policy: Policy(cfg), MaxTurns: cfg.Agent.MaxTurns,
		Hooks: runner.Hooks{
			AfterCreate: cfg.Hooks.AfterCreate, BeforeRun: cfg.Hooks.BeforeRun,
			AfterRun: cfg.Hooks.AfterRun, BeforeRemove: cfg.Hooks.BeforeRemove, Timeout: cfg.Hooks.Timeout,
		},
		Command: cfg.Codex.Command, CodexHome: cfg.Codex.Home,
		ApprovalPolicy: cfg.Codex.ApprovalPolicy, TurnSandboxPolicy: cfg.Codex.TurnSandboxPolicy,
		ReadTimeout: cfg.Codex.ReadTimeout, InitializeTimeout: cfg.Codex.ReadTimeout,
		TurnTimeout: cfg.Codex.TurnTimeout, StallTimeout: cfg.Codex.StallTimeout,
		OnApproval: onApproval(cfg.Agent.OnApproval), OnQuestion: onQuestion(cfg.Agent.OnQuestion), AnswerTimeout: cfg.Agent.AnswerTimeout,
		Network: cfg.Agent.Network, WritableRoots: cfg.Agent.WritableRoots, PassEnv: cfg.Agent.PassEnv,
		KeepGitConfig: cfg.Agent.KeepGitConfig, TrustRepository: cfg.Agent.TrustRepository, ResumeThread: cfg.Agent.ResumeThread,
		KeepRemoved: cfg.Workspace.KeepRemoved,
		Secrets:     cfg.SecretVars(), SecretValues: []string{cfg.Tracker.APIKey.Reveal()},
	}
	if cfg.Codex.ThreadSandbox != "" {
		c.ThreadSandbox = json.RawMessage(strconv.Quote(cfg.Codex.ThreadSandbox)) // a plain word
	}
	if !cfg.Codex.ReadTimeoutSet {
		c.InitializeTimeout = max(c.InitializeTimeout, 30*time.Second)
	}
	return c
}

func onApproval(a workflow.Answer) codex.Approval {
	return map[workflow.Answer]codex.Approval{
		workflow.Approve: codex.ApprovalApprove, workflow.Deny: codex.ApprovalDeny, workflow.Fail: codex.ApprovalFail,
		workflow.Ask: codex.ApprovalAsk,
	}[a]
}

func onQuestion(a workflow.Answer) codex.QuestionPolicy {
	return map[workflow.Answer]codex.QuestionPolicy{workflow.Fail: codex.QuestionFail, workflow.Ask: codex.QuestionAsk}[a]
}

// newLog writes the log to stderr as key=value lines (specification 13.1).
func NewLog(w *term.Env, level slog.Level) *slog.Logger {
	return term.NewLogAs(w.Stderr, level, term.TextLog, w.Journal)
}

func NewLogTo(out io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level}))
}

const RootsKey = "workspace_roots"

func WorkspaceError(err error) error {
	var e *workspace.Error
	if errors.As(err, &e) {
		return &reconcile.Error{Code: e.Code, Message: e.Message, Hint: e.Hint, Err: err}
	}
	return err
}
