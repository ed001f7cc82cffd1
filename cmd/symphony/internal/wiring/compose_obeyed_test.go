package wiring

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/test"
)

// WORKFLOW.md counts, and the programs and scripts that it names, with all links on the way to
// them. Of the links to WORKFLOW.md itself a delivery knows (TestObeyed).
func TestObeyedInRepository(t *testing.T) {
	home := test.Must(filepath.EvalSymlinks(t.TempDir()))
	top := filepath.Join(home, "shop")
	for _, dir := range []string{".git", "shared/conf", "bin", "ws"} {
		test.OK(t, os.MkdirAll(filepath.Join(top, dir), 0o700))
	}
	test.Write(t, filepath.Join(top, ".git", "HEAD"), "ref: refs/heads/main\n")
	for name, target := range map[string]string{
		"shop/ops":              "shared/conf",
		"shop/shared/conf/shop": "../../base.md",
		"WORKFLOW.md":           "shop/ops/shop",
		"shop/bin/tracker":      "real-tracker",
	} {
		test.OK(t, os.Symlink(target, filepath.Join(home, name)))
	}
	test.Write(t, filepath.Join(top, "base.md"), `---
tracker: {kind: command, provider: {command: [`+top+`/bin/tracker, --all]}}
workspace: {root: `+top+`/ws}
hooks: {before_run: 'sh `+top+`/bin/prepare $HOME/none'}
---
Go.
`)
	test.Write(t, filepath.Join(top, "bin", "prepare"), "")
	for path, want := range map[string][]string{
		"WORKFLOW.md":  {"base.md"}, // which NewProject has found by the links
		"shop/base.md": {"base.md"},
	} {
		path = filepath.Join(home, path)
		p := NewProject(&environ.Env{Dir: home, Home: home, Environ: []string{"PATH=/bin:/usr/bin"}}, path, home)
		cfg := test.Must(p.ConfigWithoutKey())
		want = append(want, "bin/tracker", "bin/real-tracker", "bin/prepare")
		test.Equal(t, "obeyed with "+path, obeyedInRepository(p, cfg), want)
	}
}
