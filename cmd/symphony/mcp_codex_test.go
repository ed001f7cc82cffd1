package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/runner/agent/script"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/codex/modeltest"
)

// searches are words by which a model looks for a tool that gives work to somebody else. Codex
// has sub-agents of its own, which are found, too.
var searches = []string{
	"symphony",
	"agents in the background",
	"parallel",
	"delegate",
	"worktree",
	"run tasks in parallel",
	"delegate work to another coding agent",
	"background agent",
	"subagent",
	"start a coding agent",
}

// codexHost is the real codex as a host of the tools, with the scripted agent.
type codexHost struct {
	*hostScene
	model *modeltest.Server
}

func newCodexHost(t *testing.T) *codexHost {
	t.Helper()
	requireCodex(t)
	h := &codexHost{newMCPPlace(t, "work", "host"), modeltest.New()}
	t.Cleanup(h.model.Close)
	home := h.path("host")
	test.OK(t, modeltest.WriteHome(home, h.model.URL))
	config := filepath.Join(home, "config.toml")
	// codex waits with its first turn for required servers only
	server := fmt.Sprintf(`
[mcp_servers.symphony]
command = %q
args = ["mcp", "--ephemeral"]
default_tools_approval_mode = "approve"
required = true
startup_timeout_sec = 120

[mcp_servers.symphony.env]
CODEX_HOME = %q
CODEX_BIN = %q
TMPDIR = %q
`, test.Must(exec.LookPath("symphony")), h.path("codex-home"), test.Must(exec.LookPath("fake-codex")), h.dir)
	test.OK(t, os.WriteFile(config, append(test.Must(os.ReadFile(config)), server...), 0o600))
	return h
}

// run lets a model carry out a script, and returns the last request to it.
func (h *codexHost) run(model, script string) script.Request {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), os.Getenv("SYMPHONY_TEST_CODEX"),
		"exec", "--skip-git-repo-check", "--model", model, "```agent\n"+script+"```")
	cmd.Dir = h.path("work")
	cmd.Env = append(h.env, "CODEX_HOME="+h.path("host"), "NO_PROXY=127.0.0.1")
	test.Contains(h.t, "the output of codex", test.Run(h.t, cmd), "all is done")
	requests := h.model.Requests()
	return requests[len(requests)-1]
}

// The real codex hides the tools of MCP servers behind its search. Its model finds spawn_agent
// by each word, starts an agent with it, and waits for the agent.
func TestCodexFindsTools(t *testing.T) {
	t.Parallel()
	h := newCodexHost(t)
	var script strings.Builder
	for _, words := range searches {
		fmt.Fprintf(&script, "tool tool_search {\"query\": %q}\n", words)
	}
	script.WriteString(`tool mcp__symphony.spawn_agent {"id": "one", "prompt": "` +
		"```agent\\nsay the agent is done\\n```" + `"}` + "\n" +
		`tool mcp__symphony.wait_agent {"agentIds": ["one"], "timeoutSeconds": 50}` + "\n" +
		"say all is done\n")
	outputs := h.run("gpt-5.5", script.String()).Outputs
	test.Equal(t, "how many results the model got", len(outputs), len(searches)+2)
	for i, words := range searches {
		test.Contains(t, "what is found by "+words, outputs[i], "mcp__symphony.spawn_agent")
	}
	test.Contains(t, "the result of spawn_agent", outputs[len(searches)], "one.first")
	test.Contains(t, "the result of wait_agent", outputs[len(searches)+1], "the agent is done")
}

// A newer model of codex gets a line about each server, from which it has to see what the tools
// are for.
func TestCodexDescribesServer(t *testing.T) {
	t.Parallel()
	orders := strings.Join(newCodexHost(t).run("gpt-6-sol", "say all is done\n").Orders, "\n")
	test.Contains(t, "the instructions of codex", orders, "- mcp__symphony: Symphony delegates work to coding agents "+
		"(codex) in the background, to several in parallel, each in a directory or a git worktree of its own.")
}
