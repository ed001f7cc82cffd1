package agents_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/internal/test"
)

// A directory that is mounted under a second name is the same directory: what is guarded there
// stays guarded, and no second agent works in it.
func TestSecondNames(t *testing.T) {
	if !test.OwnMounts(t) {
		return
	}
	r := newRig(t)
	r.project("one", "app/WORKFLOW.md")
	app := filepath.Join(r.dir, "app")
	base := filepath.Dir(r.dir)
	test.OK(t, os.MkdirAll(filepath.Join(r.dir, "src", "lib"), 0o700))
	workspace := filepath.Join(base, "root", "ABC-1")
	test.OK(t, os.MkdirAll(filepath.Join(workspace, "sub"), 0o700))
	test.OK(t, os.Mkdir(filepath.Join(base, "root", ".symphony"), 0o700))
	test.OK(t, os.WriteFile(filepath.Join(base, "root", ".symphony", "ABC-1.json"), []byte("{}"), 0o600))
	for name, from := range map[string]string{
		"issues":          filepath.Join(app, "issues"),
		"app":             app,
		"home":            r.env.Home,
		"sub":             filepath.Join(workspace, "sub"),
		"src":             filepath.Join(r.dir, "src"),
		"lib":             filepath.Join(r.dir, "src", "lib"),
		"around/app/deep": filepath.Join(r.dir, "src"),
	} {
		test.Bind(t, from, filepath.Join(base, "second", name))
	}
	second := filepath.Join(base, "second")
	one := agents.Settings{
		ID:      "one",
		Cwd:     filepath.Join(r.dir, "src"),
		Program: test.Must(os.Executable()),
	}
	test.Must(r.Spawn(t.Context(), one))
	for _, c := range []struct{ cwd, code, text string }{
		// its parent directory is another
		{"issues", agents.CodeInvalid, "is in " + app + ", where passes of a project run programs"},
		{"app/ws", agents.CodeInvalid, "is in " + app + ", where passes of a project run programs"},
		{"home", agents.CodeInvalid, "which is not its own"},
		{"sub", agents.CodeInvalid, "is in the workspace of an issue"},
		{"src", agents.CodeConflict, "agent one works in " + one.Cwd},
		{"lib", agents.CodeConflict, "agent one works in " + one.Cwd},
		{"around", agents.CodeConflict, "agent one works in " + one.Cwd},
	} {
		r.refuses(c.code, c.text)(r.Spawn(t.Context(), agents.Settings{
			ID:  "two",
			Cwd: filepath.Join(second, c.cwd),
		}))
	}
}
