package wiring

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
	"github.com/symphony-cron/symphony/runner/host"
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

// NewRunners returns the runners, which start and watch workers on this machine.
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
	literals := cfg.Literals()
	if len(literals) > 0 {
		l.Secret, err = json.Marshal(literals)
		if err != nil {
			return nil, fmt.Errorf("secrets of the workflow: %w", err)
		}
	}
	return l, nil
}

// RunnerConfig returns the configuration of a worker.
func RunnerConfig(p *Project, cfg *workflow.Config) runner.Config {
	kind, _ := AgentOf(cfg.Chosen.Kind) // a run is refused without it
	// Only a delivery asks for them, and each worker would look them up.
	var obeyed []string
	if cfg.Repository.Delivers() {
		obeyed = obeyedInRepository(p, cfg)
	}
	alone := ""
	if !cfg.Repository.Claims.On {
		alone = holderName(p)
	}
	c := runner.Config{
		Policy:   Policy(cfg),
		MaxTurns: cfg.Chosen.MaxTurns,
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
				URL:        cfg.Repository.URL,
				Base:       cfg.Repository.Base,
				Name:       cfg.Repository.Name,
				Email:      cfg.Repository.Email,
				Pushes:     cfg.Repository.Delivers(),
				Team:       cfg.Repository.Claims.On,
				Alone:      alone,
				Submodules: cfg.Repository.Submodules,
				Sign:       cfg.Repository.Sign,
				Obeyed:     obeyed,
			},
			Words:    cfg.Repository.ForgeKind().Words,
			Branch:   cfg.Repository,
			Deliver:  cfg.Repository.Delivers(),
			Check:    cfg.Repository.Check,
			Token:    cfg.Repository.Token.Reveal(),
			TokenVar: cfg.Repository.TokenVar,
			AskPass:  p.EnvFile["GIT_ASKPASS"],

			ClaimsBranch: cfg.Repository.Claims.Branch,
		},
		Handoff: runner.Handoff{
			State:        cfg.Handoff.State,
			BlockedState: cmp.Or(cfg.Handoff.BlockedState, cfg.Handoff.State),
		},
		Verify: runner.Verify(cfg.Verify),
		Config: confine.Config{
			NamedHome:         cfg.Chosen.Home,
			HomeVar:           kind.HomeVar,
			Model:             cfg.Chosen.Model,
			Effort:            cfg.Chosen.Effort,
			ApprovalPolicy:    cfg.Chosen.ApprovalPolicy,
			TurnSandboxPolicy: cfg.Chosen.TurnSandboxPolicy,
			OnQuestion:        questions[cfg.Chosen.OnQuestion],
			Network:           cfg.Chosen.Network || len(cfg.Chosen.Allow) > 0,
			WritableRoots:     cfg.Chosen.WritableRoots,
			TrustRepository:   cfg.Chosen.TrustRepository,
			PassEnv:           cfg.Chosen.PassEnv,
			Secrets:           cfg.SecretVars,
			SecretValues:      Secrets(p, cfg),
			Hidden:            hiddenTokens(cfg),
		},
		Agent:             kind,
		AgentEnv:          agentEnv(cfg),
		Command:           cfg.Chosen.Command,
		TrustLauncher:     cfg.Chosen.TrustLauncher,
		ReadTimeout:       cfg.Session.ReadTimeout,
		InitializeTimeout: cfg.Session.ReadTimeout,
		TurnTimeout:       cfg.Session.TurnTimeout,
		StallTimeout:      cfg.Session.StallTimeout,
		OnApproval:        approvals[cfg.Chosen.OnApproval],
		AnswerTimeout:     cfg.Agent.AnswerTimeout,
		ResumeThread:      cfg.Agent.ResumeThread,
		KeepRemoved:       cfg.Workspace.KeepRemoved,
	}
	for key, line := range cfg.Lines {
		hook, isHook := strings.CutPrefix(key, "hooks.")
		if isHook {
			c.Hooks.Where[hook] = fmt.Sprintf("%s:%d", cfg.FileName, line)
		}
	}
	if cfg.Chosen.ThreadSandbox != "" {
		c.ThreadSandbox = text.JSON(cfg.Chosen.ThreadSandbox)
	}
	account := OpenAccount(p, cfg.Chosen.Home)
	c.Unreadable = SecretFiles(p, account, cfg.Chosen.Inherit || !kind.Sandboxes)
	for _, choice := range cfg.AllAgents() {
		isOther := choice.Kind != cfg.Chosen.Kind || choice.Home != cfg.Chosen.Home
		if !isOther || choice.LoginFile() == "" {
			continue
		}
		login := filepath.Join(OpenAccount(p, choice.Home).Home, choice.LoginFile())
		c.Unreadable = append(c.Unreadable, p.hiding(login)...)
	}
	slices.Sort(c.Unreadable)
	c.Unreadable = slices.Compact(c.Unreadable)
	if cfg.KeyFromGh {
		c.Unreadable = append(c.Unreadable, p.ghFiles())
	}
	if kind.PrepareHome == nil { // it has no home of its own
		c.NamedHome = ""
	}
	if !cfg.Chosen.Inherit {
		c.LoginHome = account.Home
		c.AgentHome = account.AgentHome()
	}
	if cfg.Chosen.Boxed {
		home := filepath.Join(p.StateDir, "homes", kind.Name)
		login := p.Env.Home
		if kind.HomeInBox != "" { // a home for each account
			home = filepath.Join(home, filepath.Base(account.Dir))
			c.AgentHome = filepath.Join(home, kind.HomeInBox)
			login = account.Home
		}
		c.Boxed = true
		c.Sandbox = &runner.Sandbox{
			Home:        home,
			AccountHome: p.Env.Home,
			LoginHome:   login,
			Open:        cfg.Chosen.Network,
			Allow:       cfg.Chosen.Allow,
			Key:         cfg.Chosen.Key.Reveal(),
			Limits:      LimitsOf(cfg),
		}
		c.Program = ProgramPath()
	}
	if !cfg.Session.ReadTimeoutSet {
		c.InitializeTimeout = max(c.InitializeTimeout, 30*time.Second)
	}
	return c
}

// maxProcesses is how many processes and threads an agent in symphony's sandbox may have at once.
const maxProcesses = 4096

// LimitsOf returns what an agent in symphony's sandbox may use.
func LimitsOf(cfg *workflow.Config) proc.Limits {
	return proc.Limits{
		Tasks:  maxProcesses,
		Memory: cmp.Or(cfg.Agent.MaxMemory, proc.MachineMemory()/4*3),
	}
}

// hiddenTokens returns the usual variables of forges that agents would not take for secrets by
// their names, and that the workflow does not give to agents.
func hiddenTokens(cfg *workflow.Config) []string {
	given := slices.Concat(cfg.Chosen.PassEnv, slices.Collect(maps.Keys(cfg.Chosen.Env)))
	vars := slices.Sorted(maps.Keys(workflow.ForgeTokenVars()))
	return text.Filter(vars, func(name string) bool {
		return !confine.LooksSecret(name) && !slices.Contains(given, name)
	})
}

// agentEnv returns the variables of agent.env, such as "FOO=bar".
func agentEnv(cfg *workflow.Config) (env []string) {
	for _, name := range slices.Sorted(maps.Keys(cfg.Chosen.Env)) {
		env = append(env, name+"="+cfg.Chosen.Env[name])
	}
	return env
}

var (
	approvals = map[string]agent.Approval{
		workflow.Approve: agent.ApprovalApprove,
		workflow.Deny:    agent.ApprovalDeny,
		workflow.Fail:    agent.ApprovalFail,
		workflow.Ask:     agent.ApprovalAsk,
	}
	questions = map[string]agent.QuestionPolicy{
		workflow.Fail: agent.QuestionFail,
		workflow.Ask:  agent.QuestionAsk,
	}
)

// Secrets returns the secret values of the tracker, of the repository, of monitor.ping_url and
// of agent.key, which agents of other kinds need not know either.
// If no tracker can be built from the configuration, that is its key.
func Secrets(p *Project, cfg *workflow.Config) []string {
	secrets := append(cfg.Monitor.Secrets(), cfg.Repository.Token.Reveal(), cfg.Agent.Key.Reveal())
	tracker, err := NewTracker(p, cfg, TrackerOptions{})
	if err != nil {
		return append(secrets, cfg.Tracker.APIKey.Reveal())
	}
	return append(secrets, tracker.Secrets...)
}

// SecretFiles lists the files that no agent may read: the directories of the environment files
// of all projects, also the directories that a schedule reads, the targets of links there, and
// the agent's login. Each is listed under all its names through mounts. isAtHome: the agent works
// with the home of the account itself.
func SecretFiles(p *Project, account *state.Account, isAtHome bool) []string {
	var list []string
	add := func(hidden ...string) {
		for _, path := range hidden {
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
	}
	login := filepath.Join(account.Home, "auth.json")
	if !isAtHome {
		add(p.hiding(login)...)
	}
	add(login)
	for _, own := range worlds(p.Env) {
		dir := filepath.Dir(workflow.EnvFilePath(own.Getenv("XDG_CONFIG_HOME"), own.Home, "symphony"))
		add(dir)
		entries, _ := os.ReadDir(dir) // it need not exist
		for _, e := range entries {
			add(p.hiding(filepath.Join(dir, e.Name()))...)
		}
	}
	return list
}

// hiding returns what to hide so that no command reads a secret file: its directory, because a file
// is hidden only until another takes its place, as when the agent renews its login; and the same
// where the file ends if it is a link. It is the file itself where commands need others beside it:
// in the home of the account, around the project, and where codex's own installer has put its
// programs.
func (p *Project) hiding(file string) (hidden []string) {
	for _, at := range []string{file, paths.Real(file)} {
		dir := filepath.Dir(at)
		if paths.Inside(dir, paths.Real(p.Env.Home)) || paths.Inside(dir, paths.Real(p.Path)) ||
			Exists(filepath.Join(dir, "packages")) {
			dir = at
		}
		hidden = append(hidden, dir)
	}
	return hidden
}

// Launcher returns the launcher that the agent's command starts in an environment, if any.
func Launcher(ctx context.Context, p *Project, cfg *workflow.Config, env []string) host.Launcher {
	request := RunnerConfig(p, cfg).LaunchRequest(env, paths.Real(cfg.Workspace.Root))
	found, err := ThisMachine().Launcher(ctx, request)
	if err != nil {
		return host.Launcher{} // without a workspace there is nothing to fail
	}
	return found
}

// LauncherWarning explains a launcher in the command of an agent.
func LauncherWarning(kind agent.Kind, l host.Launcher) string {
	where := ""
	if kind.Sandboxes {
		where = " outside the sandbox"
	}
	return kind.CommandKey + " starts " + l.Program + "; files that agents can write decide which program it " +
		"runs" + where + ": runs in workspaces with such files end with agent_command_unsafe"
}

// Inspect starts the agent as a worker does, in a temporary workspace below parent. If the workflow sets no
// time limit for its answers, all get that of the first, and patience makes them longer.
func Inspect(
	ctx context.Context,
	p *Project,
	cfg *workflow.Config,
	parent string,
	patience func(time.Duration) time.Duration,
) (*runner.Inspection, error) {
	c := RunnerConfig(p, cfg)
	if !cfg.Session.ReadTimeoutSet {
		c.InitializeTimeout = patience(c.InitializeTimeout)
		c.ReadTimeout = c.InitializeTimeout
	}
	return c.Inspect(ctx, trialMachine(p.Env), p.Environ(), parent, Version())
}

// TryBox runs a program in the sandbox of agents, in a temporary workspace below parent.
func TryBox(ctx context.Context, p *Project, cfg *workflow.Config, parent string) error {
	return RunnerConfig(p, cfg).TryBox(ctx, trialMachine(p.Env), p.Environ(), parent)
}

// ConfigOf returns the configuration for an issue and the agent that worked on it last, the
// first of its agents if the workflow has that one no more.
func ConfigOf(
	p *Project,
	cfg *workflow.Config,
	issue reconcile.Issue,
	last reconcile.Agent,
) *workflow.Config {
	choice := ChoiceOf(p, cfg.AgentsFor(issue.Labels), last)
	return cfg.ForIssueBy(choice, issue.Labels)
}

// NewHolding returns a holding of an issue's workspace below root, by the configuration for that
// issue.
func NewHolding(
	p *Project,
	cfg *workflow.Config,
	issue reconcile.Issue,
	root string,
	log *slog.Logger,
) *runner.Holding {
	return &runner.Holding{
		Here: runner.Place{
			Machine:  NewMachine(p.StateDir),
			StateDir: p.StateDir,
			Env:      p.Environ(),
			Config:   RunnerConfig(p, cfg),
		},
		HoldDir: workers.Hold,
		ID:      NewRunID(p.Env.Now()),
		Issue:   issue,
		Root:    root,
		Now:     p.Env.Now,
		Log:     log,
	}
}
