package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// The places that doctor looks from.
const (
	asCalled   = "called"
	asSchedule = "schedule"
)

// place is the project in one environment.
type place struct {
	as string
	d  *doctor
	p  *project.Project
	// cfg is the workflow as it is read here, be there a key or not; nil where it can't be, and cfgErr says why.
	cfg    *workflow.Config
	cfgErr error

	// agent is a codex as a worker of this place would start it; all questions to it are put to the same one.
	agent func() (*runner.Inspection, error)
	// tracker is asked once for all checks that are about it.
	tracker func() *trackerAnswer
	asked   sync.Mutex
	found   *runner.Inspection
}

func newPlace(d *doctor, as string, p *project.Project) *place {
	at := &place{as: as, d: d, p: p, cfgErr: p.SourceErr}
	if at.cfgErr == nil {
		env := p.Environment(nil)
		env.KeyOptional = true
		if at.cfg, at.cfgErr = workflow.Parse(p.Source, env); at.cfgErr != nil {
			at.cfg = nil
		}
	}
	return at
}

// launchPatience is for a codex that starts on a fresh home beside much else.
const launchPatience = 40 * time.Second

// startAgent starts them one after the other: on a fresh home codex is in its own way.
func (at *place) startAgent(ctx context.Context) (*runner.Inspection, error) {
	if at.as == asSchedule && at.d.called.cfg != nil {
		at.d.called.agent() //nolint:errcheck // its own checks tell
	}
	if err := at.homeless(); err != nil {
		return nil, err
	}
	at.asked.Lock()
	defer at.asked.Unlock()
	ctx, cancel := context.WithTimeout(ctx, launchPatience)
	defer cancel()
	i, err := project.RunnerConfig(at.cfg).Inspect(ctx, at.p.Environ(), at.folder(), project.Version())
	if err == nil {
		at.found = i
	}
	return i, err
}

// folder is where a workspace is made for the trial: in the root, where codex works later, or in a temporary folder.
func (at *place) folder() string {
	root := project.Resolve(at.cfg.Workspace.Root)
	if project.RootFits(at.p, at.cfg, true) == nil && project.Exists(root) {
		return root
	}
	return os.TempDir()
}

// close ends the agent of the place.
func (at *place) close() error {
	at.asked.Lock()
	defer at.asked.Unlock()
	if at.found == nil {
		return nil
	}
	return at.found.Close()
}

// answerMark begins the line of a shell's answer: a login profile may print whatever it likes.
const answerMark = "symphony-doctor:"

// shell runs a script as hooks and agent are run and gives the one line that it prints; empty where it fails. Once it is
// printed, whatever the profile has left in the background ends with the shell.
func (at *place) shell(ctx context.Context, script string) (string, error) {
	script = proc.ShellUnset(at.cfg.SecretVars(), "printf '\\n%s%s\\n' "+answerMark+` "$(`+script+` 2>/dev/null)"; kill -KILL 0`)
	cmd := exec.CommandContext(ctx, "bash", "-lc", script)
	cmd.Env, cmd.Dir = project.RunnerConfig(at.cfg).Environ(at.p.Environ()), "/"
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
	return "", errors.Join(fmt.Errorf("bash -lc says nothing: look at the login profile of %s", at.p.Env.Home), err)
}

// program finds a program as hooks and agent would; empty if they would not.
func (at *place) program(ctx context.Context, name string) (string, error) {
	return at.shell(ctx, "command -v -- "+name)
}

// profile is the file that bash -l reads here.
func (at *place) profile() string {
	for _, name := range []string{".bash_profile", ".bash_login"} {
		if project.Exists(filepath.Join(at.p.Env.Home, name)) {
			return "~/" + name
		}
	}
	return "~/.profile"
}

// clean takes the tracker's key out of what is said, wherever it came from.
func (d *doctor) clean(text string) string {
	for _, at := range []*place{d.called, d.schedule} {
		names := []string{workflow.APIKeyVar}
		if at.cfg != nil {
			text = hideKey(text, at.cfg.Tracker.APIKey.Reveal())
			names = append(names, at.cfg.SecretVars()...)
		}
		for _, name := range names {
			value, _ := at.p.Lookup(name)
			text = hideKey(text, value)
		}
	}
	return text
}

// hideKey leaves words that are too short for a key alone.
func hideKey(text, key string) string {
	if len(key) < 8 {
		return text
	}
	return strings.ReplaceAll(text, key, "[key]")
}
