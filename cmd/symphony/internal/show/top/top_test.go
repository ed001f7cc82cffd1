package top

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/state"
)

// A command about a project has no issue.
func TestCommandAboutAProject(t *testing.T) {
	dir := t.TempDir()
	stateDir := filepath.Join(dir, "state")
	path := filepath.Join(dir, "WORKFLOW.md")
	const workflow = "---\ntracker:\n  kind: file\n  provider: {path: .}\n---\nWork."
	test.OK(t, os.WriteFile(path, []byte(workflow), 0o600))
	test.OK(t, test.Must(state.Create(t.Context(), stateDir, time.Now())).Close())
	r := &runner{ctx: t.Context(), env: &term.Env{Env: environ.Env{
		Environ: []string{"TMPDIR=" + t.TempDir()},
		Dir:     dir,
		Home:    dir,
		Now:     time.Now,
	}}}
	lines, err := r.carryOut(t.Context(), command{verb: "pause", path: path, stateDir: stateDir})
	test.OK(t, err)
	test.Contains(t, "the lines", strings.Join(lines, "\n"), "paused: no new run starts until symphony resume")
}
