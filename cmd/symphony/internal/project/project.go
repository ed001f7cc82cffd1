package project

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/state"
)

// project is one WORKFLOW.md and its state directory.
type Project struct {
	Env *term.Env
	// path is resolved through symlinks where the file exists; source is what it held when it was read.
	Path      string
	Source    workflow.Source
	SourceErr error
	StateDir  string
	// envFile is the environment file; where it can't be used, envErr says why, and that is a mistake of the
	// configuration: what runs is still reconciled.
	EnvFile map[string]string
	EnvErr  error
}

func New(w *term.Env, path, stateDir string) *Project {
	p := &Project{Env: w, Path: w.Absolute(path)}
	p.Source, p.SourceErr = workflow.Read(p.Path)
	if p.Source.Path != "" {
		p.Path = p.Source.Path
	}
	if stateDir == "" {
		stateDir = state.DefaultDir(w.Getenv("XDG_STATE_HOME"), w.Home, p.Path)
	}
	p.StateDir = w.Absolute(stateDir)
	p.EnvFile, p.EnvErr = workflow.ReadEnvFile(p.EnvPath(), os.Getuid())
	return p
}

// envPath is the environment file of the project, read by every pass so that cron, systemd and a person
// see the same variables.
func (p *Project) EnvPath() string {
	return workflow.EnvFilePath(p.Env.Getenv("XDG_CONFIG_HOME"), p.Env.Home, filepath.Base(p.StateDir))
}

// lookup reads a variable: one that is set wins over the file's.
func (p *Project) Lookup(name string) (string, bool) {
	if v, ok := p.Env.Lookup(name); ok {
		return v, true
	}
	v, ok := p.EnvFile[name]
	return v, ok
}

// FromFileVar tells a worker which of its variables the environment file gave: the pass that it starts at its end
// reads the file anew, and what is set wins there.
const FromFileVar = "SYMPHONY_ENV_FILE_VARS"

// workerEnviron is the environment that workers are started with.
func (p *Project) WorkerEnviron() []string {
	var names []string
	for name := range p.EnvFile {
		if _, set := p.Env.Lookup(name); !set {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return p.Environ()
	}
	slices.Sort(names)
	return append(p.Environ(), FromFileVar+"="+strings.Join(names, ","))
}

// ownPassEnviron is the environment of a pass that this worker starts: that of the pass which started it.
func OwnPassEnviron(w *term.Env) []string {
	return proc.Scrub(w.Environ, append(strings.Split(w.Getenv(FromFileVar), ","), FromFileVar)...)
}

// environ is what hooks and agents are given: the pass's and the file's. Each variable is there once, with the value
// that lookup gives: of two a program of Go would take the first.
func (p *Project) Environ() []string {
	env := make([]string, 0, len(p.Env.Environ)+len(p.EnvFile))
	seen := map[string]bool{FromFileVar: true}
	for _, entry := range slices.Backward(p.Env.Environ) {
		if name, _, _ := strings.Cut(entry, "="); !seen[name] {
			seen[name] = true
			env = append(env, entry)
		}
	}
	slices.Reverse(env)
	for name, value := range p.EnvFile {
		if !seen[name] {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func (p *Project) Environment(extra map[string]string) workflow.Environment {
	return workflow.Environment{
		Home: p.Env.Home, Temp: cmp.Or(p.Env.Getenv("TMPDIR"), "/tmp"), EnvFile: p.EnvPath(),
		Lookup: func(name string) (string, bool) {
			if v, ok := extra[name]; ok {
				return v, true
			}
			return p.Lookup(name)
		},
	}
}

// config gives the workflow its meaning.
func (p *Project) Config() (*workflow.Config, error) {
	switch {
	case p.SourceErr != nil:
		return nil, p.SourceErr
	case p.EnvErr != nil:
		return nil, p.EnvErr
	}
	cfg, err := workflow.Parse(p.Source, p.Environment(nil))
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
func (p *Project) Nested() error {
	if id := p.Env.Getenv("SYMPHONY_RUN_ID"); id != "" {
		return &reconcile.Error{
			Code: "nested_workflow", Message: "this is inside run " + id,
			Hint: "run symphony from a shell of your own; an agent must not start agents",
		}
	}
	for dir := filepath.Dir(p.Path); ; dir = filepath.Dir(dir) {
		parent := filepath.Dir(dir)
		if info, err := os.Stat(filepath.Join(parent, ".symphony", filepath.Base(dir)+".json")); err == nil && info.Mode().IsRegular() {
			return &reconcile.Error{
				Code: "nested_workflow", Message: p.Path + " lies in the workspace " + dir,
				Hint: "run symphony on the repository's own checkout, not on an agent's copy",
			}
		}
		if parent == dir {
			return nil
		}
	}
}

// HasState reports whether a pass has ever run here.
func (p *Project) HasState() bool {
	_, err := os.Stat(filepath.Join(p.StateDir, "state.db"))
	return err == nil
}
