package wiring

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/runner/workers"
	"github.com/symphony-cron/symphony/state"
)

// Policy is the policy of the configuration with the resolved workspace root and the time that
// a run may take to stop.
func Policy(cfg *workflow.Config) reconcile.Policy {
	p := cfg.Policy
	p.WorkspaceRoot = paths.Real(cfg.Workspace.Root)
	p.StopGrace = reconcile.ShortestStop
	if cfg.Hooks.AfterRun != "" {
		p.StopGrace += cfg.Hooks.Timeout
	}
	p.Deliver = cfg.Repository.Delivers()
	return p
}

// ThisMachine returns this machine, for what belongs to no run: workspace roots and
// directories.
func ThisMachine() host.Local { return NewMachine("") }

// NewMachine returns this machine for passes and commands. Workers use NewWorkersMachine.
func NewMachine(stateDir string) host.Local {
	return local.Machine{StateDir: stateDir, PrepareHome: prepareHome}
}

// NewWorkersMachine returns the machine of a worker. accountDir has the locks that all
// projects of the account share. The worker shares a login shell with the others that have
// logins, nil for no others.
func NewWorkersMachine(w *environ.Env, stateDir, accountDir string, logins *os.File) host.Machine {
	return local.Machine{
		StateDir:    stateDir,
		AccountDir:  accountDir,
		Projects:    lockedPlaces(w),
		Logins:      logins,
		PrepareHome: prepareHome,
	}
}

// NewServedMachine returns this machine for a run whose worker is on another one.
func NewServedMachine(w *environ.Env, stateDir string) host.Local {
	return local.Machine{
		StateDir:    stateDir,
		AccountDir:  stateDir,
		Projects:    lockedPlaces(w),
		PrepareHome: prepareHome,
		Account:     host.Account{Home: w.Home, StateDir: stateDir, Env: host.Scrub(w.Environ)},
	}
}

// lockedPlaces returns what finds the state directories and workspace roots of all projects of
// the account. What can't be read is left out: the files of the others are still known.
func lockedPlaces(w *environ.Env) func(context.Context) (stateDirs, roots []string) {
	return func(ctx context.Context) (stateDirs, roots []string) {
		stateDirs, _ = StateDirs(w)
		stateDirs = append(stateDirs, AgentsDir(w))
		for _, dir := range stateDirs {
			known, _ := storedFiles(ctx, dir)
			roots = append(roots, known.roots...)
		}
		return stateDirs, roots
	}
}

// NewMirrors returns the mirrors on this machine through which a run clones and delivers on
// another one.
func NewMirrors(stateDir, runID string) host.Mirrors {
	return local.Mirrors{Dir: mirrorsDir(stateDir), RunID: host.HereID(runID)}
}

// KeptHere returns the commits of an issue's work on other machines that this one keeps and no
// remote has.
func KeptHere(ctx context.Context, p *Project, issueID string) ([]host.Kept, error) {
	return local.Mirrors{Dir: mirrorsDir(p.StateDir)}.Unsaved(ctx, issueID, GitEnv(p))
}

// ForgetKept keeps the commits of an issue no longer.
func ForgetKept(ctx context.Context, p *Project, issueID string) error {
	return local.Mirrors{Dir: mirrorsDir(p.StateDir)}.Forget(ctx, issueID, GitEnv(p))
}

// mirrorsDir is the directory of the mirrors on this machine for runs on others.
func mirrorsDir(stateDir string) string { return filepath.Join(stateDir, "mirrors") }

// GitEnv is the environment of git that reads a mirror on this machine, and no remote. It has
// no secrets.
func GitEnv(p *Project) []string {
	return text.Filter(p.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, "PATH=") || strings.HasPrefix(entry, "HOME=")
	})
}

// NewCommands returns what starts commands of the operator on this machine.
func NewCommands() host.Commands { return local.Machine{} }

// NewRunners returns what starts and watches workers on this machine.
func NewRunners(p *Project, cfg *workflow.Config) (*workers.Local, error) {
	exe, err := RunningProgram()
	if err != nil {
		return nil, err
	}
	l := &workers.Local{
		Machine:      NewMachine(p.StateDir),
		StateDir:     p.StateDir,
		Exe:          exe,
		Env:          p.WorkerEnviron(),
		Workflow:     cfg.Redacted,
		WorkflowPath: p.Path,
		Project:      cfg.Policy.Project,
		KeepRemoved:  cfg.Workspace.KeepRemoved,
		Scopes:       &proc.ScopeManager{Env: p.Env.Environ},
	}
	if len(cfg.Policy.Hosts) == 0 { // otherwise workspaces are elsewhere
		l.Root = paths.Real(cfg.Workspace.Root)
	}
	if literals := cfg.Literals(); len(literals) > 0 {
		if l.Secret, err = json.Marshal(literals); err != nil {
			return nil, fmt.Errorf("secrets of the workflow: %w", err)
		}
	}
	return l, nil
}

// RunningProgram is the path with which this program is started again, even after its file was
// replaced.
func RunningProgram() (string, error) {
	const exe = "/proc/self/exe"
	if Exists(exe) {
		return exe, nil
	}
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("own program: %w", err)
	}
	return path, nil
}

// Secrets returns the secret values of the tracker, of the repository and of monitor.ping_url.
// If no tracker can be built from the configuration, that is its key.
func Secrets(p *Project, cfg *workflow.Config) []string {
	secrets := append(cfg.Monitor.Secrets(), cfg.Repository.Token.Reveal())
	tracker, err := NewTracker(p, cfg, TrackerOptions{})
	if err != nil {
		return append(secrets, cfg.Tracker.APIKey.Reveal())
	}
	return append(secrets, tracker.Secrets...)
}

// pathInRepository returns the path of a file in the repository of the operator that it lies
// in; empty if it lies in none.
func pathInRepository(file string) string {
	for dir := filepath.Dir(file); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			name, err := filepath.Rel(dir, file)
			if err != nil {
				return ""
			}
			return filepath.ToSlash(name)
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}

// RunnerConfig returns the configuration of a worker.
func RunnerConfig(p *Project, cfg *workflow.Config) runner.Config {
	c := runner.Config{
		Policy:   Policy(cfg),
		MaxTurns: cfg.Agent.MaxTurns,
		Hooks: runner.Hooks{
			AfterCreate:  cfg.Hooks.AfterCreate,
			BeforeRun:    cfg.Hooks.BeforeRun,
			AfterRun:     cfg.Hooks.AfterRun,
			BeforeRemove: cfg.Hooks.BeforeRemove,
			Timeout:      cfg.Hooks.Timeout,
			Where:        map[string]string{},
		},
		Repository: runner.Repository{
			Repository: host.Repository{
				URL:            cfg.Repository.URL,
				Base:           cfg.Repository.Base,
				Name:           cfg.Repository.Name,
				Email:          cfg.Repository.Email,
				Pushes:         cfg.Repository.Delivers(),
				SubmoduleHosts: cfg.Repository.SubmoduleHosts,
				Submodules:     cfg.Repository.Submodules,
				Sign:           cfg.Repository.Sign,
				Workflow:       pathInRepository(p.Path),
			},
			Branch:   cfg.Repository,
			Deliver:  cfg.Repository.Delivers(),
			Token:    cfg.Repository.Token.Reveal(),
			TokenVar: cfg.Repository.TokenVar,
		},
		Handoff: runner.Handoff{
			State:        cfg.Handoff.State,
			BlockedState: cmp.Or(cfg.Handoff.BlockedState, cfg.Handoff.State),
		},
		Verify: runner.Verify(cfg.Verify),
		Config: confine.Config{
			CodexHome:         cfg.Codex.Home,
			Model:             cfg.Codex.Model,
			Effort:            cfg.Codex.Effort,
			ApprovalPolicy:    cfg.Codex.ApprovalPolicy,
			TurnSandboxPolicy: cfg.Codex.TurnSandboxPolicy,
			OnQuestion:        questions[cfg.Agent.OnQuestion],
			Network:           cfg.Agent.Network,
			WritableRoots:     cfg.Agent.WritableRoots,
			TrustRepository:   cfg.Agent.TrustRepository,
			PassEnv:           cfg.Agent.PassEnv,
			Secrets:           cfg.SecretVars,
			SecretValues:      Secrets(p, cfg),
		},
		AgentKind:         cfg.Agent.Kind,
		StartAgent:        agentKinds[cfg.Agent.Kind].Start,
		Command:           cfg.Codex.Command,
		TrustLauncher:     cfg.Codex.TrustLauncher,
		ReadTimeout:       cfg.Codex.ReadTimeout,
		InitializeTimeout: cfg.Codex.ReadTimeout,
		TurnTimeout:       cfg.Codex.TurnTimeout,
		StallTimeout:      cfg.Codex.StallTimeout,
		OnApproval:        approvals[cfg.Agent.OnApproval],
		AnswerTimeout:     cfg.Agent.AnswerTimeout,
		KeepGitConfig:     cfg.Agent.KeepGitConfig,
		ResumeThread:      cfg.Agent.ResumeThread,
		KeepRemoved:       cfg.Workspace.KeepRemoved,
	}
	for key, line := range cfg.Lines {
		if hook, is := strings.CutPrefix(key, "hooks."); is {
			c.Hooks.Where[hook] = fmt.Sprintf("%s:%d", cfg.FileName, line)
		}
	}
	if cfg.Codex.ThreadSandbox != "" {
		c.ThreadSandbox = json.RawMessage(strconv.Quote(cfg.Codex.ThreadSandbox)) // a plain word
	}
	account := OpenAccount(p, cfg.Codex.Home)
	c.Unreadable = SecretFiles(p, account)
	if cfg.KeyFromGh {
		c.Unreadable = append(c.Unreadable, p.ghFiles())
	}
	if !cfg.Codex.Inherit {
		c.LoginHome = account.Home
		c.AgentHome = account.AgentHome()
	}
	if !cfg.Codex.ReadTimeoutSet {
		c.InitializeTimeout = max(c.InitializeTimeout, 30*time.Second)
	}
	return c
}

// SecretFiles are the directories of the environment files of all projects, also those that a
// schedule reads, the files to which links there lead, and codex's login, each under all names
// that it has through mounts.
func SecretFiles(p *Project, account *state.Account) []string {
	var list []string
	add := func(path string) {
		names := []string{paths.Real(path)}
		place, err := paths.Find(path)
		if err == nil {
			names = append(names, place.Names()...)
		}
		for _, name := range names {
			if !slices.ContainsFunc(list, func(dir string) bool { return paths.Inside(dir, name) }) {
				list = append(list, name)
			}
		}
	}
	add(filepath.Join(account.Home, "auth.json"))
	for _, own := range worlds(p.Env) {
		dir := filepath.Dir(workflow.EnvFilePath(own.Getenv("XDG_CONFIG_HOME"), own.Home, "symphony"))
		add(dir)
		entries, _ := os.ReadDir(dir) // it need not exist
		for _, e := range entries {
			add(filepath.Join(dir, e.Name()))
		}
	}
	return list
}

// Launcher returns the launcher that codex.command starts in an environment, if any.
func Launcher(ctx context.Context, p *Project, cfg *workflow.Config, env []string) host.Launcher {
	request := RunnerConfig(p, cfg).LaunchRequest(env, paths.Real(cfg.Workspace.Root))
	facts, err := ThisMachine().Facts(ctx, host.FactsRequest{Launch: request})
	if err != nil {
		return host.Launcher{} // without a workspace there is nothing to fail
	}
	return facts.Launcher
}

// LauncherWarning explains a launcher in codex.command.
func LauncherWarning(l host.Launcher) string {
	return "codex.command starts " + l.Program + "; files that agents can write decide which program it runs outside the sandbox" +
		": runs in workspaces with such files end with codex_command_unsafe"
}

// Inspect starts codex as a worker does, in a temporary workspace below parent.
func Inspect(
	ctx context.Context,
	p *Project,
	cfg *workflow.Config,
	parent string,
) (*runner.Inspection, error) {
	return RunnerConfig(p, cfg).Inspect(ctx, ThisMachine(), p.Environ(), parent, Version())
}

// NewTakeover returns a takeover of an issue's workspace below root.
func NewTakeover(
	p *Project,
	cfg *workflow.Config,
	issue reconcile.Issue,
	root string,
	log *slog.Logger,
) *runner.Takeover {
	return &runner.Takeover{
		Config:   RunnerConfig(p, cfg.ForIssue(issue.Labels, nil, "")),
		Machine:  NewMachine(p.StateDir),
		Hold:     workers.Hold,
		StateDir: p.StateDir,
		ID:       NewRunID(p.Env.Now()),
		Issue:    issue,
		Root:     root,
		Env:      p.Environ(),
		Now:      p.Env.Now,
		Log:      log,
	}
}

var (
	approvals = map[workflow.Answer]agent.Approval{
		workflow.Approve: agent.ApprovalApprove,
		workflow.Deny:    agent.ApprovalDeny,
		workflow.Fail:    agent.ApprovalFail,
		workflow.Ask:     agent.ApprovalAsk,
	}
	questions = map[workflow.Answer]agent.QuestionPolicy{
		workflow.Fail: agent.QuestionFail,
		workflow.Ask:  agent.QuestionAsk,
	}
)

// Version is the version of the program, which the go command derives from the tag or commit.
func Version() string { return ReadBuild().Version }

// Build is what the go command has recorded of the program's source.
type Build struct {
	Version string
	// Commit and Date are of the commit that was checked out, empty if the program was not
	// built in a git repository.
	Commit   string
	Date     string // RFC 3339
	Modified bool   // the source had changes that were not committed
}

// ReadBuild returns the build of this program.
func ReadBuild() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Build{Version: "devel"}
	}
	return buildOf(info)
}

func buildOf(info *debug.BuildInfo) Build {
	b := Build{Version: cmp.Or(strings.Trim(info.Main.Version, "()"), "devel")}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String is the version, with the commit and its day if they are known: v1.2.3 (4be0a1f0c6a2,
// 2026-02-24).
func (b Build) String() string {
	if b.Commit == "" {
		return b.Version
	}
	changed := map[bool]string{true: " with changes"}[b.Modified]
	return fmt.Sprintf("%s (%.12s%s, %.10s)", b.Version, b.Commit, changed, b.Date)
}

// ProgramPath is the path that still names this program after an upgrade: the link by which it
// was called, if there is one. It is empty if the path of the program can't be found.
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

var builtByGoRun = text.Pattern(`(^|/)go-build[0-9]*/|/[0-9a-f]{2}/[0-9a-f]{64}-d/`)

// BuiltByGoRun reports whether a program was built by go run: in a temporary folder, or in the
// cache of the go command.
func BuiltByGoRun(path string) bool { return builtByGoRun().MatchString(path) }

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

// RunIDs returns a function whose ids sort in the order of its calls, even after the clock was
// set back: the id identifies an issue's last run.
func RunIDs(db *state.DB, now func() time.Time) func() string {
	var last string
	return func() string {
		if last == "" {
			// If the database can't be read, the run's row can't be written either, which is
			// reported.
			if runs, err := db.Runs.Recent(context.Background(), 1); err == nil && len(runs) > 0 {
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
