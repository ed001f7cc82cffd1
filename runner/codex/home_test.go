package codex

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/symphony-cron/symphony/internal/test"
)

// Workers, and the checks of one doctor, prepare the same codex home at once.
func TestShareLoginAtOnce(t *testing.T) {
	for range 50 {
		link := filepath.Join(t.TempDir(), "auth.json")
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				test.OK(t, shareLogin("login", link))
			})
		}
		all.Wait()
		test.Equal(t, "auth.json leads to", test.Must(os.Readlink(link)), "login")
	}
}

// What of an operator's config.toml reaches agents: the model, the login, and what restricts
// them.
func TestPrepareHome(t *testing.T) {
	operators := t.TempDir()
	dir := filepath.Join(t.TempDir(), "account", "codex")
	write := func(path, text string) {
		t.Helper()
		test.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		test.OK(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write(filepath.Join(operators, "config.toml"), `
model = "gpt-6-sol"
model_catalog_json = "models.json"
cli_auth_credentials_store = "auto"
approval_policy = "on-request"
sandbox_mode = "danger-full-access"
web_search = "live"
notify = ["notify-send"]
[model_providers.own]
base_url = "https://models.example"
http_headers = { team = "web" }
[shell_environment_policy]
exclude = ["PG*"]
inherit = "all"
experimental_use_profile = true
[mcp_servers.docs]
command = "docs"
[otel]
environment = "test"
[features]
exec_permission_approvals = true
[projects."/srv"]
trust_level = "trusted"
`)
	write(filepath.Join(operators, "auth.json"), "{}")
	write(filepath.Join(operators, "rules", "default.rules"), "")
	write(filepath.Join(operators, ".env"), "MODEL_KEY=key")
	write(filepath.Join(dir, "rules", "default.rules"), "added in a takeover")
	write(filepath.Join(dir, "auth.json"), "an older copy")
	write(filepath.Join(dir, "sessions", "thread"), "kept")
	for range 2 {
		test.OK(t, PrepareHome(operators, dir))
	}
	got := test.Must(readConfig(dir))
	type table = map[string]any
	want := table{
		"model":                      "gpt-6-sol",
		"model_catalog_json":         filepath.Join(operators, "models.json"),
		"cli_auth_credentials_store": "file",
		"model_providers": table{"own": table{
			"base_url":     "https://models.example",
			"http_headers": table{"team": "web"},
		}},
		"shell_environment_policy": table{"exclude": []any{"PG*"}},
		"features":                 table{"apps": false, "plugins": false},
	}
	test.Equal(t, "config.toml", got, want)
	to, err := os.Readlink(filepath.Join(dir, "auth.json"))
	test.Equal(t, "auth.json", []any{err, to}, []any{nil, filepath.Join(operators, "auth.json")})
	if _, err := os.Stat(filepath.Join(dir, "rules")); !os.IsNotExist(err) {
		t.Error("the rules are left")
	}
	test.Must(os.Stat(filepath.Join(dir, "sessions", "thread")))
	unshared, err := OperatorOnly(operators)
	if diff := cmp.Diff([]string{
		"approval_policy", "features (exec_permission_approvals)", "mcp_servers (docs)", "notify",
		"otel (environment)", "projects (/srv)", "sandbox_mode",
		"shell_environment_policy (exclude, experimental_use_profile, inherit)", "web_search", ".env", "rules",
	}, unshared); diff != "" || err != nil {
		t.Error("unshared (-want +got):\n"+diff, err)
	}

	// A file that codex could not read either is named.
	write(filepath.Join(operators, "config.toml"), "model = ")
	test.Equal(t, "a broken config.toml is refused", PrepareHome(operators, dir) != nil, true)
}

// PrepareBox makes a home with a copy of the login, and the settings that agents share.
func TestPrepareBox(t *testing.T) {
	operators := t.TempDir()
	home := filepath.Join(t.TempDir(), "homes", "codex")
	test.Write(t, filepath.Join(operators, "auth.json"), "the login")
	test.Write(t, filepath.Join(operators, "config.toml"), "model = \"m\"\nnotify = [\"sh\"]\n")
	test.OK(t, PrepareBox(operators, home))
	agents := filepath.Join(home, HomeInBox)
	test.Equal(t, "login", test.Read(t, filepath.Join(agents, "auth.json")), "the login")
	info := test.Must(os.Lstat(filepath.Join(agents, "auth.json")))
	test.Equal(t, "mode of the login", info.Mode(), 0o600)
	written := test.Read(t, filepath.Join(agents, "config.toml"))
	test.Contains(t, "settings", written, `model = "m"`, `cli_auth_credentials_store = "file"`)
	test.Equal(t, "programs", strings.Contains(written, "notify"), false)
}
