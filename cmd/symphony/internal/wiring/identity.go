package wiring

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// Project is a WORKFLOW.md and its state directory.
type Project struct {
	Env       *environ.Env
	Path      string // resolved through symlinks where the file exists
	Named     string // the path by which the caller names it, absolute
	Source    workflow.Source
	SourceErr error
	StateDir  string
	// SharedEnv contains the variables of the environment file for all projects, OwnEnv the
	// variables of the project's own file, and EnvFile both.
	SharedEnv map[string]string
	OwnEnv    map[string]string
	EnvFile   map[string]string
	// EnvErr, a configuration error, is the reason why an environment file can't be used.
	EnvErr error

	read   string           // the stamp of the files that NewProject read
	gh     *sync.Map        // the tokens of gh, by API; nil if it is not asked
	nested *reconcile.Error // the workflow lies where agents write; nil if it does not
}

// NewProject reads the workflow and the environment files. An empty stateDir stands for the
// default directory. A workflow that an agent could have written is not used: SourceErr is
// then the error of Foreign.
func NewProject(w *environ.Env, path, stateDir string) *Project {
	named := w.Absolute(path)
	p := &Project{Env: w, Path: named, Named: named, gh: &sync.Map{}}
	before := Stamp(p.Path)
	p.Source, p.SourceErr = workflow.Read(p.Path)
	p.SourceErr = nameLease(p.SourceErr, p.Path)
	if p.Source.Path != "" {
		p.Path = p.Source.Path
	}
	if stateDir == "" {
		stateDir = usualStateDir(w, p.Path)
	}
	p.StateDir = w.Absolute(stateDir)
	p.refuseAgents()
	p.hintGone()
	p.read = before + p.stampOfEnvironment()
	p.ReadEnvFiles(os.Getuid())
	return p
}

// usualStateDir returns the state directory of a workflow if none is named.
func usualStateDir(w *environ.Env, path string) string {
	return w.Absolute(state.DefaultDir(w.Getenv("XDG_STATE_HOME"), w.Home, path))
}

// Name is the name of the folder of WORKFLOW.md.
func (p *Project) Name() string { return filepath.Base(filepath.Dir(p.Path)) }

// HasState reports whether a pass ever ran here.
func (p *Project) HasState() bool { return IsState(p.StateDir) }

// IsState reports whether a directory is the state directory of a project or of agents.
func IsState(dir string) bool { return Exists(filepath.Join(dir, "state.db")) }

// Stamp identifies the present versions of WORKFLOW.md and the environment files.
func (p *Project) Stamp() string { return Stamp(p.Path) + p.stampOfEnvironment() }

func (p *Project) stampOfEnvironment() string {
	return " " + Stamp(p.SharedEnvPath()) + " " + Stamp(p.EnvPath())
}

// Changed reports whether these files changed since NewProject read them.
func (p *Project) Changed() bool { return p.Stamp() != p.read }

// Stamp identifies a version of a file; empty if there is none.
func Stamp(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.Size(), info.ModTime().UnixNano(), info.Mode(), statOf(info).Ino)
}

func statOf(info fs.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }

// FindWorkflow returns the path of the WORKFLOW.md in the working directory, or else in the
// nearest directory above, up to the home directory or the root of the mounted file system;
// empty if there is none. Above the working directory only a file of this account counts,
// because the hooks of a workflow run as the operator.
func FindWorkflow(w *environ.Env) string {
	for dir := w.Dir; ; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "WORKFLOW.md")
		info, err := os.Lstat(path)
		if err == nil && (dir == w.Dir || int(statOf(info).Uid) == os.Getuid()) {
			return path
		}
		if dir == w.Home || endsFileSystem(dir) {
			return ""
		}
	}
}

// endsFileSystem reports whether the directory above is on another file system or does not
// exist. It is also true if an examination of the two fails.
func endsFileSystem(dir string) bool {
	here, err := os.Stat(dir)
	if err != nil {
		return true
	}
	above, err := os.Stat(filepath.Dir(dir))
	if err != nil {
		return true
	}
	return os.SameFile(here, above) || statOf(here).Dev != statOf(above).Dev
}
