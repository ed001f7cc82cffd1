package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/acp/apitest"
)

// realAgent is an agent of the Agent Client Protocol as npm has it.
type realAgent struct {
	kind     string // agent.kind
	variable string // that names the program
	command  string // its name on the PATH
	model    string // agent.model
	// its variables, and a file of the home with the text of it; $URL is that of the model
	environ    []string
	file, text string
	// what it asks for besides its model whatever its switches are
	others string
}

// realAgents are those of TestRealAgents. With these variables each has a model, and is logged in.
var realAgents = []realAgent{
	{
		kind:     "claude",
		variable: "SYMPHONY_TEST_ACP_CLAUDE",
		command:  "claude-agent-acp",
		model:    "sonnet",
		environ:  []string{"ANTHROPIC_BASE_URL=$URL", "ANTHROPIC_API_KEY=none"},
	},
	{
		kind:     "opencode",
		variable: "SYMPHONY_TEST_ACP_OPENCODE",
		command:  "opencode",
		model:    "company/large",
		file:     ".config/opencode/opencode.json",
		text: `{"provider": {"company": {"npm": "@ai-sdk/openai-compatible",
  "options": {"baseURL": "$URL/v1", "apiKey": "none"},
  "models": {"large": {"name": "Large", "limit": {"context": 200000, "output": 8000}}}}}}`,
		others: "CONNECT registry.npmjs.org:443", // for a package of plugins
	},
	{
		kind:     "gemini",
		variable: "SYMPHONY_TEST_MCP_GEMINI",
		command:  "gemini",
		model:    "gemini-3.8-flash",
		environ:  []string{"GOOGLE_GEMINI_BASE_URL=$URL", "GEMINI_API_KEY=none"},
		file:     ".gemini/settings.json",
		text:     `{"general": {"enableAutoUpdate": false}, "privacy": {"usageStatisticsEnabled": false}}`,
	},
}

// TestRealAgents runs the scripts in testdata/acp with each of the agents. Their model is a mock,
// which is also their proxy, so that they reach nothing else.
func TestRealAgents(t *testing.T) {
	test.Expensive(t)
	for _, a := range realAgents {
		t.Run(a.kind, func(t *testing.T) {
			if os.Getenv(a.variable) == "" {
				t.Skip("set " + a.variable + " to the program of the agent to run this test")
			}
			t.Parallel()
			p := params(t, "acp")
			p.Setup = a.setup
			p.Condition = func(name string) (bool, error) {
				for _, other := range realAgents {
					if name == other.kind {
						return name == a.kind, nil
					}
				}
				return condition(name)
			}
			testscript.Run(t, p)
		})
	}
}

// setup gives a script the agent, installed and logged in.
func (a *realAgent) setup(env *testscript.Env) error {
	model := apitest.New()
	env.Defer(model.Close)
	env.Setenv("KIND", a.kind)
	env.Setenv("MODEL", a.model)
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"} {
		env.Setenv(name, model.URL)
	}
	env.Setenv("NO_PROXY", "127.0.0.1")
	for _, entry := range a.environ {
		name, value, _ := strings.Cut(entry, "=")
		env.Setenv(name, strings.ReplaceAll(value, "$URL", model.URL))
	}
	files := map[string]string{
		// a login shell finds the agent
		"home/.profile": fmt.Sprintf("PATH=%s:%s\n", os.Getenv(toolsVar), filepath.Join(env.WorkDir, "installed")),
	}
	if a.file != "" {
		files["home/"+a.file] = strings.ReplaceAll(a.text, "$URL", model.URL)
	}
	for name, text := range files {
		path := filepath.Join(env.WorkDir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	if err := os.Mkdir(filepath.Join(env.WorkDir, "installed"), 0o755); err != nil {
		return err
	}
	if err := os.Symlink(os.Getenv(a.variable), filepath.Join(env.WorkDir, "installed", a.command)); err != nil {
		return err
	}
	if err := setupScript(env); err != nil {
		return err
	}
	set := env.Values[stageKey{}].(*stage)
	set.model = model
	env.Defer(func() {
		others := strings.Join(model.Others(), "\n")
		if others != "" && others != a.others {
			env.T().Log("the agent has asked for\n" + others)
			env.T().FailNow()
		}
	})
	return nil
}
