package runner

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local"
)

// spaceOf is a workspace with a clone, one whose git directory is main, one with a linked worktree of main, or one
// without a repository.
func spaceOf(t *testing.T, kind string) (w host.Workspace, main string) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	w = host.Workspace{
		Path: filepath.Join(base, "ws", "ABC-1"), TmpDir: filepath.Join(base, "work", "tmp"), CacheDir: filepath.Join(base, "work", "cache"),
	}
	must(t, os.MkdirAll(w.Path, 0o700))
	main = filepath.Join(base, "main")
	git := func(args ...string) {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
		cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/local/bin", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	if kind == "none" {
		return w, main
	}
	git("init", "-q", "-b", "main", main)
	git("-C", main, "commit", "-q", "--allow-empty", "-m", "Begin")
	switch kind {
	case "clone":
		git("clone", "-q", main, w.Path)
	case "separate":
		must(t, os.Rename(main, main+".seed"))
		git("clone", "-q", "--separate-git-dir", main, main+".seed", w.Path)
	default:
		git("-C", main, "worktree", "add", "-q", "-b", "work", w.Path)
	}
	return w, main
}

func TestSandboxPolicy(t *testing.T) {
	for _, c := range []struct {
		name, kind string
		config     Config
		want       map[string]any // writableRoots stands for further ones
	}{
		{name: "default, no repository", kind: "none", want: map[string]any{
			"type": "workspaceWrite", "networkAccess": false, "excludeTmpdirEnvVar": true, "excludeSlashTmp": true, "writableRoots": []string{},
		}},
		{name: "default, clone", kind: "clone", want: map[string]any{
			"type": "workspaceWrite", "networkAccess": false, "excludeTmpdirEnvVar": true, "excludeSlashTmp": true, "writableRoots": []string{"WS/.git"},
		}},
		{name: "default, linked worktree", kind: "worktree", want: map[string]any{
			"type": "workspaceWrite", "networkAccess": false, "excludeTmpdirEnvVar": true, "excludeSlashTmp": true,
			"writableRoots": []string{"MAIN/.git/worktrees/ABC-1", "MAIN/.git/objects", "MAIN/.git/refs", "MAIN/.git/logs"},
		}},
		{name: "network and roots", kind: "clone", config: Config{Network: true, WritableRoots: []string{"/srv/cache"}}, want: map[string]any{
			"type": "workspaceWrite", "networkAccess": true, "excludeTmpdirEnvVar": true, "excludeSlashTmp": true,
			"writableRoots": []string{"WS/.git", "/srv/cache"},
		}},
		{name: "git directory elsewhere", kind: "separate", want: map[string]any{
			"type": "workspaceWrite", "networkAccess": false, "excludeTmpdirEnvVar": true, "excludeSlashTmp": true, "writableRoots": []string{},
		}},
		{name: "git directory in a writable root", kind: "separate", config: Config{WritableRoots: []string{"BASE"}}, want: map[string]any{
			"type": "workspaceWrite", "networkAccess": false, "excludeTmpdirEnvVar": true, "excludeSlashTmp": true,
			"writableRoots": []string{"MAIN/", "BASE"},
		}},
		{
			name: "the workflow's own workspaceWrite", kind: "clone",
			config: Config{TurnSandboxPolicy: json.RawMessage(`{"type":"workspaceWrite","networkAccess":true}`), WritableRoots: []string{"/srv/cache"}},
			want:   map[string]any{"type": "workspaceWrite", "networkAccess": true, "writableRoots": []string{"WS/.git", "/srv/cache"}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, main := spaceOf(t, c.kind)
			for i, root := range c.config.WritableRoots {
				c.config.WritableRoots[i] = strings.Replace(root, "BASE", filepath.Dir(main), 1)
			}
			data, err := c.config.sandboxPolicy(t.Context(), &local.Host{}, w)
			must(t, err)
			var got map[string]any
			must(t, json.Unmarshal(data, &got))
			roots := []any{w.TmpDir, w.CacheDir}
			for _, r := range c.want["writableRoots"].([]string) {
				switch {
				case len(r) > 3 && r[:3] == "WS/":
					r = filepath.Join(w.Path, r[3:])
				case len(r) >= 5 && r[:5] == "MAIN/":
					r = filepath.Join(main, r[5:])
				case r == "BASE":
					r = filepath.Dir(main)
				}
				roots = append(roots, r)
			}
			c.want["writableRoots"] = roots
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %v\nwant %v", got, c.want)
			}
		})
	}
}

// Everything else of the workflow's goes to codex as it is, for codex to judge.
func TestSandboxPolicyPassesThrough(t *testing.T) {
	w, _ := spaceOf(t, "clone")
	for _, policy := range []string{
		`{"type":"workspaceWrite","writableRoots":[]}`,
		`{"type":"workspaceWrite","writableRoots":["/srv"],"networkAccess":true}`,
		`{"type":"readOnly"}`, `{"type":"dangerFullAccess"}`, `{"type":"externalSandbox","networkAccess":"enabled"}`,
		`{"type":"somethingNew","depth":3}`, `{"mode":"workspace-write"}`, `"workspace-write"`, `null`,
	} {
		got, err := Config{TurnSandboxPolicy: json.RawMessage(policy), WritableRoots: []string{"/srv/cache"}}.sandboxPolicy(t.Context(), &local.Host{}, w)
		if err != nil || string(got) != policy {
			t.Errorf("%s became %s, %v", policy, got, err)
		}
	}
}

func TestThreadConfig(t *testing.T) {
	clone, _ := spaceOf(t, "clone")
	linked, main := spaceOf(t, "worktree")
	none, _ := spaceOf(t, "none")
	word := json.RawMessage(`"workspace-write"`)
	for _, c := range []struct {
		name   string
		config Config
		space  host.Workspace
		root   string // marked untrusted beside the workspace
	}{
		{"no thread sandbox", Config{}, clone, clone.Path},
		{"no thread sandbox, linked worktree", Config{}, linked, main},
		{"questions to a person", Config{OnQuestion: agent.QuestionAsk}, clone, clone.Path},
		{"trusted, no thread sandbox", Config{TrustRepository: true}, clone, clone.Path},
		{"thread sandbox, clone", Config{ThreadSandbox: word}, clone, clone.Path},
		{"thread sandbox, linked worktree", Config{ThreadSandbox: word}, linked, main},
		{"thread sandbox, no repository", Config{ThreadSandbox: word}, none, none.Path},
		{"thread sandbox, trusted", Config{ThreadSandbox: word, TrustRepository: true}, clone, ""},
	} {
		got, err := c.config.threadConfig(t.Context(), &local.Host{}, "run-7", c.space, nil)
		must(t, err)
		want := map[string]any{
			"features.goals": false, "features.unbounded_connection_retries": false,
			"shell_environment_policy": map[string]any{"ignore_default_excludes": false, "set": map[string]any{"SYMPHONY_RUN_ID": "run-7"}},
		}
		if c.config.OnQuestion == agent.QuestionAsk {
			want["features.default_mode_request_user_input"] = true
		}
		if c.root != "" {
			untrusted := map[string]any{"trust_level": "untrusted"}
			want["projects"] = map[string]any{c.space.Path: untrusted, c.root: untrusted}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", c.name, got, want)
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
