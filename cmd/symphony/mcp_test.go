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
func mcpServerCommand(t *testing.T) *exec.Cmd {
	t.Helper()
	s := newMCPPlace(t, "work")
	cmd := exec.CommandContext(context.Background(), "symphony", "mcp", "--ephemeral")
	cmd.Dir = s.path("work")
	cmd.Env = s.env
	cmd.Stderr = t.Output()
	return cmd
}

// mcpSession connects the SDK's client to a server.
func mcpSession(t *testing.T, version string) (*mcp.ClientSession, string) {
	t.Helper()
	cmd := mcpServerCommand(t)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session := test.Must(
		client.Connect(
			t.Context(),
			&mcp.CommandTransport{Command: cmd},
			&mcp.ClientSessionOptions{ProtocolVersion: version},
		),
	)
	t.Cleanup(func() { test.OK(t, session.Close()) })
	return session, cmd.Dir
}

// callTool calls a tool and decodes its structured result.
func callTool(t *testing.T, session *mcp.ClientSession, tool string, arguments map[string]any, result any) {
	t.Helper()
	r := test.Must(session.CallTool(t.Context(), &mcp.CallToolParams{
		Name:      tool,
		Arguments: arguments,
	}))
	text := test.Must(json.Marshal(r.StructuredContent))
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
			test.Equal(t, "the protocol", session.InitializeResult().ProtocolVersion, version)
			var list struct{ AgentIDs []string }
			callTool(t, session, "list_agents", nil, &list)
			test.Equal(t, "the agents", list.AgentIDs, []string{})
			r := test.Must(session.CallTool(t.Context(), &mcp.CallToolParams{
				Name:      "kill_agent",
				Arguments: map[string]any{"agentId": "none"},
			}))
			if failure, _ := r.StructuredContent.(map[string]any); !r.IsError ||
				failure["code"] != "not_found" {
				t.Errorf("kill_agent: %v", r.StructuredContent)
			}
		})
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
			callTool(t, session, "new_conversation", map[string]any{
				"agentId": name,
				"params":  map[string]any{"id": "main"},
			}, &conversation)
			threads[i] = conversation.ConversationID
			params := map[string]any{
				"id":             "turn",
				"conversationId": "main",
				"items": []any{map[string]any{
					"type": "text",
					"text": "```agent\nsay I am " + name + "\n```",
				}},
			}
			callTool(t, session, "send_user_turn", map[string]any{
				"agentId": name,
				"params":  params,
			}, &struct{}{})
			for turn := (struct{ Status string }{}); turn.Status != "completed"; {
				var done json.RawMessage
				callTool(t, session, "wait_agent", map[string]any{
					"agentIds": []string{name},
					"cursor":   "",
				}, &done)
				callTool(t, session, "send_user_turn", map[string]any{
					"agentId": name,
					"params":  params,
				}, &turn)
			}
			var events json.RawMessage
			callTool(t, session, "read_events", map[string]any{"agentId": name}, &events)
			if text := string(events); !strings.Contains(text, "I am "+name) ||
				strings.Count(text, "I am ") != strings.Count(text, "I am "+name) {
				t.Errorf("%s: %s", name, text)
			}
		})
	}
	working.Wait()
	slices.Sort(threads)
	test.Equal(t, "how many conversations there are", len(slices.Compact(threads)), 20)
}

// The published inspector lists and calls the tools, validates what it gets, and has nothing
// to say about schemas: strict, it examines whether models and hosts of all kinds take them.
func TestMCPInspector(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	inspector := os.Getenv("SYMPHONY_TEST_MCP_INSPECTOR")
	if inspector == "" {
		t.Skip(
			"set SYMPHONY_TEST_MCP_INSPECTOR to the launcher of @modelcontextprotocol/inspector to run this test",
		)
	}
	server := mcpServerCommand(t)
	inspect := func(args ...string) string {
		cmd := exec.CommandContext(
			t.Context(),
			"node",
			append([]string{inspector, "--cli", server.Path, "mcp", "--ephemeral"}, args...)...)
		var complaints bytes.Buffer
		cmd.Dir = server.Dir
		cmd.Env = server.Env
		cmd.Stderr = &complaints
		out, err := cmd.Output()
		if err != nil || strings.Contains(complaints.String(), "schema") {
			t.Fatalf("inspector %v: %v: %s%s", args, err, complaints.String(), out)
		}
		return string(out)
	}
	workflow := filepath.Join(server.Dir, "WORKFLOW.md")
	test.OK(t, os.WriteFile(workflow, []byte("---\ntracker:\n  kind: file\n---\nDo it.\n"), 0o600))
	list := inspect("--workflow", workflow, "--method", "tools/list", "--strict")
	test.Contains(t, "tools/list", list, `"spawn_agent"`, `"show_issue"`)
	spawned := inspect("--method", "tools/call", "--tool-name", "spawn_agent", "--tool-arg", "id=one")
	test.Contains(t, "spawn_agent", spawned, `"agentId": "one"`)
}

// The server passes the scenarios of the published conformance suite that need no tools of the
// suite's own server. The suite speaks HTTP.
func TestMCPConformance(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	suite := os.Getenv("SYMPHONY_TEST_MCP_CONFORMANCE")
	if suite == "" {
		t.Skip(
			"set SYMPHONY_TEST_MCP_CONFORMANCE to the program of @modelcontextprotocol/conformance to run this test",
		)
	}
	for _, scenario := range []string{"server-initialize", "ping", "tools-list"} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			bridge := httptest.NewServer(newMCPBridge(t))
			defer bridge.Close()
			cmd := exec.CommandContext(
				t.Context(),
				"node",
				suite,
				"server",
				"--url",
				bridge.URL,
				"--scenario",
				scenario,
			)
			cmd.Dir = t.TempDir()
			test.Run(t, cmd)
		})
	}
}

// mcpBridge is an HTTP server that passes requests on to one server on stdin and stdout, one
// after the other.
type mcpBridge struct {
	mu  sync.Mutex
	in  io.Writer
	out *bufio.Reader
}

func newMCPBridge(t *testing.T) *mcpBridge {
	cmd := mcpServerCommand(t)
	in := test.Must(cmd.StdinPipe())
	out := test.Must(cmd.StdoutPipe())
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
