package acp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
)

// TestPrepareHome: agents get the operator's login, unless they have renewed it since.
func TestPrepareHome(t *testing.T) {
	operators := t.TempDir()
	agents := filepath.Join(t.TempDir(), "homes", "claude")
	claude := kindOf(t, "claude")
	test.OK(t, claude.prepareHome(operators, agents))
	own := filepath.Join(operators, ".claude", ".credentials.json")
	copied := filepath.Join(agents, ".claude", ".credentials.json")
	test.OK(t, os.Mkdir(filepath.Dir(own), 0o700))
	began := time.Now().Add(-time.Hour)
	write := func(path, login string, at time.Time) {
		test.OK(t, os.WriteFile(path, []byte(login), 0o600))
		test.OK(t, os.Chtimes(path, at, at))
	}
	for _, step := range []struct {
		operators, agents string
		agentsLater       bool
		want              string
	}{
		{"first", "", false, "first"},
		{"first", "renewed", true, "renewed"},
		{"again", "renewed", false, "again"},
	} {
		if step.agents != "" {
			write(copied, step.agents, began.Add(time.Minute))
		}
		at := began
		if !step.agentsLater {
			at = began.Add(2 * time.Minute)
		}
		write(own, step.operators, at)
		test.OK(t, claude.prepareHome(operators, agents))
		test.Equal(t, "login", string(test.Must(os.ReadFile(copied))), step.want)
	}
	info := test.Must(os.Stat(copied))
	test.Equal(t, "mode", info.Mode().Perm(), 0o600)
}

// TestHomeFiles: a home of agents begins with files of its kind, which the agents may change.
func TestHomeFiles(t *testing.T) {
	agents := t.TempDir()
	opencode := kindOf(t, "opencode")
	const name = ".config/opencode/package-lock.json"
	path := filepath.Join(agents, name)
	test.OK(t, opencode.prepareHome(t.TempDir(), agents))
	test.Equal(t, "at first", string(test.Must(os.ReadFile(path))), opencode.homeFiles[name])
	test.OK(t, os.WriteFile(path, []byte("changed"), 0o600))
	test.OK(t, opencode.prepareHome(t.TempDir(), agents))
	test.Equal(t, "later", string(test.Must(os.ReadFile(path))), "changed")
}

// TestServices: an agent without a key of its own reaches its model by another URL.
func TestServices(t *testing.T) {
	for name, want := range map[string]string{
		"claude":   "ANTHROPIC_BASE_URL=http://proxy/m",
		"gemini":   "GOOGLE_GEMINI_BASE_URL=http://proxy/m",
		"opencode": `"provider":{"openai":{"options":{"apiKey":"key-of-symphony","baseURL":"http://proxy/m/v1"}}}`,
	} {
		service := kindOf(t, name).service("openai/gpt-9")
		test.Contains(t, name, strings.Join(service.Through("http://proxy/m"), " "), want, "key-of-symphony")
		test.Equal(t, name+" has hosts", len(service.Hosts) > 0, true)
	}
	unknown := kindOf(t, "opencode").service("mine/m1")
	test.Equal(t, "an unknown provider can't get a key", unknown.Through == nil, true)
}

func kindOf(t *testing.T, name string) *kind {
	t.Helper()
	for _, k := range kinds {
		if k.name == name {
			return k
		}
	}
	t.Fatalf("no kind %s", name)
	return nil
}
