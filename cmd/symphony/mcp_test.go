package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/internal/test"
)

// mcpServerCommand is the server, whose agents are scripted and end with it.
func mcpServerCommand(t *testing.T, flags ...string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"home", "work"} {
		test.OK(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	cmd := exec.CommandContext(context.Background(), "symphony", append([]string{"mcp", "--ephemeral"}, flags...)...)
	cmd.Dir, cmd.Stderr = filepath.Join(dir, "work"), t.Output()
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "CODEX_HOME=" + filepath.Join(dir, "codex-home"),
		"CODEX_BIN=" + test.Must(exec.LookPath("fake-codex")), "TMPDIR=" + dir,
	}
	return cmd
}

// mcpSession connects the SDK's client to a server.
func mcpSession(t *testing.T, version string) (*mcp.ClientSession, string) {
	t.Helper()
	cmd := mcpServerCommand(t)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	test.OK(t, err)
	t.Cleanup(func() { test.OK(t, session.Close()) })
	return session, cmd.Dir
}

// callTool calls a tool and decodes its structured result.
func callTool(t *testing.T, session *mcp.ClientSession, tool string, arguments map[string]any, result any) {
	t.Helper()
	r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	test.OK(t, err)
	text, err := json.Marshal(r.StructuredContent)
	test.OK(t, err)
	if r.IsError {
		t.Fatalf("%s: %s", tool, text)
	}
	test.OK(t, json.Unmarshal(text, result))
}

// The client of the SDK uses the server with each version of the protocol.
func TestMCPVersions(t *testing.T) {
	t.Parallel()
	for _, version := range mcp.SupportedProtocolVersions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			session, _ := mcpSession(t, version)
			if got := session.InitializeResult().ProtocolVersion; got != version {
				t.Errorf("the protocol is %s", got)
			}
			var list struct{ AgentIDs []string }
			callTool(t, session, "list_agents", nil, &list)
			if list.AgentIDs == nil || len(list.AgentIDs) > 0 {
				t.Errorf("agents %v", list.AgentIDs)
			}
			r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "kill_agent", Arguments: map[string]any{"agentId": "none"}})
			test.OK(t, err)
			if failure, _ := r.StructuredContent.(map[string]any); !r.IsError || failure["code"] != "unknown_agent" {
				t.Errorf("kill_agent: %v", r.StructuredContent)
			}
		})
	}
}

// Every tool says what it takes, what it returns, and what it changes.
func TestMCPTools(t *testing.T) {
	t.Parallel()
	session, _ := mcpSession(t, "")
	list, err := session.ListTools(t.Context(), nil)
	test.OK(t, err)
	var reads, destroys []string
	for _, tool := range list.Tools {
		if tool.Description == "" || tool.InputSchema == nil || tool.OutputSchema == nil || tool.Annotations == nil || tool.Annotations.DestructiveHint == nil {
			t.Errorf("%s is not described", tool.Name)
			continue
		}
		if tool.Annotations.ReadOnlyHint {
			reads = append(reads, tool.Name)
		} else if *tool.Annotations.DestructiveHint {
			destroys = append(destroys, tool.Name)
		}
	}
	for _, name := range []string{"list_agents", "wait_agent", "read_events"} {
		if !slices.Contains(reads, name) {
			t.Errorf("%s is not read-only", name)
		}
	}
	for _, name := range []string{"kill_agent", "send_user_turn", "send_user_message", "interrupt"} {
		if !slices.Contains(destroys, name) {
			t.Errorf("%s is not destructive", name)
		}
	}
}

// Twenty agents work at once. Each has its own ids of conversations and turns.
func TestMCPTwentyAgents(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	session, dir := mcpSession(t, "")
	threads := make([]string, 20)
	var working sync.WaitGroup
	for i := range threads {
		working.Go(func() {
			name := fmt.Sprintf("agent-%d", i)
			cwd := filepath.Join(dir, name)
			test.OK(t, os.Mkdir(cwd, 0o700))
			callTool(t, session, "spawn_agent", map[string]any{"id": name, "cwd": cwd}, &struct{}{})
			var conversation struct{ ConversationID string }
			callTool(t, session, "new_conversation", map[string]any{"agentId": name, "params": map[string]any{"id": "main"}}, &conversation)
			threads[i] = conversation.ConversationID
			params := map[string]any{
				"id": "turn", "conversationId": "main", "items": []any{map[string]any{"type": "text", "text": "```agent\nsay I am " + name + "\n```"}},
			}
			callTool(t, session, "send_user_turn", map[string]any{"agentId": name, "params": params}, &struct{}{})
			for turn := (struct{ Status string }{}); turn.Status != "completed"; {
				var done json.RawMessage
				callTool(t, session, "wait_agent", map[string]any{"agentIds": []string{name}, "cursor": ""}, &done)
				callTool(t, session, "send_user_turn", map[string]any{"agentId": name, "params": params}, &turn)
			}
			var events json.RawMessage
			callTool(t, session, "read_events", map[string]any{"agentId": name}, &events)
			if text := string(events); !strings.Contains(text, "I am "+name) || strings.Count(text, "I am ") != strings.Count(text, "I am "+name) {
				t.Errorf("%s: %s", name, text)
			}
		})
	}
	working.Wait()
	slices.Sort(threads)
	if len(slices.Compact(threads)) != 20 {
		t.Errorf("conversations %v", threads)
	}
}

// The published inspector lists and calls the tools, and validates what it gets.
func TestMCPInspector(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	inspector := os.Getenv("SYMPHONY_TEST_MCP_INSPECTOR")
	if inspector == "" {
		t.Skip("set SYMPHONY_TEST_MCP_INSPECTOR to the launcher of @modelcontextprotocol/inspector to run this test")
	}
	server := mcpServerCommand(t)
	inspect := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "node", append([]string{inspector, "--cli", server.Path, "mcp", "--ephemeral"}, args...)...)
		cmd.Dir, cmd.Env = server.Dir, server.Env
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("inspector %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	if out := inspect("--method", "tools/list"); !strings.Contains(out, `"spawn_agent"`) {
		t.Errorf("tools/list: %s", out)
	}
	if out := inspect("--method", "tools/call", "--tool-name", "spawn_agent", "--tool-arg", "id=one"); !strings.Contains(out, `"agentId": "one"`) {
		t.Errorf("spawn_agent: %s", out)
	}
}

// The server passes the scenarios of the published conformance suite that need no tools of the suite's own server. The suite speaks HTTP.
func TestMCPConformance(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	suite := os.Getenv("SYMPHONY_TEST_MCP_CONFORMANCE")
	if suite == "" {
		t.Skip("set SYMPHONY_TEST_MCP_CONFORMANCE to the program of @modelcontextprotocol/conformance to run this test")
	}
	for _, scenario := range []string{"server-initialize", "ping", "tools-list"} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			bridge := httptest.NewServer(newMCPBridge(t))
			defer bridge.Close()
			cmd := exec.CommandContext(t.Context(), "node", suite, "server", "--url", bridge.URL, "--scenario", scenario)
			cmd.Dir = t.TempDir()
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// mcpBridge is an HTTP server that passes requests on to one server on stdin and stdout, one after the other.
type mcpBridge struct {
	mu  sync.Mutex
	in  io.Writer
	out *bufio.Reader
}

func newMCPBridge(t *testing.T) *mcpBridge {
	cmd := mcpServerCommand(t)
	in, err := cmd.StdinPipe()
	test.OK(t, err)
	out, err := cmd.StdoutPipe()
	test.OK(t, err)
	test.OK(t, cmd.Start())
	t.Cleanup(func() {
		test.OK(t, in.Close())
		test.OK(t, cmd.Wait())
	})
	return &mcpBridge{in: in, out: bufio.NewReader(out)}
}

func (b *mcpBridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct{ ID json.RawMessage }
	body, err := io.ReadAll(r.Body)
	if r.Method != http.MethodPost || err != nil || json.Unmarshal(body, &m) != nil {
		http.Error(w, "only messages are accepted", http.StatusMethodNotAllowed)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err = b.in.Write(append(bytes.ReplaceAll(body, []byte("\n"), nil), '\n'))
	if err == nil && m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	var line []byte
	if err == nil {
		line, err = b.out.ReadBytes('\n')
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(line)
}
