package main

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/state"
	"github.com/urfave/cli/v2"
)

// project is one WORKFLOW.md and its state directory.
type project struct {
	w *term.Env
	// path is resolved through symlinks where the file exists; source is what it held when it was read.
	path      string
	source    workflow.Source
	sourceErr error
	stateDir  string
	// envFile is the environment file; where it can't be used, envErr says why, and that is a mistake of the
	// configuration: what runs is still reconciled.
	envFile map[string]string
	envErr  error
}

// openProject finds the workflow (specification 5.1) and the state directory that belongs to it, and reads
// the environment file. A workflow that can't be read is no error yet: much works without it.
func openProject(w *term.Env, c *cli.Context, positional string) (*project, error) {
	if c.IsSet("workflow") && positional != "" {
		return nil, usageError("%s: the workflow is named twice, by -w and as %q", c.Command.Name, positional)
	}
	path := cmp.Or(c.String("workflow"), positional, w.Getenv("SYMPHONY_WORKFLOW"), "WORKFLOW.md")
	if info, err := os.Stat(w.Absolute(path)); err == nil && info.IsDir() {
		return nil, usageError("%s is a directory; name the workflow file in it", path)
	}
	return newProject(w, path, cmp.Or(c.String("state-dir"), w.Getenv("SYMPHONY_STATE_DIR"))), nil
}

func newProject(w *term.Env, path, stateDir string) *project {
	p := &project{w: w, path: w.Absolute(path)}
	p.source, p.sourceErr = workflow.Read(p.path)
	if p.source.Path != "" {
		p.path = p.source.Path
	}
	if stateDir == "" {
		stateDir = state.DefaultDir(w.Getenv("XDG_STATE_HOME"), w.Home, p.path)
	}
	p.stateDir = w.Absolute(stateDir)
	p.envFile, p.envErr = workflow.ReadEnvFile(p.envPath(), os.Getuid())
	return p
}

// envPath is the environment file of the project, read by every pass so that cron, systemd and a person
// see the same variables.
func (p *project) envPath() string {
	return workflow.EnvFilePath(p.w.Getenv("XDG_CONFIG_HOME"), p.w.Home, filepath.Base(p.stateDir))
}

// lookup reads a variable: one that is set wins over the file's.
func (p *project) lookup(name string) (string, bool) {
	if v, ok := p.w.Lookup(name); ok {
		return v, true
	}
	v, ok := p.envFile[name]
	return v, ok
}

// fromFileVar tells a worker which of its variables the environment file gave: the pass that it starts at its end
// reads the file anew, and what is set wins there.
const fromFileVar = "SYMPHONY_ENV_FILE_VARS"

// workerEnviron is the environment that workers are started with.
func (p *project) workerEnviron() []string {
	var names []string
	for name := range p.envFile {
		if _, set := p.w.Lookup(name); !set {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return p.environ()
	}
	slices.Sort(names)
	return append(p.environ(), fromFileVar+"="+strings.Join(names, ","))
}

// ownPassEnviron is the environment of a pass that this worker starts: that of the pass which started it.
func ownPassEnviron(w *term.Env) []string {
	return proc.Scrub(w.Environ, append(strings.Split(w.Getenv(fromFileVar), ","), fromFileVar)...)
}

// environ is what hooks and agents are given: the pass's and the file's. Each variable is there once, with the value
// that lookup gives: of two a program of Go would take the first.
func (p *project) environ() []string {
	env := make([]string, 0, len(p.w.Environ)+len(p.envFile))
	seen := map[string]bool{fromFileVar: true}
	for _, entry := range slices.Backward(p.w.Environ) {
		if name, _, _ := strings.Cut(entry, "="); !seen[name] {
			seen[name] = true
			env = append(env, entry)
		}
	}
	slices.Reverse(env)
	for name, value := range p.envFile {
		if !seen[name] {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func (p *project) environment(extra map[string]string) workflow.Environment {
	return workflow.Environment{
		Home: p.w.Home, Temp: cmp.Or(p.w.Getenv("TMPDIR"), "/tmp"), EnvFile: p.envPath(),
		Lookup: func(name string) (string, bool) {
			if v, ok := extra[name]; ok {
				return v, true
			}
			return p.lookup(name)
		},
	}
}

// config gives the workflow its meaning.
func (p *project) config() (*workflow.Config, error) {
	switch {
	case p.sourceErr != nil:
		return nil, p.sourceErr
	case p.envErr != nil:
		return nil, p.envErr
	}
	cfg, err := workflow.Parse(p.source, p.environment(nil))
	if err == nil {
		return cfg, nil
	}
	for _, e := range workflow.Faults(err) {
		if e.Hint == "" {
			e.Hint = "correct it there; symphony check tells whether the file is right"
		}
	}
	return nil, err
}

// nested refuses a pass that an agent or a hook of ours would run.
func (p *project) nested() error {
	if id := p.w.Getenv("SYMPHONY_RUN_ID"); id != "" {
		return &reconcile.Error{
			Code: "nested_workflow", Message: "this is inside run " + id,
			Hint: "run symphony from a shell of your own; an agent must not start agents",
		}
	}
	for dir := filepath.Dir(p.path); ; dir = filepath.Dir(dir) {
		parent := filepath.Dir(dir)
		if info, err := os.Stat(filepath.Join(parent, ".symphony", filepath.Base(dir)+".json")); err == nil && info.Mode().IsRegular() {
			return &reconcile.Error{
				Code: "nested_workflow", Message: p.path + " lies in the workspace " + dir,
				Hint: "run symphony on the repository's own checkout, not on an agent's copy",
			}
		}
		if parent == dir {
			return nil
		}
	}
}
