package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/mcpserver/calls"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/proc"
)

// machine has an agent named one, whose worker is this process.
type machine struct {
	alive io.Closer // of the worker of the agent
	t     *testing.T
	env   *environ.Env
	log   *syncBuffer
	state *agents.Agents
	run   reconcile.Run
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	home := t.TempDir()
	m := &machine{t: t, log: &syncBuffer{}}
	m.env = &environ.Env{Environ: []string{"TMPDIR=" + home}, Home: home, Dir: home, Now: time.Now}
	m.state = test.Must(agents.Open(t.Context(), m.env))
	t.Cleanup(func() { test.OK(t, m.state.Close()) })
	m.run = reconcile.Run{
		ID:            "20261122-1",
		Kind:          reconcile.FreeRun,
		IssueID:       "one",
		Identifier:    "one",
		Phase:         reconcile.StreamingTurn,
		WorkspacePath: t.TempDir(),
		StartedAt:     time.Now(),
	}
	_, err := m.state.DB.Clients.AddAgent(t.Context(), m.run)
	test.OK(t, err)
	// Its turn goes on in all tests.
	for _, call := range []reconcile.Call{
		{
			ID:   "c",
			Verb: reconcile.CallConversation,
		}, {
			ID:           "t",
			Verb:         reconcile.CallTurn,
			Conversation: "c",
		},
	} {
		call.RunID = m.run.ID
		call.Agent = "one"
		call.Status = reconcile.CallQueued
		call.Params = json.RawMessage("{}")
		call.CreatedAt = time.Now()
		test.Must(m.state.DB.Clients.AddCall(t.Context(), call))
	}
	alive := wiring.AliveFile(wiring.AgentsDir(m.env), m.run.ID)
	test.OK(t, os.MkdirAll(filepath.Dir(alive), 0o700))
	test.OK(t, os.WriteFile(alive, nil, 0o600))
	m.alive = test.Must(proc.HoldAlive(alive, time.Second))
	t.Cleanup(func() { m.alive.Close() })
	return m
}

// asks makes the agent ask, and returns what it is told.
func (m *machine) asks(r agent.Request, timeout time.Duration) <-chan agent.Decision {
	told := make(chan agent.Decision, 1)
	desk := &agent.Desk{
		Store:    m.state.DB.Journal,
		Timeout:  timeout,
		Redactor: agent.NewRedactor([]string{"hunter2-hunter2"}),
		Log:      slog.New(slog.DiscardHandler),
		Now:      time.Now,
		Instant:  func() reconcile.Instant { return test.Must(view.Instant()) },
		Run:      func() reconcile.Run { return m.run },
	}
	before := len(test.Must(m.state.Requests(m.t.Context())))
	go func() {
		d := desk.Decide(m.t.Context(), r)
		if d.Sent != nil {
			d.Sent()
		}
		told <- d
	}()
	// A short timeout may have ended it before this process sees it.
	test.Until(
		m.t,
		"the request is stored",
		func() bool { return len(told) > 0 || len(test.Must(m.state.Requests(m.t.Context()))) > before },
	)
	return told
}

// host is a host of a server of its own.
type host struct {
	*mcp.ClientSession
	t *testing.T
}

type elicitHandler = func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error)

const legacy, modern = "2025-06-18", "2026-07-28"

// host starts a server and a host with the protocol. elicit is nil for a host that can't ask.
// The host declines at once if person is set to a long time.
func (m *machine) host(protocol string, person time.Duration, elicit elicitHandler) *host {
	m.t.Helper()
	s := test.Must(New(m.t.Context(), m.env, m.log, Options{
		CallTimeout: time.Minute, ApprovalTimeout: time.Hour,
	}))
	s.elicitor.person = person
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(m.t.Context(), in, out) }()
	client := mcp.NewClient(&mcp.Implementation{
		Name:    "test",
		Version: "1",
	}, &mcp.ClientOptions{ElicitationHandler: elicit})
	options := &mcp.ClientSessionOptions{ProtocolVersion: protocol}
	session := test.Must(client.Connect(m.t.Context(), &mcp.IOTransport{
		Reader: fromServer,
		Writer: toServer,
	}, options))
	m.t.Cleanup(func() {
		session.Close()
		toServer.Close()
		<-ended
	})
	return &host{session, m.t}
}

// call calls a tool and decodes its result, which is an error if code is not empty.
func (h *host) call(tool string, arguments map[string]any, code string, out any) {
	h.t.Helper()
	result, err := h.CallTool(h.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		h.t.Fatalf("%s: %v", tool, err)
	}
	data := test.Must(json.Marshal(result.StructuredContent))
	var failed calls.Failure
	test.OK(h.t, json.Unmarshal(data, &failed))
	if result.IsError != (code != "") ||
		code != "" && failed.Code != code {
		h.t.Fatalf("%s: %s", tool, data)
	}
	if out != nil {
		test.OK(h.t, json.Unmarshal(data, out))
	}
}

// decide calls decide_request without answers.
func (h *host) decide(request, decision, code string, out any) {
	h.t.Helper()
	h.call("decide_request", map[string]any{"requestId": request, "decision": decision}, code, out)
}

func (h *host) wait(seconds float64) (out waitAgentOut) {
	h.t.Helper()
	h.call("wait_agent", map[string]any{
		"agentIds":       []string{"one"},
		"timeoutSeconds": seconds,
	}, "", &out)
	return out
}

// waitForData waits until wait_agent returns because of a request, and returns it.
func (h *host) waitForData() requestState {
	h.t.Helper()
	var out waitAgentOut
	test.Until(h.t, "the host gets a request", func() bool {
		out = h.wait(20)
		return out.State == stateDone && len(out.Agents[0].Requests) == 1
	})
	return out.Agents[0].Requests[0]
}

func (h *host) requests() []requestState {
	h.t.Helper()
	return h.wait(0).Agents[0].Requests
}

var install = agent.Request{
	Kind:           agent.RequestCommand,
	ThreadID:       "thread-1",
	ItemID:         "call-1",
	Summary:        "make install",
	Command:        "make install",
	Cwd:            "/src",
	Reason:         "it needs hunter2-hunter2",
	OutsideSandbox: true,
}

func accepts(content map[string]any) elicitHandler {
	return func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: content}, nil
	}
}

func declines(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	return &mcp.ElicitResult{Action: "decline"}, nil
}

// A person at the host decides.
func TestHostDecides(t *testing.T) {
	t.Parallel()
	patch := agent.Request{
		Kind: agent.RequestFileChange, ThreadID: "thread-1", ItemID: "call-2", Summary: "add a.txt",
		Changes: []agent.FileChange{{Path: "a.txt", Kind: "add", Diff: "+hello\n\x1b[31m"}},
	}
	question := agent.Request{
		Kind:     agent.RequestQuestion,
		ThreadID: "thread-1",
		Summary:  "Which?",
		Questions: []agent.Question{
			{ID: "a", Text: "Which?", Options: []agent.Option{{Label: "red"}, {Label: "blue"}}},
			{ID: "b", Text: "How many?", Type: "integer"},
			{ID: "c", Text: "Why?", Optional: true},
		},
	}
	const command = "Command: make install\nReason: it needs [redacted]\n" +
		"execCommandApproval: agent one asks, outside the sandbox. Without a decision it is denied at "
	for _, c := range []struct {
		ask     agent.Request
		content map[string]any
		message string // the beginning, or a part
		want    string
	}{
		{install, nil, command, "{true false  map[] false operator}"},
		{patch, nil, "\nFile: a.txt (add)\n+hello\n\\x1b[31m\n", "{true false  map[] false operator}"},
		{question, map[string]any{
			"answer1": "blue",
			"answer2": 3,
		}, "Question: How many?\n", "{false false  map[a:[blue] b:[3]] false operator}"},
	} {
		m := newMachine(t)
		told := m.asks(c.ask, time.Hour)
		var message string
		h := m.host(modern, 0, func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			message = r.Params.Message
			test.Contains(t, "the form", fmt.Sprint(r.Params.Meta), "thread-1")
			test.Lacks(t, "the form", fmt.Sprint(r.Params.Meta), "hunter2")
			return accepts(c.content)(ctx, r)
		})
		h.wait(0.5)
		got := <-told
		got.Sent = nil
		test.Equal(t, "what the agent is told", strings.Replace(fmt.Sprint(got), " <nil>}", "}", 1), c.want)
		test.Contains(t, "the form", message, c.message)
		test.Equal(t, "the open requests", h.requests(), []requestState{})
	}
}

// A host that can't ask gets the request as data, and decides with the tool. One that answers at
// once is such a host; the log explains how to decide. A host with an older protocol is not asked.
func TestHostThatCannotAsk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		protocol string
		elicit   elicitHandler
	}{{modern, nil}, {modern, declines}, {modern, accepts(nil)}, {legacy, nil}, {legacy, accepts(nil)}} {
		m := newMachine(t)
		told := m.asks(install, time.Hour)
		h := m.host(c.protocol, time.Hour, c.elicit)
		is := h.waitForData()
		if is.Method != "execCommandApproval" || is.RequestID != "one.1" || is.CallID != "call-1" ||
			is.ConversationID != "thread-1" || is.Command != "make install" || is.Cwd != "/src" ||
			is.HowToDecide != "by decide_request, or in a terminal: symphony approve one.1 | symphony deny one.1" {
			t.Errorf("%s: %+v", c.protocol, is)
		}
		if c.elicit != nil && c.protocol == modern {
			test.Until(
				m.t,
				"the decline is logged",
				func() bool { return strings.Contains(m.log.String(), "symphony approve one.1") },
			)
		}
		test.Equal(t, c.protocol+": the requests", h.requests(), []requestState{is})
		h.decide("one.1", "answer", "usage", nil)
		h.decide("one.2", "approve", "request_not_found", nil)
		h.decide("one", "approve", "request_not_found", nil)
		var out decidedOut
		h.decide("one.1", "approve_for_session", "", &out)
		if got := <-told; !got.ForSession || !out.Taken || out.Decision != "approve_for_session" {
			t.Errorf("%s: the agent is told %+v, the host %+v", c.protocol, got, out)
		}
		h.decide("one.1", "deny", "request_ended", nil)
		test.Lacks(t, "the log", m.log.String(), "hunter2")
	}
}

// A person who declines denies. One who closes the form decides nothing.
func TestHostDeclines(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	told := m.asks(install, time.Hour)
	m.host(modern, 0, declines).wait(0.5)
	if got := <-told; got.Approve || got.Reason != "declined at the host" {
		t.Errorf("%+v", got)
	}
	m = newMachine(t)
	told = m.asks(install, time.Hour)
	m.host(modern, 0, func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "cancel"}, nil
	}).waitForData()
	test.Must(m.state.Decide(t.Context(), "one.1", requests.Decision{How: reconcile.DecideApprove}))
	if got := <-told; !got.Approve {
		t.Errorf("%+v", got)
	}
}

// Of two hosts and an operator the first one decides. The answer of a form that is still open
// changes nothing.
func TestFirstDecisionCounts(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	told := m.asks(install, time.Hour)
	asked := make(chan struct{})
	slow := m.host(modern, 0, func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		close(asked)
		test.Until(
			m.t,
			"the other host has decided",
			func() bool { return len(test.Must(m.state.Requests(m.t.Context()))) == 0 },
		)
		return declines(ctx, nil)
	})
	waited := make(chan waitAgentOut, 1)
	go func() { waited <- slow.wait(2) }()
	<-asked
	m.host(modern, 0, accepts(nil)).wait(0.5)
	if got := <-told; !got.Approve {
		t.Errorf("%+v", got)
	}
	// While the person is asked, the request is no news for the model.
	if after := <-waited; after.State != "running" || len(slow.requests()) > 0 {
		t.Errorf("the slow host gets %+v", after)
	}
}

// A request that is not decided in time is denied, and a late answer of the host changes
// nothing.
func TestHostAnswersLate(t *testing.T) {
	t.Parallel()
	asked := false
	// on a busy machine a request may expire before the host is asked
	for timeout := 300 * time.Millisecond; !asked && timeout < time.Minute; timeout *= 2 {
		asked = answerLate(t, timeout)
	}
	test.Equal(t, "the host is asked", asked, true)
}

// answerLate lets a host answer a request after it has expired. It returns false if the host
// was not asked before.
func answerLate(t *testing.T, timeout time.Duration) bool {
	t.Helper()
	m := newMachine(t)
	expired := make(chan struct{})
	var asked atomic.Bool
	told := m.asks(install, timeout)
	h := m.host(modern, 0, func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		asked.Store(true)
		<-expired
		return accepts(nil)(ctx, r)
	})
	go func() {
		if got := <-told; got.Approve || !got.Expired {
			t.Errorf("%+v", got)
		}
		close(expired)
	}()
	out := h.wait(0.5)
	<-expired
	if !asked.Load() {
		return false
	}
	if out.State != "running" || len(h.requests()) > 0 {
		t.Errorf("%+v", out)
	}
	return true
}

// An approval that no result of a call asked for is not taken for the decision of a person.
func TestUnaskedApproval(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.asks(install, time.Hour)
	e := newElicitor(m.state, slog.New(slog.DiscardHandler), false)
	e.takeAnswers(t.Context(), &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{
		InputResponses: mcp.InputResponseMap{"one.1": &mcp.ElicitResult{Action: "accept"}},
	}})
	test.Equal(t, "open requests", len(test.Must(m.state.Requests(t.Context()))), 1)
}

// Forms must not ask for secrets. The answer of the tool is encrypted, and is in no log.
func TestSecretQuestion(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	told := m.asks(agent.Request{
		Kind:      agent.RequestQuestion,
		Summary:   "Token?",
		Questions: []agent.Question{{ID: "q", Text: "Token?", Secret: true}},
	}, time.Hour)
	h := m.host(modern, 0, func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		t.Error("the host is asked for a secret")
		return declines(ctx, r)
	})
	test.Equal(t, "the question is secret", h.waitForData().Questions[0].Secret, true)
	h.call("decide_request", map[string]any{
		"requestId": "one.1",
		"decision":  "answer",
		"answers":   []string{"top-secret-1"},
	}, "", nil)
	stored := test.Must(m.state.DB.Views.FindRequest(t.Context(), "one", 1))
	got := <-told
	if fmt.Sprint(got.Answers) != "map[q:[top-secret-1]]" || stored.Answer.Answers != nil ||
		strings.Contains(m.log.String(), "top-secret") {
		t.Errorf("the agent is told %v, %+v is stored, the log is %s", got.Answers, stored.Answer, m.log)
	}
}

func TestAutoApprove(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"":     "false <nil>",
		"0":    "false <nil>",
		"1":    "true <nil>",
		"true": "true <nil>",
		"deny": "false usage",
	} {
		approve, err := autoApprove(value)
		if got := fmt.Sprint(approve, " ", err); !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s", value, got)
		}
	}
}

// Where only persons decide, the host's model gets no tool for it.
func TestOnlyPersonsDecide(t *testing.T) {
	t.Parallel()
	for byPerson, want := range map[bool]int{false: 1, true: 0} {
		host, _ := toolHost(t, Options{ByPerson: byPerson}, false)
		tools := 0
		for _, tool := range test.Must(host.ListTools(t.Context(), nil)).Tools {
			if tool.Name == "decide_request" {
				tools++
			}
		}
		test.Equal(t, fmt.Sprint("the tools with ByPerson ", byPerson), tools, want)
	}
}
