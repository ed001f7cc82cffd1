package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/proc"
)

// The environments, as --json names them.
const (
	asCalled    = "called"
	asScheduled = "schedule"
)

// environment is the project with the variables that a pass would have.
type environment struct {
	as     string
	p      *wiring.Project
	report wiring.CheckReport
	config *workflow.Config // with or without a key; nil if the workflow can't be read
	// machine is set where no workflow was found, so that only the machine is examined. The
	// defaults are then in config.
	machine bool
	// deep: a trial turn is asked for.
	deep  bool
	other *environment // the caller's environment, if this is the schedule's

	// All checks share a login shell, an agent, its conversation and an answer of the tracker.
	login  func() loginShell
	agent  func() (*runner.Inspection, error)
	opened func() error
	// further are the findings about the homes besides the first.
	further func() []finding
	tracker func() trackerAnswer
}

// newEnvironment reads the workflow. If it was not named and does not exist, the configuration
// contains the defaults.
func newEnvironment(
	ctx context.Context,
	as string,
	p *wiring.Project,
	named bool,
	other *environment,
) *environment {
	e := &environment{as: as, p: p, other: other}
	readable := *p
	readable.EnvErr = nil // checkEnvFile reports it
	e.machine = !named && errors.Is(p.SourceErr, fs.ErrNotExist)
	if e.machine {
		readable.Source = defaults
		readable.SourceErr = nil
	}
	e.report, e.config = wiring.CheckResult(&readable)
	if e.config != nil && !e.machine {
		_ = p.WriteCertificates(e.config) // a pass reports it
	}
	e.login = sync.OnceValue(func() loginShell { return e.startLogin(ctx) })
	e.agent = sync.OnceValues(func() (*runner.Inspection, error) { return e.startAgent(ctx) })
	e.opened = sync.OnceValue(func() error { return e.openConversation(ctx) })
	e.further = sync.OnceValue(func() []finding { return e.examineFurther(ctx) })
	e.tracker = sync.OnceValue(func() trackerAnswer { return e.askTracker(ctx) })
	return e
}

// defaults is a workflow that changes no setting of the agent and the account.
var defaults = workflow.Source{
	FrontMatter: []byte("tracker: {kind: file, provider: {path: issues}}\n"),
	Body:        "{{ issue.title }}",
}

func (e *environment) has(n need) bool {
	switch {
	case n == needsNothing:
		return true
	case e.machine && n.needsProject():
		return false
	case n == needsWorkflow:
		return true
	case e.config == nil:
		return false
	case n == needsKey:
		return e.config.Tracker.APIKey != "" || !e.config.NeedsKey
	case n == needsLogin:
		return e.login().err == nil
	case n == needsAgent:
		i, err := e.agent()
		return err == nil && i.Server.Limits == ""
	}
	return true
}

// secrets returns the values of the keys of trackers and the tokens of forges.
func (e *environment) secrets() (values []string) {
	names := workflow.EveryKeyVar()
	if e.config != nil {
		values = append(append(values, e.config.Monitor.Secrets()...), e.config.Tracker.APIKey.Reveal())
		names = append(names, e.config.SecretVars...)
	}
	for _, name := range names {
		value, _ := e.p.Lookup(name)
		values = append(values, value)
	}
	return values
}

// patience returns how long something may take that takes bound at most on a machine with nothing else to
// do: up to six times as long, by the load for each of its processors.
func patience(bound time.Duration) time.Duration {
	factor := min(max(proc.Load()/float64(runtime.NumCPU()), 1), 6)
	return time.Duration(factor * float64(bound))
}

// startBound is long enough for the agent to start with a new home.
const startBound = 40 * time.Second

// startAgent starts the agent as a worker would.
func (e *environment) startAgent(ctx context.Context) (*runner.Inspection, error) {
	home := e.agentHome()
	kind := wiring.DefaultAgent()
	isDefault := e.config.Chosen.Kind == workflow.DefaultAgent
	if isDefault && !wiring.Exists(home) && !strings.Contains(e.config.Chosen.Command, kind.HomeVar) {
		// With its home named, the agent would exit at once; without it, the agent would create the
		// directory and have no login.
		return nil, reconcile.NewError(
			string(agent.CodeAgentAuth),
			kind.Title+"'s home "+home+" does not exist",
			e.loginHint(),
		)
	}
	if err := e.login().err; err != nil {
		return nil, err
	}
	if e.other != nil && e.other.config != nil {
		// the agent may exit if another one makes its database in a new home at the same time
		_, err := e.other.agent()
		if hangs(err) && e.other.config.Chosen.Command == e.config.Chosen.Command {
			return nil, err // it would hang here, too, until the checks that wait for it give up
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience(startBound))
	defer cancel()
	return wiring.Inspect(ctx, e.p, e.config, e.trialDir(ctx), patience)
}

// hangs reports whether an agent gave no answer in time.
func hangs(err error) bool {
	late, is := errors.AsType[*agent.Error](err)
	return is && late.Code == agent.CodeResponseTimeout || errors.Is(err, context.DeadlineExceeded)
}

// trialDir is where agents are tried: in the workspace root, where they work later, or else in
// a temporary directory.
func (e *environment) trialDir(ctx context.Context) string {
	dir := paths.Real(e.config.Workspace.Root)
	if wiring.CheckRoot(ctx, e.p, e.config) != nil || !wiring.Exists(dir) {
		return os.TempDir()
	}
	return dir
}

// openConversation opens a conversation with the agent.
func (e *environment) openConversation(ctx context.Context) error {
	i, err := e.agent()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience(startBound))
	defer cancel()
	return i.Open(ctx)
}

// elsewhere reports whether agents work on other machines.
func (e *environment) elsewhere() bool { return e.config != nil && len(e.config.Policy.Hosts) > 0 }

// concerns reports whether checks about a subject are made on this machine.
func (e *environment) concerns(s subject) bool {
	if s == ofProject {
		return true
	}
	if e.elsewhere() {
		return s == ofRepository && e.config.Repository.URL != ""
	}
	isOther := e.config != nil && e.config.Chosen.Kind != workflow.DefaultAgent
	return (s != ofDefault || !isOther) && (s != ofOthers || isOther) && (s != ofTurns || e.deep)
}

// tidyingUp is the name of the last line of the report.
const tidyingUp = "clean-up"

// close ends the agent that was started for the checks.
func (e *environment) close() []finding {
	if e.elsewhere() || !e.has(needsAgent) {
		return nil
	}
	i, _ := e.agent()
	err := i.Close()
	if err == nil {
		return nil
	}
	list := warn(
		"the checks of the agent left something behind: "+err.Error(),
		"see what it is and end or remove it",
	)
	list[0].Check = tidyingUp
	list[0].As = e.as
	return list
}

// agentHome is the home of the default kind of agent.
func (e *environment) agentHome() string {
	kind := wiring.DefaultAgent()
	fromEnv, _ := e.p.Lookup(kind.HomeVar)
	return cmp.Or(e.config.Chosen.Home, fromEnv, filepath.Join(e.p.Env.Home, kind.HomeDir))
}

const (
	loginBound = 20 * time.Second // for a login shell
	// a slower login shell delays each run noticeably
	slowLogin = 2 * time.Second
)

// loginShell is a login shell that was tried.
type loginShell struct {
	profile host.LoginAnswer
	took    time.Duration
	err     error
}

// startLogin runs a login shell in the environment of hooks and agents, twice if the first
// time was slow because the disk had to read its files, and ends the processes that the
// profile left in the background.
func (e *environment) startLogin(ctx context.Context) (shell loginShell) {
	id := "doctor-" + wiring.NewRunID(e.p.Env.Now())
	env := wiring.RunnerConfig(e.p, e.config).HookEnv(e.p.Environ())
	run := wiring.ThisMachine().Run(id) // marks the processes
	for range 2 {
		began := time.Now()
		profile, err := run.Login(ctx, host.LoginRequest{
			Env:     append(env, host.RunMark+"="+id),
			Timeout: patience(loginBound),
		})
		shell = loginShell{profile, time.Since(began), err}
		if err != nil || shell.took <= patience(slowLogin) {
			break
		}
	}
	_, err := run.Kill(context.WithoutCancel(ctx), host.KillRequest{})
	shell.err = errors.Join(shell.err, err)
	return shell
}

// loginEnv is the environment of hooks and agents, without the variables of a run.
func (e *environment) loginEnv() []string {
	config := wiring.RunnerConfig(e.p, e.config)
	return config.AfterLogin(config.HookEnv(e.p.Environ()), e.login().profile, config.Secrets)
}

// shell runs a script as hooks and agents run commands and returns the first line that it
// prints, empty if it fails.
func (e *environment) shell(ctx context.Context, script string) (string, error) {
	return e.shellIn(ctx, e.loginEnv, script)
}

// shellIn is shell in another environment. env is called only if the login shell ends.
func (e *environment) shellIn(ctx context.Context, env func() []string, script string) (string, error) {
	if err := e.login().err; err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "bash", "-c", "exec 2>/dev/null; "+script)
	cmd.Env = env()
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // without a terminal that ssh could ask on
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, _, err := proc.Output(cmd)
	if ctx.Err() != nil {
		return "", fmt.Errorf("%s: %w", script, ctx.Err())
	}
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		return "", fmt.Errorf("bash -c: %w", err)
	}
	answer, _, _ := strings.Cut(out, "\n")
	return strings.TrimSuffix(answer, "\r"), nil // ssh ends its lines as a terminal does
}

// program returns the path at which hooks and agents find a program; empty if they don't find
// it.
func (e *environment) program(ctx context.Context, name string) (string, error) {
	return e.shell(ctx, "command -v -- "+name)
}

// lacks reports whether hooks and agents do not find a program.
func (e *environment) lacks(ctx context.Context, name string) bool {
	path, err := e.program(ctx, name)
	return err == nil && path == ""
}

// hintForProgram returns the step after which bash -lc finds a program.
func (e *environment) hintForProgram(ctx context.Context, name string) string {
	if e.other != nil {
		path, err := e.other.program(ctx, name)
		if err == nil && filepath.IsAbs(path) {
			return fmt.Sprintf("add to the login profile: export PATH=%s:$PATH", filepath.Dir(path))
		}
	}
	return "install it where bash -lc finds it, or add its directory to PATH in the login profile"
}
