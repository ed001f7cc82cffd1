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
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/state"
)

// NewTracker makes the adapter of a configuration. warn receives what the tracker sends and the adapter ignores; it may be
// nil.
func NewTracker(cfg *workflow.Config, now func() time.Time, warn func(string)) (*reconcile.TrackerAdapter, error) {
	return linear.Adapter(trackerOptions(cfg, now, warn))
}

// NewTrackerWithoutProxy is NewTracker for a check on behalf of a schedule, which does not see the proxy that this
// process's environment names.
func NewTrackerWithoutProxy(cfg *workflow.Config, now func() time.Time) (*reconcile.TrackerAdapter, error) {
	o := trackerOptions(cfg, now, nil)
	o.IgnoreProxy = true
	return linear.Adapter(o)
}

func trackerOptions(cfg *workflow.Config, now func() time.Time, warn func(string)) linear.Options {
	t := cfg.Tracker
	return linear.Options{
		Endpoint: t.Endpoint, APIKey: t.APIKey.Reveal(), ProjectSlug: t.ProjectSlug, CAFile: t.CAFile,
		ReadOnly: t.ToolReadOnly, Now: now, Warn: warn,
	}
}

// TrackerSetup is how init connects a project to a tracker.
func TrackerSetup() reconcile.TrackerSetup { return linear.Setup() }

// WarnTo writes warnings to a log.
func WarnTo(log *slog.Logger) func(string) { return func(text string) { log.Warn(text) } }

// TrackerNames are the names of a workflow that a tracker can look up.
func TrackerNames(cfg *workflow.Config) reconcile.TrackerNames {
	t := cfg.Tracker
	return reconcile.TrackerNames{States: slices.Concat(t.ActiveStates, t.TerminalStates), Labels: t.RequiredLabels, Assignee: t.Assignee}
}

// VerifyFirst returns the tracker such that its first read checks whether project, states, labels and assignee exist.
// The database remembers the names that were checked; without one (nil) every process checks.
func VerifyFirst(t *reconcile.TrackerAdapter, db *state.DB, cfg *workflow.Config, path string, warn func(string)) *reconcile.TrackerAdapter {
	if t.Verify == nil {
		return t
	}
	checked := *t
	checked.Tracker = &verified{t: t, db: db, cfg: cfg, path: path, warn: warn}
	return &checked
}

type verified struct {
	t    *reconcile.TrackerAdapter
	db   *state.DB
	cfg  *workflow.Config
	path string
	warn func(string)

	once     sync.Once
	err      error
	rejected error // the tracker does not answer the question; reported once, after it has answered another
	reported sync.Once
}

// ByIDs implements reconcile.Tracker.
func (v *verified) ByIDs(ctx context.Context, ids []string) (map[string]reconcile.Issue, error) {
	if err := v.verify(ctx); err != nil {
		return nil, err
	}
	issues, err := v.t.ByIDs(ctx, ids)
	if err == nil {
		err = v.accept(ctx)
	}
	return issues, err
}

// Candidates implements reconcile.Tracker.
func (v *verified) Candidates(ctx context.Context, states []string) ([]reconcile.Issue, error) {
	if err := v.verify(ctx); err != nil {
		return nil, err
	}
	issues, err := v.t.Candidates(ctx, states)
	if err == nil {
		err = v.accept(ctx)
	}
	return issues, err
}

func (v *verified) verify(ctx context.Context) error {
	v.once.Do(func() { v.err = v.check(ctx) })
	return v.err
}

// names identifies what is checked.
func (v *verified) names() string {
	t, n := v.cfg.Tracker, TrackerNames(v.cfg)
	return fmt.Sprintf("%q", slices.Concat([]string{t.Endpoint, t.ProjectSlug, n.Assignee}, n.Labels, []string{""}, n.States))
}

func (v *verified) check(ctx context.Context) error {
	if v.db != nil {
		known, _, err := v.db.Meta(ctx, verifiedKey)
		if err != nil || known == v.names() {
			return err
		}
	}
	found, err := v.t.Verify(ctx, TrackerNames(v.cfg))
	if errors.Is(err, reconcile.ErrRejected) {
		v.rejected = err
		return nil
	}
	if err != nil {
		var known *reconcile.Error
		if errors.As(err, &known) && known.Code == "tracker_project_not_found" {
			known.Message = v.path + ": tracker.project_slug: " + known.Message
		}
		return err
	}
	warn := func(text string) { v.warn(v.path + ": " + text) }
	for _, u := range found.States {
		if slices.Contains(v.cfg.Tracker.NamedStates, u.Name) {
			warn("the project has no state " + u.String())
		}
	}
	for _, u := range found.Labels {
		warn("tracker.required_labels: the tracker has no label " + u.String())
	}
	if found.Assignee != nil {
		warn("tracker.assignee: the tracker has no user " + found.Assignee.String())
	}
	return v.remember(ctx)
}

// accept reports a rejected check once another read has worked: the check is advisory.
func (v *verified) accept(ctx context.Context) (err error) {
	if v.rejected == nil {
		return nil
	}
	v.reported.Do(func() {
		v.warn(fmt.Sprintf("%s: the tracker did not check the project, states and labels: %v", v.path, v.rejected))
		err = v.remember(ctx)
	})
	return err
}

func (v *verified) remember(ctx context.Context) error {
	if v.db == nil {
		return nil
	}
	return v.db.SetMeta(ctx, verifiedKey, v.names())
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
		StartAgent: codex.Start, Command: cfg.Codex.Command, CodexHome: cfg.Codex.Home,
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

func onApproval(a workflow.Answer) agent.Approval {
	return map[workflow.Answer]agent.Approval{
		workflow.Approve: agent.ApprovalApprove, workflow.Deny: agent.ApprovalDeny, workflow.Fail: agent.ApprovalFail,
		workflow.Ask: agent.ApprovalAsk,
	}[a]
}

func onQuestion(a workflow.Answer) agent.QuestionPolicy {
	return map[workflow.Answer]agent.QuestionPolicy{workflow.Fail: agent.QuestionFail, workflow.Ask: agent.QuestionAsk}[a]
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
