// Package stage sets up what scripts/bench and scripts/chaos have in common: the program built as it is released, a
// project with an empty home, and the list of the project's processes.
package stage

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/symphony-cron/symphony/linear/lineartest"
)

// Project is a workflow with its state and an empty home, in a folder of its own.
type Project struct {
	Dir, StateDir, Workflow string
	Home, AgentHome, Tmp    string
	// Env is the environment of its commands: of the caller's only PATH, because a slow login profile would be measured.
	Env []string
}

// NewProject creates the folders of a project in dir, which exists, by the path that /proc shows.
func NewProject(dir string) (p Project, err error) {
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return p, err
	}
	p = Project{
		Dir: dir, StateDir: filepath.Join(dir, "state"), Workflow: filepath.Join(dir, "WORKFLOW.md"),
		Home: filepath.Join(dir, "home"), AgentHome: filepath.Join(dir, "agent-home"), Tmp: filepath.Join(dir, "tmp"),
	}
	for _, dir := range []string{p.Home, p.AgentHome, p.Tmp} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return p, err
		}
	}
	p.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + p.Home, "TMPDIR=" + p.Tmp, "LINEAR_API_KEY=" + lineartest.DefaultKey,
		"SYMPHONY_WORKFLOW=" + p.Workflow, "SYMPHONY_STATE_DIR=" + p.StateDir,
	}
	return p, nil
}

// Database is the file that holds the project's state.
func (p Project) Database() string { return filepath.Join(p.StateDir, "state.db") }

// WriteWorkflow formats the text and writes WORKFLOW.md.
func (p Project) WriteWorkflow(text string, args ...any) error {
	return os.WriteFile(p.Workflow, fmt.Appendf(nil, text, args...), 0o600)
}

// Build writes the program to a file in the way of a release. The working directory is the root of the repository.
func Build(ctx context.Context, out string) error {
	if text, err := exec.CommandContext(ctx, "scripts/build", out).CombinedOutput(); err != nil {
		return fmt.Errorf("scripts/build: %w\n%s", err, text)
	}
	return nil
}

// failure is an error that ends all that a script does up to the next Catch.
type failure struct{ error }

// Must panics with an error. Scripts have one answer to errors of their own: clean up, and tell.
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
