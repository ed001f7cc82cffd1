package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/mcpserver/calls"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// fuzzSeeds are arguments by tool: such as a host sends, and such as models get wrong.
var fuzzSeeds = map[string][]string{
	"spawn_agent": {
		`{"id":"two","cwd":"/"}`,
		`{"id":"../x","shared":true}`,
		`{"prompt":" ","sandbox":"read-only"}`,
		`{"prompt":"x","approvalPolicy":"on-failure"}`,
		`{"cwd":"relative"}`,
		`{"cwd":7}`,
	},
	"list_agents": {`{}`, `{"all":true}`, `null`, `[]`},
	"kill_agent":  {`{"agentId":"one"}`, `{"agentId":""}`},
	"new_conversation": {
		`{"agentId":"one","params":{"id":"main","model":"gpt-5","sandbox":"read-only","approvalPolicy":"never",
			"config":{"a":[{}]}}}`,
		`{"agentId":"one"}`,
	},
	"send_user_message": {
		`{"agentId":"one","params":{"conversationId":"main","items":[{"type":"text","text":"hello"}]}}`,
		`{"agentId":"one","params":"{\"items\":[]}"}`,
	},
	"send_user_turn": {
		`{"agentId":"one","conversationId":"main","effort":"low",
			"items":[{"type":"image","url":"data:,"},{"type":"localImage","path":"x"}]}`,
		`"{}"`,
	},
	"interrupt": {`{"agentId":"one","params":{"conversationId":"main"}}`},
	"wait_agent": {
		`{"agentIds":["one"],"mode":"all","timeoutSeconds":1e300,"cursor":"one:0.0.0"}`,
		`{"agentIds":[],"cursor":",:"}`,
	},
	"read_events": {`{"agentId":"one","last":-1}`, `{"agentId":"one","cursor":"1.2.3.4"}`},
	"list_issues": {`{"issues":["ABC-1"],"all":true}`},
	"show_issue":  {`{"issue":"https://example.com/x/1","offline":true}`},
	"hold_issue":  {`{"issue":"ABC-1"}`, `{"issue":""}`},
	"tell_issue":  {`{"issue":"ABC-1","text":"Once more."}`, `{"issue":"ABC-1","text":""}`},
	"run_issue":   {`{"issue":"1"}`},
	"decide_request": {
		`{"requestId":"one.1","decision":"approve_for_session"}`,
		`{"requestId":"one.99999999999999999999","decision":"deny"}`,
		`{"requestId":"one.","decision":"answer","answers":[]}`,
	},
}

// FuzzArguments calls every tool with arbitrary arguments. Whatever they are, the result is
// one of the tool, or an error with a code that docs/errors.md explains, and the log has none
// of the arguments. The only agent has ended, and none can be started.
func FuzzArguments(f *testing.F) {
	host, log := toolHost(f, Options{Deliver: true}, true)
	tools := test.Must(host.ListTools(context.Background(), nil))
	names := []string{}
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	for i, name := range names {
		f.Add(uint8(i), `{}`)
		for _, arguments := range fuzzSeeds[name] {
			f.Add(uint8(i), arguments)
		}
	}
	f.Fuzz(func(t *testing.T, tool uint8, arguments string) {
		if !json.Valid([]byte(arguments)) || len(arguments) > 1<<14 {
			t.Skip()
		}
		name := names[int(tool)%len(names)]
		log.Reset()
		result := test.Must(host.CallTool(context.Background(), &mcp.CallToolParams{
			Name:      name,
			Arguments: json.RawMessage(arguments),
		}))
		text := test.Must(json.Marshal(result.StructuredContent))
		var failure calls.Failure
		if err := json.Unmarshal(text, &failure); err != nil {
			t.Fatalf("%s %s: %s is no object", name, arguments, text)
		}
		if result.IsError && (failure.Code == "" || failure.Code == "internal" || failure.Method != name) {
			t.Errorf("%s %s: %s", name, arguments, text)
		}
		if len(arguments) > 40 && strings.Contains(log.String(), arguments) {
			t.Errorf("the log has the arguments: %s", log)
		}
	})
}

// toolHost is a host of a server with these options, one agent that has ended, and one
// conversation.
func toolHost(f testing.TB, o Options, hasWorkflow bool) (*mcp.ClientSession, *bytes.Buffer) {
	f.Helper()
	ctx := context.Background()
	dir := f.TempDir()
	log := &bytes.Buffer{}
	// an agent starts no agents
	env := &environ.Env{Dir: dir, Home: dir, Now: time.Now, Environ: []string{"SYMPHONY_RUN_ID=1"}}
	o.CallTimeout = time.Second
	o.ApprovalTimeout = time.Second
	if hasWorkflow {
		o.Project = wiring.NewProject(env, filepath.Join(dir, "WORKFLOW.md"), filepath.Join(dir, "state"))
	}
	server, err := New(ctx, env, log, o)
	test.OK(f, err)
	f.Cleanup(func() { test.OK(f, server.starter.agents.Close()) })
	run := reconcile.Run{
		ID:            "20260101T000000.000-aaaaaa",
		Kind:          reconcile.FreeRun,
		IssueID:       "one",
		Identifier:    "one",
		Phase:         reconcile.Starting,
		WorkspacePath: dir,
		StartedAt:     time.Now(),
		Issue:         reconcile.Issue{ID: "one", Identifier: "one"},
	}
	db := server.starter.agents.DB
	_, err = db.Clients.AddAgent(ctx, run)
	test.OK(f, err)
	call := reconcile.Call{
		ID:        "one.main",
		RunID:     run.ID,
		Agent:     "one",
		Verb:      reconcile.CallConversation,
		CreatedAt: time.Now(),
	}
	test.Must(db.Clients.AddCall(ctx, call))
	call = reconcile.Call{
		ID:       "one.main",
		Status:   reconcile.CallCompleted,
		ThreadID: "th",
		EndedAt:  time.Now(),
		Result:   []byte("{}"),
	}
	test.OK(f, db.Journal.EndCall(ctx, call))
	near, far := mcp.NewInMemoryTransports()
	test.Must(server.mcp.Connect(ctx, near, nil))
	host := test.Must(mcp.NewClient(&mcp.Implementation{
		Name:    "test",
		Version: "1",
	}, nil).Connect(ctx, far, nil))
	f.Cleanup(func() { _ = host.Close() })
	return host, log
}
