package wiring

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/state"
)

// A workflow in a directory of a workspace root that no run has used is obeyed only if a pass
// has run for it. A state directory with the name that it would have is no such pass.
func TestWorkflowInARoot(t *testing.T) {
	t.Parallel()
	home := test.Must(filepath.EvalSymlinks(t.TempDir()))
	w := &environ.Env{Home: home, Dir: home, Now: time.Now, Environ: []string{"HOME=" + home}}
	app := test.Must(state.Create(t.Context(), filepath.Join(StateHome(w), "app"), time.Now()))
	root := filepath.Join(home, "ws")
	test.OK(t, app.SetMeta(t.Context(), OwnerKey, filepath.Join(home, "app", "WORKFLOW.md")))
	test.OK(t, app.SetMeta(t.Context(), RootsKey, string(text.JSON([]string{root}))))
	test.OK(t, app.Close())
	test.Must(workspace.OpenRoot(root))
	path := filepath.Join(root, "free", "WORKFLOW.md")
	test.Write(t, path, "---\ntracker: {kind: file, provider: {path: issues}}\n---\nWork.\n")
	foreign := func(path string) bool { return NewProject(w, path, "").Foreign() != nil }
	test.Equal(t, "without a state", foreign(path), true)

	db := test.Must(state.Create(t.Context(), state.DefaultDir("", home, path), time.Now()))
	test.Equal(t, "with a state of its name", foreign(path), true)
	test.OK(t, db.SetMeta(t.Context(), OwnerKey, path))
	test.OK(t, db.Close())
	test.Equal(t, "with its own state", foreign(path), false)
	link := filepath.Join(home, "link")
	test.OK(t, os.Symlink(filepath.Dir(path), link))
	test.Equal(t, "through a link", foreign(filepath.Join(link, "WORKFLOW.md")), false)
}
