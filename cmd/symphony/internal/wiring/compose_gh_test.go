package wiring

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// gh prints its token for one host, and counts its calls. What it starts for the keyring holds its
// output open when it has ended.
const fakeGh = `
echo "$*" >> calls
[ "$GITHUB_TOKEN$GH_TOKEN" ] && exit 1
sleep 3 &
[ "$*" = "auth token --hostname github.com" ] && echo gho_0123456789
`

// The token of gh is used if no variable has one, once a process, and not by commands that
// need no key.
func TestTokenOfGh(t *testing.T) {
	dir := t.TempDir()
	test.OK(t, os.WriteFile(filepath.Join(dir, "gh"), []byte("#!/bin/sh\ncd '"+dir+"'\n"+fakeGh), 0o700))
	calls := func() string { data, _ := os.ReadFile(filepath.Join(dir, "calls")); return string(data) }
	load := func(api string, vars ...string) (*Project, *workflow.Config) {
		t.Helper()
		path := filepath.Join(dir, "WORKFLOW.md")
		test.OK(
			t,
			os.WriteFile(
				path,
				[]byte("---\ntracker: {kind: github, provider: {repo: acme/shop"+api+"}}\n---\nGo.\n"),
				0o600,
			),
		)
		p := NewProject(&environ.Env{
			Dir:     dir,
			Home:    dir,
			Environ: append(vars, "PATH="+dir+":/bin:/usr/bin"),
		}, path, dir)
		cfg, err := p.ConfigWithoutKey()
		if err != nil || cfg.KeyFromGh || cfg.Tracker.APIKey != "" && len(vars) == 0 {
			t.Errorf("without a key: %v", err)
		}
		cfg, err = p.Config()
		if err != nil {
			cfg = nil
		}
		return p, cfg
	}
	p, cfg := load("", "GH_TOKEN=ghp_0123456789")
	test.Equal(t, "the token of the variable", cfg.Tracker.APIKey.Reveal(), "ghp_0123456789")
	test.Equal(t, "its source", p.keySourceOf(cfg), "the variable GH_TOKEN")
	test.Equal(t, "what gh was asked", calls(), "")
	p, cfg = load("")
	test.Equal(t, "the token of gh", cfg.Tracker.APIKey.Reveal(), "gho_0123456789")
	test.Equal(t, "its source", p.keySourceOf(cfg), "gh auth token")
	test.Equal(t, "it is of gh", cfg.KeyFromGh, true)
	test.Must(p.Config())
	test.Equal(t, "what gh was asked", calls(), "auth token --hostname github.com\n")
	_, cfg = load(", endpoint: https://github.example.com/api/v3")
	test.Equal(t, "gh has no token for that host", cfg == nil, true)
	_, cfg = load(", api_key: $TEAM_TOKEN")
	test.Equal(t, "the file names a variable without a token", cfg == nil, true)
}

// If gh is ended before it answers, that is no answer that nobody is logged in.
func TestGhThatIsEnded(t *testing.T) {
	dir := t.TempDir()
	test.OK(t, os.WriteFile(filepath.Join(dir, "gh"), []byte("#!/bin/sh\nexec sleep 600\n"), 0o700))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := askGh(ctx, "https://api.github.com", []string{"PATH=" + dir + ":/bin:/usr/bin"})
	test.ErrorIs(t, "the error", err, context.Canceled)
}
