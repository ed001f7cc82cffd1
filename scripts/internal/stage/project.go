package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/symphony-cron/symphony/linear/lineartest"
)

// ReleaseTags are the build tags of a release.
const ReleaseTags = "symphony_release,urfave_cli_no_docs,nethttpomithttp2"

// Build makes a program in the way of a release, and copies it to where it is called. What the linker has written lies in
// memory otherwise than a file that was installed or read from the disk, and starts otherwise.
func Build(ctx context.Context, tags, out, pkg string) error {
	built := out + ".built"
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", tags, "-ldflags", "-s -w", "-o", built, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, text)
	}
	return errors.Join(Install(built, out), os.Remove(built))
}

// Install copies a program.
func Install(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// TempDir makes the folder of a script, by the path that /proc shows.
func TempDir(script string) (string, error) {
	dir, err := os.MkdirTemp("", "symphony-"+script+"-")
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// Project is one workflow with its state and an empty home, in a folder of its own.
type Project struct {
	Dir, StateDir, Workflow string
	Home, AgentHome, Tmp    string
	// Env is nothing of the caller's surroundings but its PATH: a login profile that takes a second is not ours.
	Env []string
}

// NewProject makes the folders below dir, which exists.
func NewProject(dir string) (Project, error) {
	p := Project{
		Dir: dir, StateDir: filepath.Join(dir, "state"), Workflow: filepath.Join(dir, "WORKFLOW.md"),
		Home: filepath.Join(dir, "home"), AgentHome: filepath.Join(dir, "agent-home"), Tmp: filepath.Join(dir, "tmp"),
	}
	p.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + p.Home, "TMPDIR=" + p.Tmp, "LINEAR_API_KEY=" + lineartest.DefaultKey,
	}
	for _, dir := range []string{p.Home, p.AgentHome, p.Tmp} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return p, err
		}
	}
	return p, nil
}

// WriteWorkflow fills the text in and writes it.
func (p Project) WriteWorkflow(text string, args ...any) error {
	return os.WriteFile(p.Workflow, fmt.Appendf(nil, text, args...), 0o600)
}
