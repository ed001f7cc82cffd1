package doctor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
)

// The environments, as --json names them.
const (
	asCalled    = "called"
	asScheduled = "schedule"
)

// environment is the project with the variables that a pass would have.
type environment struct {
	as     string
	p      *project.Project
	report project.CheckReport
	config *workflow.Config // with or without a key; nil if the workflow can't be read
	other  *environment     // that of the caller, for the one of the schedule

	// All checks share one codex and one answer of the tracker.
	agent   func() (*runner.Inspection, error)
	tracker func() trackerAnswer
}

func newEnvironment(ctx context.Context, as string, p *project.Project, other *environment) *environment {
	e := &environment{as: as, p: p, other: other}
	readable := *p
	readable.EnvErr = nil // checkEnvFile reports it
	e.report, e.config = project.CheckResult(&readable)
	e.agent = sync.OnceValues(func() (*runner.Inspection, error) { return e.startAgent(ctx) })
	e.tracker = sync.OnceValue(func() trackerAnswer { return e.askTracker(ctx) })
	return e
}

func (e *environment) has(n need) bool {
	switch {
	case n == needsNothing:
		return true
	case e.config == nil:
		return false
	case n == needsKey:
		return e.config.Tracker.APIKey != ""
	case n == needsAgent:
		_, err := e.agent()
		return err == nil
	}
	return true
}

// secrets returns the values of the tracker's key.
func (e *environment) secrets() (values []string) {
	names := []string{workflow.APIKeyVar}
	if e.config != nil {
		values = append(values, e.config.Tracker.APIKey.Reveal())
		names = append(names, e.config.SecretVars...)
	}
	for _, name := range names {
		value, _ := e.p.Lookup(name)
		values = append(values, value)
	}
	return values
}

// startBound is long enough for codex to start with a new home on a busy machine.
const startBound = 40 * time.Second

// startAgent starts codex as a worker would.
func (e *environment) startAgent(ctx context.Context) (*runner.Inspection, error) {
	home := e.codexHome()
	if !project.Exists(home) && !strings.Contains(e.config.Codex.Command, "CODEX_HOME") {
		// With CODEX_HOME set, codex would exit at once; without it, codex would create the directory and have no login.
		return nil, exit.Fault(string(agent.CodeAgentAuth), "codex's home "+home+" does not exist", e.loginHint())
	}
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	// In the workspace root, where codex works later, or else in a temporary directory.
	dir := project.Resolve(e.config.Workspace.Root)
	if project.RootFits(e.p, e.config, true) != nil || !project.Exists(dir) {
		dir = os.TempDir()
	}
	return project.Inspect(ctx, e.p, e.config, dir)
}

// tidyingUp is the name of the last line of the report.
const tidyingUp = "clean-up"

// close ends the codex that was started for the checks.
func (e *environment) close() []finding {
	if !e.has(needsAgent) {
		return nil
	}
	i, _ := e.agent()
	err := i.Close()
	if err == nil {
		return nil
	}
	list := warn("the checks of codex left something behind: "+err.Error(), "see what it is and end or remove it")
	list[0].Check, list[0].As = tidyingUp, e.as
	return list
}

// codexHome is the codex home of agents.
func (e *environment) codexHome() string {
	fromEnv, _ := e.p.Lookup("CODEX_HOME")
	return cmp.Or(e.config.Codex.Home, fromEnv, filepath.Join(e.p.Env.Home, ".codex"))
}

// answerMark precedes the answer in a script's output: a login profile may print anything before it.
const answerMark = "symphony-doctor:"

// shell runs a script in the environment of hooks and agents and returns the first line that it prints, empty if it fails. Then
// it kills what the login profile has left in the background.
func (e *environment) shell(ctx context.Context, script string) (string, error) {
	script = text.ShellUnset(e.config.SecretVars, "printf '\\n%s%s\\n' "+answerMark+` "$(`+script+` 2>/dev/null)"; kill -KILL 0`)
	cmd := exec.CommandContext(ctx, "bash", "-lc", script)
	cmd.Env, cmd.Dir = project.RunnerConfig(e.config).HookEnv(e.p.Environ()), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", fmt.Errorf("bash -lc: %w", ctx.Err())
	}
	at := strings.LastIndex(out.String(), "\n"+answerMark)
	if at < 0 {
		return "", errors.Join(fmt.Errorf("bash -lc prints nothing: check the login profile of %s", e.p.Env.Home), err)
	}
	answer, _, _ := strings.Cut(out.String()[at+1+len(answerMark):], "\n")
	return answer, nil
}

// program returns the path at which hooks and agents find a program; empty if they don't find it.
func (e *environment) program(ctx context.Context, name string) (string, error) {
	return e.shell(ctx, "command -v -- "+name)
}

// hintForProgram returns the step after which bash -lc finds a program.
func (e *environment) hintForProgram(ctx context.Context, name string) string {
	profile := "~/.profile" // the file that bash -l reads
	for _, file := range []string{".bash_login", ".bash_profile"} {
		if project.Exists(filepath.Join(e.p.Env.Home, file)) {
			profile = "~/" + file
		}
	}
	if e.other != nil {
		if path, err := e.other.program(ctx, name); err == nil && filepath.IsAbs(path) {
			return fmt.Sprintf("add to %s: export PATH=%s:$PATH", profile, filepath.Dir(path))
		}
	}
	return fmt.Sprintf("install it where bash -lc finds it, or add its directory to PATH in %s", profile)
}
