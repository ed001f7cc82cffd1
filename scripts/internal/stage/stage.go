// Package stage contains the common parts of the programs that measure: the program built as
// for a release, a project with an empty home, and the list of the project's processes.
package stage

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/symphony-cron/symphony/linear/lineartest"
)

// Project is a workflow with its state and an empty home in the same folder.
type Project struct {
	Dir, StateDir, Workflow string
	Home, AgentHome, Tmp    string
	// Env is the environment of its commands. Only PATH comes from the caller, so that no slow
	// login profile is measured.
	Env []string
}

// NewProject creates the folders of a project in the existing folder dir. Their paths are as
// /proc shows them.
func NewProject(dir string) (p Project, err error) {
	dir, err = filepath.EvalSymlinks(dir)
	if err != nil {
		return p, err
	}
	p = Project{
		Dir:       dir,
		StateDir:  filepath.Join(dir, "state"),
		Workflow:  filepath.Join(dir, "WORKFLOW.md"),
		Home:      filepath.Join(dir, "home"),
		AgentHome: filepath.Join(dir, "agent-home"),
		Tmp:       filepath.Join(dir, "tmp"),
	}
	for _, dir := range []string{p.Home, p.AgentHome, p.Tmp} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return p, err
		}
	}
	p.Env = []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + p.Home,
		"TMPDIR=" + p.Tmp,
		"LINEAR_API_KEY=" + lineartest.DefaultKey,
		"SYMPHONY_WORKFLOW=" + p.Workflow,
		"SYMPHONY_STATE_DIR=" + p.StateDir,
	}
	return p, nil
}

// Database is the path of the database with the project's state.
func (p Project) Database() string { return filepath.Join(p.StateDir, "state.db") }

// WriteWorkflow writes a WORKFLOW.md that begins with the tracker at an endpoint and continues
// with the formatted text.
func (p Project) WriteWorkflow(endpoint, text string, args ...any) error {
	const tracker = "---\ntracker:\n  kind: linear\n  endpoint: %s\n  api_key: $LINEAR_API_KEY\n  project_slug: demo\n"
	return os.WriteFile(p.Workflow, fmt.Appendf(fmt.Appendf(nil, tracker, endpoint), text, args...), 0o600)
}

// Build builds the program as for a release. The working directory must be the root of the
// repository.
func Build(ctx context.Context, out string) error {
	if text, err := exec.CommandContext(ctx, "scripts/build", out).CombinedOutput(); err != nil {
		return fmt.Errorf("scripts/build: %w\n%s", err, text)
	}
	return nil
}

// failure is an error that unwinds the stack up to the next Catch.
type failure struct{ error }

// Must panics with an error. A script handles all its own errors in the same way: clean up and
// report.
func Must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Get returns the value of a call that must not fail.
func Get[T any](value T, err error) T {
	Must(err)
	return value
}

// Catch returns the error with which f panicked by Must.
func Catch(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	f()
	return nil
}
