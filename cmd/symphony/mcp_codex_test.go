package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

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

// The real codex hides the tools of MCP servers behind its search. Its model finds spawn_agent
// by each word, starts an agent with it, and waits for the agent.
func TestCodexFindsTools(t *testing.T) {
	requireCodex(t)
	t.Parallel()
	s := newMCPPlace(t, "work", "host")
	model := modeltest.New()
	t.Cleanup(model.Close)
	home := s.path("host")
	test.OK(t, modeltest.WriteHome(home, model.URL))
	config := filepath.Join(home, "config.toml")
	server := fmt.Sprintf(`
[mcp_servers.symphony]
command = %q
args = ["mcp", "--tools", "lean", "--ephemeral"]
default_tools_approval_mode = "approve"

[mcp_servers.symphony.env]
CODEX_HOME = %q
CODEX_BIN = %q
TMPDIR = %q
`, test.Must(exec.LookPath("symphony")), s.path("codex-home"), test.Must(exec.LookPath("fake-codex")), s.dir)
	test.OK(t, os.WriteFile(config, append(test.Must(os.ReadFile(config)), server...), 0o600))

	var script strings.Builder
	for _, words := range searches {
		fmt.Fprintf(&script, "tool tool_search {\"query\": %q}\n", words)
	}
	script.WriteString(`tool mcp__symphony.spawn_agent {"id": "one", "prompt": "` +
		"```agent\\nsay the agent is done\\n```" + `"}` + "\n" +
		`tool mcp__symphony.wait_agent {"agentIds": ["one"], "timeoutSeconds": 50}` + "\n" +
		"say all is done\n")
	cmd := exec.CommandContext(t.Context(), os.Getenv("SYMPHONY_TEST_CODEX"),
		"exec", "--skip-git-repo-check", "```agent\n"+script.String()+"```")
	cmd.Dir = s.path("work")
	cmd.Env = append(s.env, "CODEX_HOME="+home, "NO_PROXY=127.0.0.1")
	test.Contains(t, "the output of codex", test.Run(t, cmd), "all is done")

	requests := model.Requests()
	outputs := requests[len(requests)-1].Outputs
	test.Equal(t, "how many results the model got", len(outputs), len(searches)+2)
	for i, words := range searches {
		test.Contains(t, "what is found by "+words, outputs[i], "mcp__symphony.spawn_agent")
	}
	test.Contains(t, "the result of spawn_agent", outputs[len(searches)], "one.first")
	test.Contains(t, "the result of wait_agent", outputs[len(searches)+1], "the agent is done")
}
