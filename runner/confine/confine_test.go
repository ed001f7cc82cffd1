package confine

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

const testKey = "lin_api_0123456789secret"

func sorted(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }

func TestExcludedByName(t *testing.T) {
	for name, want := range map[string]struct{ excluded, own bool }{
		"PATH":                     {},
		"GIT_AUTHOR_NAME":          {},
		"PASSWORD":                 {},
		"SYMPHONY_RUN_ID":          {},
		"SYMPHONY_MAX_AGENTS":      {},
		"":                         {},
		"NPM_TOKEN":                {true, false},
		"npm_token":                {true, false},
		"Tokens":                   {true, false},
		"MONKEY":                   {true, false},
		"KEY":                      {true, false},
		"CLIENT_SECRETS":           {true, false},
		"OPENAI_API_KEY":           {true, false},
		"XSYMPHONY_KEY":            {true, false},
		"symphony_key":             {true, false},
		"SYMPHONY_WEB_TOKEN":       {true, true},
		"SYMPHONY_WEB_PASSWORD":    {false, true},
		"SYMPHONY_LITERAL_API_KEY": {true, true},
		"SYMPHONY_secret":          {true, true},
	} {
		test.Equal(
			t,
			name+": excluded and own",
			[]any{LooksSecret(name), ownSecret(name)},
			[]any{want.excluded, want.own},
		)
	}
}

func TestAgentEnviron(t *testing.T) {
	environ := []string{
		"HOME=/home/ann", "A_TOKEN=given-as-it-is", "C_SECRET=of-the-profile", "PLAIN=plain",
		"D_KEY=Bearer the-tracker's", "KEYS=of-the-profile-too", "EMPTY_KEY=", "PATH=/bin",
	}
	secrets := []string{"given-as-it-is", "of-the-profile", "Bearer the-tracker's"}
	for _, c := range []struct {
		names   []string
		passed  map[string]any
		secrets []string
	}{
		{nil, map[string]any{}, secrets},
		{
			[]string{"A_TOKEN", "KEYS", "PATH", "EMPTY_KEY", "D_KEY", "NOT_SET"},
			map[string]any{
				"A_TOKEN":   "given-as-it-is",
				"KEYS":      "of-the-profile-too",
				"PATH":      "/bin",
				"EMPTY_KEY": "",
			},
			append(secrets, "of-the-profile-too"),
		},
	} {
		config := Config{PassEnv: c.names, SecretValues: []string{"the-tracker's"}}
		maps.Copy(c.passed, ownVariables)
		test.Equal(t, "variables passed", config.commandVars("run-7", testSpace, false, environ), c.passed)
		test.Equal(t, "secrets", sorted(config.SecretsIn(environ)), sorted(c.secrets))
	}
}

// Caches are moved only if the agent can't write them.
func TestBuildEnv(t *testing.T) {
	const npm, mod = "npm_config_cache=/c/npm", "GOMODCACHE=/c/go-mod"
	for _, c := range []struct {
		name   string
		config Config
		env    []string
		want   []string
	}{
		{name: "no network", want: []string{npm}},
		{name: "network", config: Config{Network: true}, want: []string{npm, mod}},
		{
			name:   "set by the operator",
			config: Config{Network: true},
			env:    []string{"NPM_CONFIG_CACHE=/n", "GOMODCACHE=/m"},
		},
		{name: "set to nothing", env: []string{"npm_config_cache="}, want: []string{npm}},
		{
			name: "the workflow's own policy", want: []string{npm, mod},
			config: Config{TurnSandboxPolicy: []byte(`{"type":"workspaceWrite","networkAccess":true}`)},
		},
		{
			name: "a policy without network", want: []string{npm},
			config: Config{Network: true, TurnSandboxPolicy: []byte(`{"type":"workspaceWrite"}`)},
		},
		{
			name:   "no sandbox",
			config: Config{Network: true, TurnSandboxPolicy: []byte(`{"type":"dangerFullAccess"}`)},
		},
		{
			name:   "a sandbox outside",
			config: Config{TurnSandboxPolicy: []byte(`{"type":"externalSandbox","networkAccess":"enabled"}`)},
		},
	} {
		test.Equal(
			t,
			c.name,
			c.config.buildEnv(append([]string{"HOME=/h"}, c.env...), host.Dirs{Cache: "/c"}),
			c.want,
		)
	}
}

// In a sandbox go build must not look for a repository if the workspace has none.
func TestGoFlags(t *testing.T) {
	open := Config{TurnSandboxPolicy: []byte(`{"type":"dangerFullAccess"}`)}
	for _, c := range []struct {
		name       string
		config     Config
		repository bool
		env        []string
		want       any
	}{
		{name: "no repository", want: "-buildvcs=false"},
		{name: "set to nothing", env: []string{"GOFLAGS="}, want: "-buildvcs=false"},
		{name: "set by the operator", env: []string{"GOFLAGS=-mod=mod"}},
		{name: "repository", repository: true},
		{name: "no sandbox", config: open},
	} {
		test.Equal(
			t,
			c.name,
			c.config.commandVars("run-7", testSpace, c.repository, c.env)["GOFLAGS"],
			c.want,
		)
	}
}

// repository is a machine on which all workspaces are in the same repository, without a .git
// of their own.
type repository struct {
	host.Paths
	dirs host.GitDirs
}

func (r repository) GitDirs(context.Context, host.GitDirsRequest) (host.GitDirs, error) {
	return r.dirs, nil
}

func (repository) Existing(context.Context, []string) ([]string, error) { return nil, nil }

var (
	testSpace = host.Workspace{
		Path:     "/ws/ABC-1",
		TmpDir:   "/work/tmp",
		CacheDir: "/work/cache",
		Hooks:    host.Dirs{Tmp: "/work/hooks/tmp", Cache: "/work/hooks/cache"},
		Agent:    host.Dirs{Tmp: "/work/agent/tmp", Cache: "/work/agent/cache"},
	}
	testRepo = repository{dirs: host.GitDirs{
		Writable: []string{"/ws/ABC-1/.git"},
		Root:     "/main",
	}}
)

// ownVariables are those that commands in testSpace get from symphony.
var ownVariables = map[string]any{
	"SYMPHONY_RUN_ID": "run-7", "TMPDIR": "/work/tmp", "XDG_CACHE_HOME": "/work/cache",
	"npm_config_cache": "/work/cache/npm", "GOFLAGS": "-buildvcs=false", "GIT_CONFIG_COUNT": "0",
}

// The agent may write what git commit writes, unless the workflow's policy names roots. Other
// policies are passed on as they are.
func TestSandboxPolicy(t *testing.T) {
	const rest = `"excludeTmpdirEnvVar":true,"excludeSlashTmp":true}`
	own := func(policy string) Config {
		return Config{TurnSandboxPolicy: json.RawMessage(policy), WritableRoots: []string{"/srv"}}
	}
	for _, c := range []struct {
		config Config
		want   string // "": the workflow's policy
	}{
		{Config{}, `{"type":"workspaceWrite","networkAccess":false,"writableRoots":["/work/tmp",` +
			`"/work/cache","/ws/ABC-1/.git"],` + rest},
		{
			Config{Network: true, WritableRoots: []string{"/srv"}},
			`{"type":"workspaceWrite","networkAccess":true,"writableRoots":["/work/tmp","/work/cache",` +
				`"/ws/ABC-1/.git","/srv"],` + rest,
		},
		{
			own(`{"type":"workspaceWrite","networkAccess":true}`),
			`{"type":"workspaceWrite","networkAccess":true,"writableRoots":["/work/tmp","/work/cache",` +
				`"/ws/ABC-1/.git","/srv"],"excludeTmpdirEnvVar":true}`,
		},
		{own(`{"type":"workspaceWrite","writableRoots":[]}`), `{"type":"workspaceWrite",` +
			`"writableRoots":["/work/tmp"],"excludeTmpdirEnvVar":true}`},
		{own(`{"type":"workspaceWrite","writableRoots":["/a"],"excludeTmpdirEnvVar":true}`), ""},
		{own(`{"type":"readOnly"}`), ""},
		{own(`{"type":"externalSandbox","networkAccess":"enabled"}`), ""},
		{own(`{"type":"somethingNew","depth":3}`), ""},
		{own(`"workspace-write"`), ""},
	} {
		raw := test.Must(c.config.TurnPolicy(t.Context(), testRepo, testSpace))
		if c.want == "" {
			c.want = string(c.config.TurnSandboxPolicy)
		}
		var got, want any
		test.OK(t, json.Unmarshal(raw, &got))
		test.OK(t, json.Unmarshal([]byte(c.want), &want))
		test.Equal(t, "policy", got, want)
	}
}

// A workspace and its repository are untrusted, unless the workflow trusts the repository and
// sandboxes the thread.
func TestThreadConfig(t *testing.T) {
	word := json.RawMessage(`"workspace-write"`)
	for _, c := range []struct {
		config  Config
		trusted bool
	}{
		{Config{}, false},
		{Config{OnQuestion: agent.QuestionAsk}, false},
		{Config{TrustRepository: true}, false},
		{Config{ThreadSandbox: word, Model: "m", Effort: "high"}, false},
		{Config{ThreadSandbox: word, TrustRepository: true}, true},
	} {
		got := test.Must(c.config.ThreadConfig(t.Context(), testRepo, "run-7", testSpace, nil))
		want := map[string]any{
			"features.goals":                        false,
			"features.unbounded_connection_retries": false,
			"allow_login_shell":                     false,
			"features.shell_snapshot":               false,
			"shell_environment_policy": map[string]any{
				"ignore_default_excludes": false,
				"set":                     ownVariables,
			},
		}
		if c.config.Model != "" {
			want["model"] = "m"
			want["model_reasoning_effort"] = "high"
		}
		if c.config.OnQuestion == agent.QuestionAsk {
			want["features.default_mode_request_user_input"] = true
		}
		if untrusted := map[string]any{"trust_level": "untrusted"}; !c.trusted {
			want["projects"] = map[string]any{testSpace.Path: untrusted, "/main": untrusted}
		}
		test.Equal(t, "configuration of a thread", got, want)
	}
}

// Hooks, codex and its commands have directories of their own, whatever agent.pass_env lists.
// A cache that the operator has set stays for all of them.
func TestOwnDirectories(t *testing.T) {
	config := Config{
		Network: true,
		PassEnv: []string{"TMPDIR", "XDG_CACHE_HOME", "GOMODCACHE"},
	}
	env := []string{"TMPDIR=/t", "npm_config_cache=/operators"}
	codex := config.StartEnv(env, "run-7", testSpace)
	commands := config.commandVars("run-7", testSpace, false, codex)
	for name, want := range map[string][3]string{ // hooks, codex, commands
		"TMPDIR":           {"/work/hooks/tmp", "/work/agent/tmp", "/work/tmp"},
		"XDG_CACHE_HOME":   {"/work/hooks/cache", "/work/agent/cache", "/work/cache"},
		"GOMODCACHE":       {"/work/hooks/cache/go-mod", "/work/agent/cache/go-mod", "/work/cache/go-mod"},
		"npm_config_cache": {"/operators", "/operators", ""}, // inherited from codex
	} {
		command, _ := commands[name].(string)
		test.Equal(
			t,
			name,
			[3]string{
				valueOf(config.RunHookEnv(env, "run-7", testSpace), name),
				valueOf(codex, name),
				command,
			},
			want,
		)
	}
}

func valueOf(env []string, name string) (value string) {
	for _, entry := range env {
		if rest, found := strings.CutPrefix(entry, name+"="); found {
			value += rest
		}
	}
	return value
}

// Hooks and agents get no secret under any name, and each variable only once.
func TestRunEnvironment(t *testing.T) {
	config := Config{
		HomeVar:      "CODEX_HOME",
		NamedHome:    "/codex",
		Secrets:      []string{"LINEAR_API_KEY"},
		SecretValues: []string{testKey},
	}
	env := config.RunHookEnv([]string{
		"LINEAR_API_KEY=" + testKey, "TOKEN_OF_LINEAR=Bearer " + testKey, "TMPDIR=/var/tmp",
		"XDG_CACHE_HOME=/elsewhere/.cache",
		"CODEX_HOME=/elsewhere", "SYMPHONY_RUN_ID=another", "SYMPHONY_ISSUE_ID=another", "CODEX_THREAD_ID=another",
		"KEPT=yes",
	}, "run-7", testSpace)
	seen := map[string]bool{}
	for _, entry := range env {
		name := nameOf(entry)
		if seen[name] || strings.Contains(entry, testKey) || strings.HasSuffix(entry, "=another") {
			t.Errorf("%q has %s", env, entry)
		}
		seen[name] = true
	}
	for _, want := range []string{
		"TMPDIR=/work/hooks/tmp", "XDG_CACHE_HOME=/work/hooks/cache", "CODEX_HOME=/codex",
		"SYMPHONY_RUN_ID=run-7", "KEPT=yes",
	} {
		test.Equal(t, "the environment has "+want, slices.Contains(env, want), true)
	}
}

// TestAgentWrites checks which policies let an agent write a repository outside its workspace.
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
		anywhere, dirs := config.AgentWrites()
		got := anywhere || slices.ContainsFunc(dirs, func(dir string) bool {
			return paths.Inside(dir, "/srv/main/.git") || paths.Inside("/srv/main/.git", dir)
		})
		test.Equal(t, fmt.Sprintf("%+v", c), got, c.want)
	}
}
