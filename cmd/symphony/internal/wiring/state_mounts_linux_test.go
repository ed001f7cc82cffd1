package wiring

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/state"
)

// What agents must not read is hidden under every name that it has.
func TestSecretsUnderOtherNames(t *testing.T) {
	if !test.OwnMounts(t) {
		return
	}
	base := test.Must(filepath.EvalSymlinks(t.TempDir()))
	home := filepath.Join(base, "home")
	test.Write(t, filepath.Join(home, ".config", "symphony", "symphony.env"), "")
	test.Write(t, filepath.Join(home, "codex", "auth.json"), "{}")
	test.Bind(t, home, filepath.Join(base, "second"))
	w := &environ.Env{Home: home, Dir: base, Now: time.Now}
	p := NewProject(w, filepath.Join(base, "WORKFLOW.md"), "")
	secrets := SecretFiles(p, state.NewAccount("", home, filepath.Join(home, "codex")), false)
	for _, name := range []string{".config/symphony", "codex"} {
		for _, top := range []string{"home", "second"} {
			path := filepath.Join(base, top, name)
			test.Equal(t, path+" is hidden", slices.Contains(secrets, path), true)
		}
	}
}
