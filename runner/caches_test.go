package runner

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/symphony-cron/symphony/runner/host"
)

// TestBuildEnv: caches are moved where the agent could not write them, and only there.
func TestBuildEnv(t *testing.T) {
	home := t.TempDir()
	const npm, mod, stamp = "npm_config_cache=/c/npm", "GOMODCACHE=/c/go-mod", "GOFLAGS=-buildvcs=false"
	for _, c := range []struct {
		name   string
		config Config
		env    []string
		git    bool // the workspace is a repository
		want   []string
	}{
		{name: "no network", git: true, want: []string{npm}},
		{name: "network", config: Config{Network: true}, git: true, want: []string{npm, mod}},
		{name: "no repository", want: []string{npm, stamp}},
		{name: "set by the operator", config: Config{Network: true}, env: []string{"NPM_CONFIG_CACHE=/n", "GOMODCACHE=/m", "GOFLAGS=-mod=mod"}},
		{name: "set to nothing", env: []string{"npm_config_cache=", "GOFLAGS="}, want: []string{npm, stamp}},
		{name: "the workflow's own policy", config: Config{TurnSandboxPolicy: []byte(`{"type":"workspaceWrite","networkAccess":true}`)}, git: true, want: []string{npm, mod}},
		{name: "a policy without network", config: Config{Network: true, TurnSandboxPolicy: []byte(`{"type":"workspaceWrite"}`)}, git: true, want: []string{npm}},
		{name: "no sandbox", config: Config{Network: true, TurnSandboxPolicy: []byte(`{"type":"dangerFullAccess"}`)}},
		{name: "a sandbox outside", config: Config{TurnSandboxPolicy: []byte(`{"type":"externalSandbox","networkAccess":"enabled"}`)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &host.Workspace{Path: t.TempDir(), CacheDir: "/c"}
			if c.git {
				must(t, os.Mkdir(filepath.Join(w.Path, ".git"), 0o700))
			}
			if got := c.config.buildEnv(append([]string{"HOME=" + home}, c.env...), w); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}
