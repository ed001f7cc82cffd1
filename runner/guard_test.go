package runner

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// TestAgentWrites: what an agent can write outside of its workspace, for some policies.
func TestAgentWrites(t *testing.T) {
	const never, asks = `"never"`, `"on-request"`
	for _, c := range []struct {
		policy, approval string
		roots            []string
		want             bool
	}{
		{"", never, nil, false},
		{"", asks, nil, true},
		{"", never, []string{"/srv"}, true},
		{"", never, []string{"/srv/main/.git"}, true},
		{"", never, []string{"/srv/main/.git/hooks"}, true},
		{"", never, []string{"/srv/ma", "/srv/main/.github"}, false},
		{`{"type":"workspaceWrite"}`, never, []string{"/srv"}, true},
		{`{"type":"workspaceWrite","writableRoots":[]}`, never, []string{"/srv"}, false},
		{`{"type":"workspaceWrite","writableRoots":["/srv"]}`, never, nil, true},
		{`{"type":"readOnly"}`, never, nil, false},
		{`{"type":"dangerFullAccess"}`, never, nil, true},
		{`{"type":"externalSandbox"}`, never, nil, true},
		{`{"type":"unheardOf"}`, never, nil, true},
		{`"no object"`, never, nil, true},
	} {
		config := Config{ApprovalPolicy: json.RawMessage(c.approval), WritableRoots: c.roots}
		if c.policy != "" {
			config.TurnSandboxPolicy = json.RawMessage(c.policy)
		}
		anywhere, dirs := config.agentWrites()
		got := anywhere || slices.ContainsFunc(dirs, func(dir string) bool {
			return text.PathInside(dir, "/srv/main/.git") || text.PathInside("/srv/main/.git", dir)
		})
		if got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Hooks get the operator's git settings beside those of the guard. A git hook in the work tree does not run in them after an
// agent could write it.
func TestHooksInTheWorkTree(t *testing.T) {
	r := newRig(t, `sh printf '#!/bin/sh\ntouch ../ran\n' > .husky/pre-commit`)
	r.Env = append(r.Env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=alias.ours", "GIT_CONFIG_VALUE_0=!touch ../ours",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
	r.Config.Hooks.AfterCreate = `git init -q . && mkdir .husky && printf '#!/bin/sh\ntouch ../first\n' > .husky/pre-commit && chmod +x .husky/pre-commit && git config core.hooksPath .husky`
	r.Config.Hooks.BeforeRun = "git commit -q --allow-empty -m before"
	r.Config.Hooks.AfterRun = "git commit -q --allow-empty -m after; git ours"
	r.ends(reconcile.Succeeded, "")
	for name, want := range map[string]bool{"first": true, "ours": true, "ran": false} {
		if exists(filepath.Join(r.root, name)) != want {
			t.Errorf("%s is there: %v", name, !want)
		}
	}
	if !strings.Contains(r.log.String(), "core.hooksPath is .husky") {
		t.Error("the log does not say why")
	}
}
