package project

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/linear"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/confine"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/runner/workers"
	"github.com/symphony-cron/symphony/state"
)

// Policy is the policy of the configuration with the resolved workspace root and the time that a run may take to stop.
func Policy(cfg *workflow.Config) reconcile.Policy {
	p := cfg.Policy
	p.WorkspaceRoot = Resolve(cfg.Workspace.Root)
	p.StopGrace = reconcile.ShortestStop
	if cfg.Hooks.AfterRun != "" {
		p.StopGrace += cfg.Hooks.Timeout
	}
	p.Deliver = cfg.Repository.Delivers()
	return p
}

// NewHost returns the machine on which runs work.
func NewHost() host.Terminal { return &local.Host{} }

// NewRunners returns what starts and watches workers on this machine.
func NewRunners(p *Project, cfg *workflow.Config) (*workers.Local, error) {
	exe := "/proc/self/exe" // the running program, also after its file was replaced
	if !Exists(exe) {
		var err error
		if exe, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("own program: %w", err)
		}
	}
	l := &workers.Local{
		Host: NewHost(), StateDir: p.StateDir, Exe: exe, Env: p.WorkerEnviron(), Workflow: cfg.Redacted, WorkflowPath: p.Path,
		Project: cfg.Policy.Project, Root: Resolve(cfg.Workspace.Root), KeepRemoved: cfg.Workspace.KeepRemoved,
		Scopes: &proc.ScopeManager{Env: p.Env.Environ},
	}
	if cfg.KeyIsLiteral {
		l.Secret = []byte(cfg.Tracker.APIKey.Reveal())
	}
	return l, nil
}

// Secrets returns the secret values of the tracker and of the repository. If no tracker can be built from the configuration, that is
// its key.
func Secrets(cfg *workflow.Config) []string {
	secrets := []string{cfg.Repository.Token.Reveal()}
	tracker, err := NewTracker(cfg, time.Now, nil)
	if err != nil {
		return append(secrets, cfg.Tracker.APIKey.Reveal())
	}
	return append(secrets, tracker.Secrets...)
}

// RunnerConfig returns the configuration of a worker.
func RunnerConfig(p *Project, cfg *workflow.Config) runner.Config {
	c := runner.Config{
		Policy: Policy(cfg), MaxTurns: cfg.Agent.MaxTurns,
		Hooks: runner.Hooks{
			AfterCreate: cfg.Hooks.AfterCreate, BeforeRun: cfg.Hooks.BeforeRun,
			AfterRun: cfg.Hooks.AfterRun, BeforeRemove: cfg.Hooks.BeforeRemove, Timeout: cfg.Hooks.Timeout, Where: map[string]string{},
		},
		Repository: runner.Repository{
			Repository: host.Repository{
				URL: cfg.Repository.URL, Base: cfg.Repository.Base, Name: cfg.Repository.Name, Email: cfg.Repository.Email,
			},
			Branch: cfg.Repository, Deliver: cfg.Repository.Delivers(),
		},
		Config: confine.Config{
			CodexHome: cfg.Codex.Home, ApprovalPolicy: cfg.Codex.ApprovalPolicy, TurnSandboxPolicy: cfg.Codex.TurnSandboxPolicy,
			OnQuestion: questions[cfg.Agent.OnQuestion], Network: cfg.Agent.Network, WritableRoots: cfg.Agent.WritableRoots,
			TrustRepository: cfg.Agent.TrustRepository, PassEnv: cfg.Agent.PassEnv, Secrets: cfg.SecretVars, SecretValues: Secrets(cfg),
		},
		StartAgent: codex.Start, Command: cfg.Codex.Command, PrepareHome: codex.PrepareHome, TrustLauncher: cfg.Codex.TrustLauncher,
		ReadTimeout: cfg.Codex.ReadTimeout, InitializeTimeout: cfg.Codex.ReadTimeout,
		TurnTimeout: cfg.Codex.TurnTimeout, StallTimeout: cfg.Codex.StallTimeout,
		OnApproval: approvals[cfg.Agent.OnApproval], AnswerTimeout: cfg.Agent.AnswerTimeout,
		KeepGitConfig: cfg.Agent.KeepGitConfig, ResumeThread: cfg.Agent.ResumeThread, KeepRemoved: cfg.Workspace.KeepRemoved,
	}
	if r := cfg.Repository; r.OpensPullRequests() {
		c.Repository.GitHub = host.GitHub{API: r.API, Repository: r.OwnerName, Token: r.Token.Reveal(), TokenVar: r.TokenVar}
	}
	for hook, line := range cfg.HookLines {
		c.Hooks.Where[hook] = fmt.Sprintf("%s:%d", cfg.FileName, line)
	}
	if cfg.Codex.ThreadSandbox != "" {
		c.ThreadSandbox = json.RawMessage(strconv.Quote(cfg.Codex.ThreadSandbox)) // a plain word
	}
	account := OpenAccount(p, cfg.Codex.Home)
	c.Unreadable = SecretFiles(p, account)
	if !cfg.Codex.Inherit {
		c.LoginHome, c.AgentHome = account.Home, account.AgentHome()
	}
	if !cfg.Codex.ReadTimeoutSet {
		c.InitializeTimeout = max(c.InitializeTimeout, 30*time.Second)
	}
	return c
}

// SecretFiles are the directory of the environment files of all projects, those to which links there lead, and codex's login.
func SecretFiles(p *Project, account *state.Account) []string {
	dir := Resolve(filepath.Dir(p.EnvPath()))
	list := []string{dir, Resolve(filepath.Join(account.Home, "auth.json"))}
	entries, _ := os.ReadDir(dir) // it need not exist
	for _, e := range entries {
		if real := Resolve(filepath.Join(dir, e.Name())); !text.PathInside(dir, real) {
			list = append(list, real)
		}
	}
	return list
}

// Launcher returns the launcher that codex.command starts in an environment, if any.
func Launcher(ctx context.Context, p *Project, cfg *workflow.Config, env []string) host.Launcher {
	request := RunnerConfig(p, cfg).LaunchRequest(env, Resolve(cfg.Workspace.Root))
	facts, err := NewHost().Facts(ctx, host.FactsRequest{Launch: request})
	if err != nil {
		return host.Launcher{} // without a workspace there is nothing to fail
	}
	return facts.Launcher
}

// LauncherWarning says what a launcher in codex.command means.
func LauncherWarning(l host.Launcher) string {
	return "codex.command starts " + l.Program + ", and files that agents can write decide which program that runs outside of the sandbox" +
		": runs in workspaces with such files end with codex_command_unsafe"
}

// Inspect starts codex as a worker does, in a temporary workspace below parent.
func Inspect(ctx context.Context, p *Project, cfg *workflow.Config, parent string) (*runner.Inspection, error) {
	return RunnerConfig(p, cfg).Inspect(ctx, NewHost(), p.Environ(), parent, Version())
}

// NewTakeover returns a takeover of an issue's workspace below root.
func NewTakeover(p *Project, cfg *workflow.Config, issue reconcile.Issue, root string, log *slog.Logger) *runner.Takeover {
	return &runner.Takeover{
		Config: RunnerConfig(p, cfg), Host: NewHost(), Hold: workers.Hold, StateDir: p.StateDir, ID: NewRunID(p.Env.Now()),
		Issue: issue, Root: root, Env: p.Environ(), Now: p.Env.Now, Log: log,
	}
}

var (
	approvals = map[workflow.Answer]agent.Approval{
		workflow.Approve: agent.ApprovalApprove, workflow.Deny: agent.ApprovalDeny, workflow.Fail: agent.ApprovalFail,
		workflow.Ask: agent.ApprovalAsk,
	}
	questions = map[workflow.Answer]agent.QuestionPolicy{workflow.Fail: agent.QuestionFail, workflow.Ask: agent.QuestionAsk}
)

// Version is the version of the program, which the go command derives from the tag or commit.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "(devel)" {
		return "devel"
	}
	return cmp.Or(info.Main.Version, "devel")
}

// ProgramPath is the path that still names this program after an upgrade: the link by which it was called, if there is one. It
// is empty if the path of the program can't be found.
func ProgramPath() string {
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	called, err := exec.LookPath(os.Args[0])
	if err == nil {
		called, err = filepath.Abs(called)
	}
	if err != nil || !SameFile(called, exe) {
		return exe
	}
	return called
}

// SameFile reports whether two paths name the same existing file.
func SameFile(a, b string) bool {
	there, errA := os.Stat(a)
	here, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(there, here)
}

const runStamp = "20060102T150405.000"

// NewRunID returns an id that sorts by time in milliseconds.
func NewRunID(now time.Time) string {
	return now.UTC().Format(runStamp) + "-" + strings.ToLower(rand.Text()[:6])
}

// RunIDs returns a function whose ids sort in the order of its calls, even after the clock was set back: the id identifies an
// issue's last run.
func RunIDs(db *state.DB, now func() time.Time) func() string {
	var last string
	return func() string {
		if last == "" {
			// If the database can't be read, the run's row can't be written either, which is reported.
			if runs, err := db.Views.RecentRuns(context.Background(), 1); err == nil && len(runs) > 0 {
				last = runs[0].ID
			}
		}
		id := NewRunID(now())
		if len(last) > len(runStamp) && id[:len(runStamp)] <= last[:len(runStamp)] {
			if at, err := time.Parse(runStamp, last[:len(runStamp)]); err == nil {
				id = NewRunID(at.Add(time.Millisecond))
			}
		}
		last = id
		return id
	}
}

// NewTracker builds the adapter of a configuration. warn receives a message about each part of an answer that the adapter
// ignores; it may be nil.
func NewTracker(cfg *workflow.Config, now func() time.Time, warn func(string)) (*reconcile.TrackerAdapter, error) {
	return newTracker(cfg, now, warn, false)
}

// NewTrackerWithoutProxy is NewTracker for a check on behalf of a schedule, which does not have the proxy of this process's
// environment.
func NewTrackerWithoutProxy(cfg *workflow.Config, now func() time.Time) (*reconcile.TrackerAdapter, error) {
	return newTracker(cfg, now, nil, true)
}

func newTracker(cfg *workflow.Config, now func() time.Time, warn func(string), ignoreProxy bool) (*reconcile.TrackerAdapter, error) {
	t := cfg.Tracker
	return linear.Adapter(linear.Options{
		Endpoint: t.Endpoint, APIKey: t.APIKey.Reveal(), KeySource: cfg.KeySource,
		ProjectSlug: t.ProjectSlug, CAFile: t.CAFile, ReadOnly: t.ToolScope == "read", Now: now, Warn: warn, IgnoreProxy: ignoreProxy,
	})
}

// TrackerSetup is how init connects a project to a tracker.
func TrackerSetup() reconcile.TrackerSetup { return linear.Setup() }

// WarnTo writes warnings to a log.
func WarnTo(log *slog.Logger) func(string) { return func(text string) { log.Warn(text) } }

// TrackerNames returns the names in a workflow that a tracker can look up.
func TrackerNames(cfg *workflow.Config) reconcile.TrackerNames {
	p := cfg.Policy
	return reconcile.TrackerNames{States: slices.Concat(p.ActiveStates, p.TerminalStates), Labels: p.RequiredLabels, Assignee: p.Assignee}
}

// WrongNames returns an error for each name in the workflow that the tracker does not have, with the next step as its hint.
func WrongNames(cfg *workflow.Config, tracker string, found reconcile.TrackerFindings) (list []*reconcile.Error) {
	add := func(message, hint string) { list = append(list, &reconcile.Error{Message: message, Hint: hint}) }
	for _, u := range found.States {
		if slices.Contains(cfg.Tracker.NamedStates, u.Name) { // a missing default state is not a mistake
			add("the project has no state "+u.String(), "correct tracker.active_states or tracker.terminal_states, or add the state to the team")
		}
	}
	for _, u := range found.Labels {
		add(tracker+" has no label "+u.String(), "create the label, or correct tracker.required_labels; until then no run starts")
	}
	if u := found.Assignee; u != nil {
		add(tracker+" has no user "+u.String(), "correct tracker.assignee; until then no run starts")
	}
	return list
}

// VerifyFirst wraps the tracker so that its first read checks whether project, states, labels and assignee exist. The database
// stores the names that were checked; if db is nil, every process checks them.
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

	once sync.Once
	err  error
	// unchecked: the tracker refused the check of these names.
	unchecked bool
}

// ByIDs implements reconcile.Tracker.
func (v *verified) ByIDs(ctx context.Context, ids []string) (map[string]reconcile.Issue, error) {
	if err := v.verify(ctx); err != nil {
		return nil, err
	}
	found, err := v.t.ByIDs(ctx, ids)
	if err == nil && v.unchecked {
		err = v.confirmProject(ctx, found)
	}
	return found, err
}

// confirmProject returns an error if the tracker shows no issue of the workflow's project. The project may be mistyped then, and
// neither the issues that seem to be in another one nor those of the project before may be stopped or released.
func (v *verified) confirmProject(ctx context.Context, found map[string]reconcile.Issue) error {
	for _, issue := range found {
		if !issue.Elsewhere {
			return nil
		}
	}
	candidates, err := v.t.Candidates(ctx, v.cfg.Policy.ActiveStates)
	if err != nil || len(candidates) > 0 {
		return err
	}
	return &reconcile.Error{
		Code: "tracker_project_not_found",
		Message: fmt.Sprintf("%s: tracker.project_slug: %s shows no issue of %q and refuses to check whether the project exists",
			v.path, v.t.Name, v.cfg.Tracker.ProjectSlug),
		Hint: "correct it, or create an issue in an active state there; until then no run is stopped and no issue is released",
	}
}

// Candidates implements reconcile.Tracker.
func (v *verified) Candidates(ctx context.Context, states []string) ([]reconcile.Issue, error) {
	if err := v.verify(ctx); err != nil {
		return nil, err
	}
	return v.t.Candidates(ctx, states)
}

func (v *verified) verify(ctx context.Context) error {
	v.once.Do(func() { v.err = v.check(ctx) })
	return v.err
}

const (
	// verifiedKey names the checked names in the database.
	verifiedKey = "verified"
	// refusedCheck precedes names that the tracker refused to check.
	refusedCheck = "refused "
)

func (v *verified) check(ctx context.Context) error {
	t, n := v.cfg.Tracker, TrackerNames(v.cfg)
	names := fmt.Sprintf("%q", slices.Concat([]string{t.Endpoint, t.ProjectSlug, n.Assignee}, n.Labels, []string{""}, n.States))
	if v.db != nil {
		known, _, err := v.db.Meta(ctx, verifiedKey)
		v.unchecked = known == refusedCheck+names
		if err != nil || v.unchecked || known == names {
			return err
		}
	}
	warn := func(text string) { v.warn(v.path + ": " + text) }
	found, err := v.t.Verify(ctx, n)
	var known *reconcile.Error
	switch {
	case errors.Is(err, reconcile.ErrRejected): // the check is advisory
		v.unchecked, names = true, refusedCheck+names
		warn("the tracker refused to check the project, states and labels: " + err.Error())
	case errors.As(err, &known) && known.Code == "tracker_project_not_found":
		known.Message = v.path + ": tracker.project_slug: " + known.Message
		return err
	case err != nil:
		return err
	}
	for _, e := range WrongNames(v.cfg, v.t.Name, found) {
		warn(e.Message + ": " + e.Hint)
	}
	if v.db == nil {
		return nil
	}
	return v.db.SetMeta(ctx, verifiedKey, names)
}

// FetchIssue asks the tracker for an issue by its identifier or id.
func FetchIssue(ctx context.Context, p *Project, ref string) (*reconcile.Issue, error) {
	cfg, err := p.Config()
	if err != nil {
		return nil, err
	}
	tracker, err := NewTracker(cfg, p.Env.Now, WarnTo(p.Env.NewLog(slog.LevelWarn, term.TextLog)))
	if err != nil {
		return nil, err
	}
	return tracker.Find(ctx, ref)
}
