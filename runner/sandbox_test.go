package runner

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// repository is a host whose workspaces have this repository.
type repository struct {
	host.Host
	host.FactsAnswer
}

func (r repository) Facts(context.Context, host.FactsRequest) (host.FactsAnswer, error) {
	return r.FactsAnswer, nil
}

var (
	testSpace = host.Workspace{Path: "/ws/ABC-1", TmpDir: "/work/tmp", CacheDir: "/work/cache"}
	testRepo  = repository{FactsAnswer: host.FactsAnswer{GitWritable: []string{"/ws/ABC-1/.git"}, RepoRoot: "/main"}}
)

// What git commit writes is opened to the agent, unless the workflow's own policy names roots. All else of that goes to codex
// as it is, for codex to judge.
func TestSandboxPolicy(t *testing.T) {
	const rest = `"excludeTmpdirEnvVar":true,"excludeSlashTmp":true}`
	own := func(policy string) Config {
		return Config{TurnSandboxPolicy: json.RawMessage(policy), WritableRoots: []string{"/srv"}}
	}
	for _, c := range []struct {
		config Config
		want   string // empty: as it is
	}{
		{Config{}, `{"type":"workspaceWrite","networkAccess":false,"writableRoots":["/work/tmp","/work/cache","/ws/ABC-1/.git"],` + rest},
		{
			Config{Network: true, WritableRoots: []string{"/srv"}},
			`{"type":"workspaceWrite","networkAccess":true,"writableRoots":["/work/tmp","/work/cache","/ws/ABC-1/.git","/srv"],` + rest,
		},
		{
			own(`{"type":"workspaceWrite","networkAccess":true}`),
			`{"type":"workspaceWrite","networkAccess":true,"writableRoots":["/work/tmp","/work/cache","/ws/ABC-1/.git","/srv"]}`,
		},
		{own(`{"type":"workspaceWrite","writableRoots":[]}`), ""},
		{own(`{"type":"readOnly"}`), ""},
		{own(`{"type":"externalSandbox","networkAccess":"enabled"}`), ""},
		{own(`{"type":"somethingNew","depth":3}`), ""},
		{own(`"workspace-write"`), ""},
	} {
		raw, err := c.config.sandboxPolicy(t.Context(), testRepo, testSpace)
		must(t, err)
		if c.want == "" {
			c.want = string(c.config.TurnSandboxPolicy)
		}
		var got, want any
		must(t, json.Unmarshal(raw, &got))
		must(t, json.Unmarshal([]byte(c.want), &want))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %s\nwant %s", raw, c.want)
		}
	}
}

// A workspace and its repository are marked untrusted, unless the workflow trusts it and sandboxes the thread.
func TestThreadConfig(t *testing.T) {
	word := json.RawMessage(`"workspace-write"`)
	for _, c := range []struct {
		config  Config
		trusted bool
	}{
		{Config{}, false},
		{Config{OnQuestion: agent.QuestionAsk}, false},
		{Config{TrustRepository: true}, false},
		{Config{ThreadSandbox: word}, false},
		{Config{ThreadSandbox: word, TrustRepository: true}, true},
	} {
		got, err := c.config.threadConfig(t.Context(), testRepo, "run-7", testSpace, nil)
		must(t, err)
		want := map[string]any{
			"features.goals": false, "features.unbounded_connection_retries": false, "allow_login_shell": false, "features.shell_snapshot": false,
			"shell_environment_policy": map[string]any{"ignore_default_excludes": false, "set": map[string]any{"SYMPHONY_RUN_ID": "run-7"}},
		}
		if c.config.OnQuestion == agent.QuestionAsk {
			want["features.default_mode_request_user_input"] = true
		}
		if untrusted := map[string]any{"trust_level": "untrusted"}; !c.trusted {
			want["projects"] = map[string]any{testSpace.Path: untrusted, "/main": untrusted}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: got %v, want %v", c.config, got, want)
		}
	}
}

// Hooks and agents get no secret under any name, and each variable once: a program that is started directly sees the first
// of two.
func TestRunEnvironment(t *testing.T) {
	r := newRig(t, "")
	r.Config.CodexHome = "/codex"
	r.Env = append(r.Env, "TOKEN_OF_LINEAR=Bearer "+testKey, "TMPDIR=/var/tmp", "XDG_CACHE_HOME=/elsewhere/.cache", "CODEX_HOME=/elsewhere",
		"SYMPHONY_RUN_ID=another", "SYMPHONY_ISSUE_ID=another", "CODEX_THREAD_ID=another", "KEPT=yes")
	env := (&job{Worker: r.Worker, run: r.run, space: &host.Workspace{TmpDir: "/t", CacheDir: "/c"}}).env()
	seen := map[string]bool{}
	for _, entry := range env {
		name := nameOf(entry)
		if seen[name] || strings.Contains(entry, testKey) || strings.HasSuffix(entry, "=another") {
			t.Errorf("%q has %s", env, entry)
		}
		seen[name] = true
	}
	for _, want := range []string{"TMPDIR=/t", "XDG_CACHE_HOME=/c", "CODEX_HOME=/codex", "SYMPHONY_RUN_ID=" + r.run.ID, "KEPT=yes"} {
		if !slices.Contains(env, want) {
			t.Errorf("%q lacks %s", env, want)
		}
	}
}

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
