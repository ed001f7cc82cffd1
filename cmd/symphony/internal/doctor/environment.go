package doctor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/schedule"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// The environments, as --json names them.
const (
	asCalled    = "called"
	asScheduled = "schedule"
)

// environment is the project with the variables that a pass would have.
type environment struct {
	as string
	p  *project.Project
	// config is the workflow as it is read here, with or without a key. It is nil if configErr is set.
	config    *workflow.Config
	configErr error
	other     *environment // that of the caller, for the one of the schedule

	agent   func() (*runner.Inspection, error) // a codex as a worker would start it, once for all checks
	tracker func() *trackerAnswer              // asked once for all checks
	mu      sync.Mutex
	started *runner.Inspection
}

func newEnvironment(as string, p *project.Project) *environment {
	e := &environment{as: as, p: p, configErr: p.SourceErr}
	if e.configErr == nil {
		env := p.Environment(nil)
		env.KeyOptional = true
		if e.config, e.configErr = workflow.Parse(p.Source, env); e.configErr != nil {
			e.config = nil
		}
	}
	return e
}

// underSchedule returns the project as cron's bare environment shows it. An installed schedule names the workflow and may name
// the state directory and some variables.
func underSchedule(ctx context.Context, p *project.Project, stateFlag string) *project.Project {
	carried := schedule.CarriedBy(ctx, p)
	w := p.Env
	name := cmp.Or(w.Getenv("LOGNAME"), w.Getenv("USER"))
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	bare := *w
	bare.Environ = append([]string{
		"HOME=" + w.Home, "USER=" + name, "LOGNAME=" + name, "SHELL=" + cmp.Or(w.Getenv("SHELL"), "/bin/sh"), "PATH=/usr/bin:/bin",
	}, carried.Vars...)
	return project.New(&bare, p.Path, cmp.Or(stateFlag, carried.StateDir))
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

// startBound is long enough for a codex that starts with a new home on a busy machine.
const startBound = 40 * time.Second

// startAgent starts codex in a temporary directory. It waits for the one of the other environment: two codexes that start at
// once with a new home disturb each other.
func (e *environment) startAgent(ctx context.Context) (*runner.Inspection, error) {
	if e.other != nil && e.other.config != nil {
		e.other.agent() //nolint:errcheck // the checks of the other environment report it
	}
	home := e.codexHome()
	if !project.Exists(home) && !strings.Contains(e.config.Codex.Command, "CODEX_HOME") {
		// With CODEX_HOME codex would end at once; without, it would create the directory and have no login.
		return nil, &reconcile.Error{Code: string(agent.CodeAgentAuth), Message: "codex has no home: " + home + " does not exist", Hint: e.loginHint()}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	// In the root, where codex works later, or in a temporary directory.
	dir := project.Resolve(e.config.Workspace.Root)
	if project.RootFits(e.p, e.config, true) != nil || !project.Exists(dir) {
		dir = os.TempDir()
	}
	i, err := project.RunnerConfig(e.config).Inspect(ctx, e.p.Environ(), dir, project.Version())
	if err == nil {
		e.started = i
	}
	return i, err
}

func (e *environment) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.started == nil {
		return nil
	}
	return e.started.Close()
}

// codexHome is the codex home of agents.
func (e *environment) codexHome() string {
	if home, set := e.p.Lookup("CODEX_HOME"); set && e.config.Codex.Home == "" && home != "" {
		return home
	}
	return cmp.Or(e.config.Codex.Home, filepath.Join(e.p.Env.Home, ".codex"))
}

// answerMark begins the line of a script's output: a login profile may print anything before it.
const answerMark = "symphony-doctor:"

// shell runs a script as hooks and agents are run and returns the line that it prints; empty if it fails. Then it kills what
// the login profile has left in the background.
func (e *environment) shell(ctx context.Context, script string) (string, error) {
	script = proc.ShellUnset(e.config.SecretVars, "printf '\\n%s%s\\n' "+answerMark+` "$(`+script+` 2>/dev/null)"; kill -KILL 0`)
	cmd := exec.CommandContext(ctx, "bash", "-lc", script)
	cmd.Env, cmd.Dir = project.RunnerConfig(e.config).Environ(e.p.Environ()), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", fmt.Errorf("bash -lc: %w", ctx.Err())
	}
	for _, line := range slices.Backward(strings.Split(out.String(), "\n")) {
		if text, ok := strings.CutPrefix(line, answerMark); ok {
			return text, nil
		}
	}
	return "", errors.Join(fmt.Errorf("bash -lc prints nothing: look at the login profile of %s", e.p.Env.Home), err)
}

// program returns the path of a program as hooks and agents find it; empty if they do not.
func (e *environment) program(ctx context.Context, name string) (string, error) {
	return e.shell(ctx, "command -v -- "+name)
}

// hintForProgram says how bash -lc comes to find a program.
func (e *environment) hintForProgram(ctx context.Context, name string) string {
	profile := "~/.profile" // the file that bash -l reads
	for _, file := range []string{".bash_login", ".bash_profile"} {
		if project.Exists(filepath.Join(e.p.Env.Home, file)) {
			profile = "~/" + file
		}
	}
	if e.other != nil {
		if path, err := e.other.program(ctx, name); err == nil && filepath.IsAbs(path) {
			return fmt.Sprintf("put it into %s: export PATH=%s:$PATH", profile, filepath.Dir(path))
		}
	}
	return fmt.Sprintf("install it where bash -lc finds it, or add its folder to PATH in %s", profile)
}

// hideKey replaces the tracker's key in a text.
func (e *environment) hideKey(text string) string {
	names := []string{workflow.APIKeyVar}
	var keys []string
	if e.config != nil {
		keys = append(keys, e.config.Tracker.APIKey.Reveal())
		names = append(names, e.config.SecretVars...)
	}
	for _, name := range names {
		value, _ := e.p.Lookup(name)
		keys = append(keys, value)
	}
	for _, key := range keys {
		if len(key) >= 8 { // a shorter word is no key
			text = strings.ReplaceAll(text, key, "[key]")
		}
	}
	return text
}
