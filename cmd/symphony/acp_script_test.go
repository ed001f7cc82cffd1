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
}

var realAgents = []realAgent{
	{
		kind:     "claude",
		variable: "SYMPHONY_TEST_ACP_CLAUDE",
		command:  "claude-agent-acp",
		model:    "sonnet",
	},
	{
		kind:     "opencode",
		variable: "SYMPHONY_TEST_ACP_OPENCODE",
		command:  "opencode",
		model:    "deepseek/deepseek-flash",
	},
	{
		kind:     "gemini",
		variable: "SYMPHONY_TEST_MCP_GEMINI",
		command:  "gemini",
		model:    "gemini-3.8-flash",
	},
}

// TestRealAgents runs the scripts in testdata/acp with each of the agents, in the sandbox of
// symphony. Their models are mocks behind a proxy of a company, which leads nowhere else.
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
			p.Condition = a.condition
			testscript.Run(t, p)
		})
	}
}

// onACP are scripts of TestScript about runs that name nothing which only codex has.
var onACP = []string{
	"script/run", "script/attempts", "script/selection", "script/limited",
	"script/team", "script/tick_wait", "script/tick_loop_stop", "script/hooks", "script/hooks_fail",
	"script/secrets", "script/writable_roots", "script/diff", "script/stop", "script/stop_deaf",
	"script/stop_unseen", "script/stop_removal", "script/terminal_removal", "script/needs_help",
	"script/send_back", "script/reviews", "script/hand_over_file", "script/guard_restored",
	"all/guard_hooks", "all/answers", "all/delivery", "all/delivery_first_look",
	"all/pull_request_checks", "all/feedback_checks", "all/hand_over_faults",
	"all/hand_over_refused", "all/verify", "all/outage", "all/pause",
	"all/stop_wait", "all/second_machine", "all/repository_changed", "all/workspace_adopted",
	"all/workspace_unsaved",
}

// TestScriptOnACP runs scripts about runs, whose agent otherwise is a scripted codex, with a
// scripted agent of the Agent Client Protocol.
func TestScriptOnACP(t *testing.T) {
	runElsewhere(t, onACP, useACP)
}

// useACP makes the workflow of a script choose an agent of the Agent Client Protocol.
func useACP(env *testscript.Env) error {
	path := filepath.Join(env.WorkDir, "WORKFLOW.md")
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text := strings.Replace(string(data), "  command: "+env.Getenv("AGENT")+"\n", "", 1)
	keys := "\nagent:\n  kind: acp\n  command: " + env.Getenv("ACP_AGENT") + "\n  sandbox: none\n  trust: true\n"
	if strings.Contains(text, "\nagent:\n") {
		text = strings.Replace(text, "\nagent:\n", keys, 1)
	} else {
		text = strings.Replace(text, "\n---\n", keys+"---\n", 1)
	}
	return os.WriteFile(path, []byte(text), 0o600)
}

// condition evaluates a condition: [claude]: the script runs with this agent;
// [installed-claude]: it is there.
func (a *realAgent) condition(name string) (bool, error) {
	kind, isInstalled := strings.CutPrefix(name, "installed-")
	for _, other := range realAgents {
		if kind != other.kind {
			continue
		}
		if isInstalled {
			return os.Getenv(other.variable) != "", nil
		}
		return kind == a.kind, nil
	}
	return condition(name)
}

// setup gives a script the agents that are there.
func (a *realAgent) setup(env *testscript.Env) error {
	model := apitest.New("key_of_the_model")
	env.Defer(model.Close)
	roots := filepath.Join(env.WorkDir, "roots.pem")
	for name, value := range map[string]string{
		"KIND":          a.kind,
		"MODEL":         a.model,
		"MODEL_KEY":     model.Key,
		"HTTPS_PROXY":   model.URL,
		"HTTP_PROXY":    model.URL,
		"SSL_CERT_FILE": roots,
	} {
		env.Setenv(name, value)
	}
	installed := filepath.Join(env.WorkDir, "installed")
	home := filepath.Join(env.WorkDir, "home")
	for _, dir := range []string{home, installed} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	for _, one := range realAgents {
		program := os.Getenv(one.variable)
		if program == "" {
			continue
		}
		if err := os.Symlink(program, filepath.Join(installed, one.command)); err != nil {
			return err
		}
	}
	if err := os.WriteFile(roots, model.Certificate, 0o600); err != nil {
		return err
	}
	// a login shell finds the agents
	profile := fmt.Sprintf("PATH=%s:%s\n", os.Getenv(toolsVar), installed)
	if err := os.WriteFile(filepath.Join(home, ".profile"), []byte(profile), 0o600); err != nil {
		return err
	}
	if err := setupScript(env); err != nil {
		return err
	}
	env.Values[stageKey{}].(*stage).model = model
	env.Defer(func() {
		for _, other := range model.Others() {
			if !strings.HasSuffix(other, ".example:443") { // what a script asks for itself
				env.T().Log("the agent has asked for " + other)
				defer env.T().FailNow()
			}
		}
	})
	return nil
}
