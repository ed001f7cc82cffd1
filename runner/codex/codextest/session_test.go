package codextest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/codex/codextest"
)

// rig is a session with a server in this process.
type rig struct {
	*codex.Session
	t    *testing.T
	dir  string
	exit chan int
	log  *lockedBuffer

	mu     sync.Mutex
	events []agent.Event
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// never is a bound no healthy step of a test comes near.
const never = time.Minute

func dial(t *testing.T, so codextest.ServeOptions, o agent.Options) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), exit: make(chan int, 1), log: &lockedBuffer{}}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		r.exit <- codextest.Serve(ctx, inR, outW, r.log, so)
		_ = inR.Close()
		_ = outW.Close()
	}()
	if o.ReadTimeout == 0 {
		o.ReadTimeout = never
	}
	o.ClientVersion = "1.2.3"
	o.OnEvent = func(e agent.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e)
	}
	r.Session = codex.New(agent.Streams{Stdin: inW, Stdout: outR}, o)
	t.Cleanup(func() {
		_ = r.Close()
		stop()
		<-r.Done()
		if t.Failed() {
			t.Logf("stderr:\n%s", r.log)
		}
	})
	return r
}

func start(t *testing.T, so codextest.ServeOptions, o agent.Options) *rig {
	t.Helper()
	r := dial(t, so, o)
	if _, err := r.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.StartThread(t.Context(), r.params()); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) params() agent.ThreadParams {
	return agent.ThreadParams{
		Cwd: r.dir, ApprovalPolicy: json.RawMessage(`"never"`),
		Config: map[string]any{"shell_environment_policy": map[string]any{"set": map[string]any{"RIG_MARK": "m1"}}},
	}
}

func script(lines ...string) string {
	return "Do this.\n\n```agent\n" + strings.Join(lines, "\n") + "\n```\n"
}

func (r *rig) turn(lines ...string) (agent.Turn, error) {
	return r.RunTurn(r.t.Context(), agent.TurnParams{
		Input: script(lines...), Cwd: r.dir, ApprovalPolicy: json.RawMessage(`"never"`),
		SandboxPolicy: json.RawMessage(`{"type":"workspaceWrite"}`),
	})
}

func (r *rig) named(name string) []agent.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []agent.Event
	for _, e := range r.events {
		if e.Name == name {
			out = append(out, e)
		}
	}
	return out
}

func (r *rig) messages() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, e := range r.events {
		out = append(out, e.Name+" "+e.Message)
	}
	return strings.Join(out, "\n")
}

// want checks the code of an error.
func want(t *testing.T, err error, code agent.Code) *agent.Error {
	t.Helper()
	var e *agent.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("error %v, want %s", err, code)
	}
	return e
}

func TestPlainTurn(t *testing.T) {
	r := dial(t, codextest.ServeOptions{}, agent.Options{})
	server, err := r.Initialize(t.Context())
	if err != nil || server.Version != codextest.Version || !strings.HasPrefix(server.UserAgent, "symphony/") {
		t.Fatalf("Initialize: %+v, %v", server, err)
	}
	id, err := r.StartThread(t.Context(), r.params())
	if err != nil || id == "" {
		t.Fatal(id, err)
	}
	turn, err := r.turn("think hm", "sh echo $RIG_MARK-$CODEX_CI > out; exit 3", "patch sub/f.txt hello", "say all good")
	if err != nil || turn.Status != "completed" || turn.LastMessage != "all good" || turn.ID == "" {
		t.Fatalf("turn: %+v, %v", turn, err)
	}
	for name, text := range map[string]string{"out": "m1-1\n", "sub/f.txt": "hello\n"} {
		if got, err := os.ReadFile(filepath.Join(r.dir, name)); err != nil || string(got) != text {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if u := r.Usage(); u != (agent.Usage{Input: 1000, CachedInput: 250, Output: 50, Reasoning: 10, Total: 1050}) {
		t.Errorf("usage %+v", u)
	}
	if turn, err := r.turn("tokens 10 5", "say two"); err != nil || turn.LastMessage != "two" {
		t.Fatalf("second turn: %+v, %v", turn, err)
	}
	if u := r.Usage(); u.Total != 1065 {
		t.Errorf("usage after two turns: %+v", u)
	}
	for _, text := range []string{
		"session_started session " + id + "-" + turn.ID, "notification command exited 3: echo $RIG_MARK-$CODEX_CI > out; exit 3",
		"notification 1 file change completed: f.txt", "notification all good", "turn_completed turn completed",
		"notification tokens: 1000 in (250 cached), 50 out, 1050 in all",
	} {
		if !strings.Contains(r.messages(), text) {
			t.Errorf("no event %q in\n%s", text, r.messages())
		}
	}
	if r.RateLimits() == nil {
		t.Error("no rate limits")
	}
	if err := r.Interrupt(t.Context()); err != nil {
		t.Errorf("Interrupt without a turn: %v", err)
	}
	_ = r.Close()
	select {
	case code := <-r.exit:
		if code != 0 {
			t.Errorf("exit %d after EOF", code)
		}
	case <-time.After(never):
		t.Error("no exit after EOF")
	}
}

func TestTool(t *testing.T) {
	tools := []agent.Tool{{Name: "linear_graphql", Description: "d", InputSchema: json.RawMessage(`{"type":"object"}`)}}
	call := func(_ context.Context, name string, args json.RawMessage) agent.ToolResult {
		return agent.ToolResult{Text: name + string(args), Success: !strings.Contains(string(args), "bad")}
	}
	r := start(t, codextest.ServeOptions{}, agent.Options{Tools: tools, CallTool: call})
	_, err := r.turn(`tool linear_graphql {"query":"{viewer{id}}"}`, `tool linear_graphql {"query":"bad"}`, `tool other {}`, "say on")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.named(agent.EventToolCallCompleted)) != 1 || len(r.named(agent.EventToolCallFailed)) != 1 ||
		len(r.named(agent.EventUnsupportedToolCall)) != 1 {
		t.Errorf("events:\n%s", r.messages())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var statuses []string
	for _, e := range r.events {
		if i := e.Item; i != nil && i.Ended && i.Kind == agent.ItemTool {
			status := i.Status
			if strings.Contains(i.Result, "unsupported_tool_call") {
				status = "unsupported"
			}
			statuses = append(statuses, status)
		}
	}
	if got := strings.Join(statuses, " "); got != "completed failed unsupported" {
		t.Errorf("items: %s", got)
	}
}

func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		script string
		code   agent.Code
		text   string
	}{
		{"fail other went wrong", agent.CodeTurnFailed, "went wrong"},
		{"fail contextWindowExceeded too long", agent.CodeTurnFailed, "too long"},
		{"fail httpConnectionFailed=401 unexpected status 401", agent.CodeAgentAuth, "401"},
		{"fail httpConnectionFailed=503 x", agent.CodeNetwork, "x"},
		{"fail httpConnectionFailed=404 x", agent.CodeTurnFailed, "x"},
		{"fail responseStreamDisconnected= gone", agent.CodeNetwork, "gone"},
		{"fail responseTooManyFailedAttempts=429 x", agent.CodeAgentQuota, "x"},
		{"fail usageLimitExceeded you hit it", agent.CodeAgentQuota, "you hit it"},
		{"fail serverOverloaded x", agent.CodeNetwork, "x"},
		{"fail other Missing environment variable: `KEY`.", agent.CodeAgentAuth, "KEY"},
		{"cancel", agent.CodeTurnCancelled, "interrupted"},
		{"crash", agent.CodePortExit, "agent ended"},
		{"ask-user Which way?", agent.CodeTurnInputRequired, "Which way?"},
		{`notify turn/failed {"error":{"message":"old shape"}}` + "\nhang", agent.CodeTurnFailed, "old shape"},
		{`notify turn/cancelled {}` + "\nhang", agent.CodeTurnCancelled, ""},
		{"bogus", agent.CodeTurnFailed, `line 1: unknown directive "bogus"`},
	} {
		t.Run(c.script, func(t *testing.T) {
			r := start(t, codextest.ServeOptions{}, agent.Options{})
			_, err := r.turn(c.script)
			e := want(t, err, c.code)
			if !strings.Contains(e.Message, c.text) {
				t.Errorf("message %q, want %q in it", e.Message, c.text)
			}
		})
	}
}

func TestQuotaReset(t *testing.T) {
	r := start(t, codextest.ServeOptions{}, agent.Options{})
	_, err := r.turn(`ratelimits {"limitId":"codex","primary":{"usedPercent":100,"resetsAt":1795160235,"windowDurationMins":300}}`,
		`ratelimits {"limitId":"codex","primary":null,"secondary":{"usedPercent":13,"resetsAt":1795999999}}`,
		"fail usageLimitExceeded x")
	e := want(t, err, agent.CodeAgentQuota)
	if !e.ResetsAt.Equal(time.Unix(1795160235, 0)) {
		t.Errorf("resets at %v", e.ResetsAt)
	}
	var limits struct {
		Primary, Secondary struct{ UsedPercent int }
	}
	if err := json.Unmarshal(r.RateLimits(), &limits); err != nil || limits.Primary.UsedPercent != 100 || limits.Secondary.UsedPercent != 13 {
		t.Errorf("limits %s, %v", r.RateLimits(), err)
	}
}

func TestApprovals(t *testing.T) {
	all := []string{
		"ask-command touch a", "ask-command touch a", "ask-file b", "ask-permissions",
		`request mcpServer/elicitation/request {"serverName":"m","message":"form"}`, "unknown-request",
		`request currentTime/read {}`, `request account/chatgptAuthTokens/refresh {}`, "say end",
	}
	exists := func(r *rig, name string) bool {
		_, err := os.Stat(filepath.Join(r.dir, name))
		return err == nil
	}
	t.Run("approve", func(t *testing.T) {
		r := start(t, codextest.ServeOptions{}, agent.Options{OnApproval: agent.ApprovalApprove})
		if _, err := r.turn(all...); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b"} {
			if !exists(r, name) {
				t.Errorf("no %s", name)
			}
		}
		// The second identical command is not asked for.
		if n := len(r.named(agent.EventApprovalAutoApproved)); n != 3 {
			t.Errorf("%d approvals:\n%s", n, r.messages())
		}
		for _, text := range []string{"permissions: 2 granted for the turn", `"action":"decline"`, "refused: {\"code\":-32601", `"currentTimeAt":`} {
			if !strings.Contains(r.messages(), text) {
				t.Errorf("no %s in\n%s", text, r.messages())
			}
		}
	})
	t.Run("deny", func(t *testing.T) {
		r := start(t, codextest.ServeOptions{}, agent.Options{OnApproval: agent.ApprovalDeny})
		turn, err := r.turn(all...)
		if err != nil || turn.LastMessage != "end" {
			t.Fatal(turn, err)
		}
		for _, name := range []string{"a", "b"} {
			if exists(r, name) {
				t.Errorf("%s was written", name)
			}
		}
		if !strings.Contains(r.messages(), "permissions: 0 granted for the turn") {
			t.Errorf("events:\n%s", r.messages())
		}
	})
	for _, ask := range []string{"ask-command touch a", "ask-file b", "ask-permissions"} {
		t.Run("fail "+ask, func(t *testing.T) {
			r := start(t, codextest.ServeOptions{}, agent.Options{OnApproval: agent.ApprovalFail})
			_, err := r.turn(ask, "sleep 1h", "say not reached")
			_ = want(t, err, agent.CodeApprovalRequired)
			if exists(r, "a") || exists(r, "b") || exists(r, "c") {
				t.Error("was done all the same")
			}
			// The session is still of use.
			if _, err := r.turn("say again"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStream(t *testing.T) {
	for _, c := range []struct{ name, script, event string }{
		{"garbage", "garbage this is no JSON", "malformed this is no JSON"},
		{"array", "garbage [1,2]", "malformed [1,2]"},
		{"null id", `garbage {"id":null,"result":{}}`, `other_message {"id":null,"result":{}}`},
		{"stray answer", `garbage {"id":"x","result":{}}`, `other_message answer to no request of ours, id "x"`},
		{"unknown notification", `notify thread/somethingNew {"a":1}`, "notification thread/somethingNew"},
		{"early answer", "early-response", "turn_completed"},
		{"late answer", "late-response", "turn_completed"},
		{"sub-agent", "subagent child says", "notification child says"},
		{"long line", "long 3000000", "notification command exited 0: cat large"},
		{"retries", "retry-notices 3 1ms", "agent_error retrying: Reconnecting... waiting for network"},
		{"no params", "notify turn/completed {}", "turn_completed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, codextest.ServeOptions{}, agent.Options{})
			turn, err := r.turn(c.script, "say the end")
			if err != nil || turn.Status != "completed" {
				t.Fatal(turn, err)
			}
			if !strings.Contains(r.messages(), c.event) {
				t.Errorf("no event %q in\n%s", c.event, r.messages())
			}
		})
	}
}

func TestSubAgentTokens(t *testing.T) {
	r := start(t, codextest.ServeOptions{}, agent.Options{})
	turn, err := r.turn("subagent child", "tokens 100 10", "say parent")
	if err != nil || turn.LastMessage != "parent" {
		t.Fatal(turn, err)
	}
	if u := r.Usage(); u.Total != 1160 || len(r.UsageByThread()) != 2 {
		t.Errorf("usage %+v %v", u, r.UsageByThread())
	}
}

// A turn that codex starts by itself is interrupted, and the next turn is not
// sent into it.
func TestStolenTurn(t *testing.T) {
	r := start(t, codextest.ServeOptions{}, agent.Options{})
	for range 3 {
		turn, err := r.turn("steal-turn", "say mine")
		if err != nil || turn.LastMessage != "mine" {
			t.Fatal(turn, err)
		}
	}
	if n := len(r.named(agent.EventTurnCompleted)); n != 3 {
		t.Errorf("%d turns completed:\n%s", n, r.messages())
	}
}

func TestInterrupt(t *testing.T) {
	r := start(t, codextest.ServeOptions{}, agent.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		waitFor(t, func() bool { return len(r.named(agent.EventSessionStarted)) == 1 })
		cancel()
	}()
	_, err := r.RunTurn(ctx, agent.TurnParams{Input: script("hang"), Cwd: r.dir})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("RunTurn: %v", err)
	}
	if _, err := r.turn("say x"); err == nil || !strings.Contains(err.Error(), "still under way") {
		t.Errorf("a second turn: %v", err)
	}
	if err := r.Interrupt(t.Context()); err != nil {
		t.Fatal(err)
	}
	if turn, err := r.turn("say next"); err != nil || turn.LastMessage != "next" {
		t.Errorf("turn after an interrupt: %+v, %v", turn, err)
	}
}

// Interrupted, a command goes on; only the server's end kills it.
func TestInterruptLeavesCommand(t *testing.T) {
	r := start(t, codextest.ServeOptions{}, agent.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		waitFor(t, func() bool { _, err := os.Stat(filepath.Join(r.dir, "pid")); return err == nil })
		cancel()
	}()
	if _, err := r.RunTurn(ctx, agent.TurnParams{Input: script("sh echo $$ > p; mv p pid; exec sleep 1000"), Cwd: r.dir}); err == nil {
		t.Fatal("no error")
	}
	if err := r.Interrupt(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	proc := "/proc/" + strings.TrimSpace(string(text))
	if _, err := os.Stat(proc); err != nil {
		t.Errorf("the command ended with the turn: %v", err)
	}
	_ = r.Close()
	<-r.Done()
	if _, err := os.Stat(proc); err == nil {
		t.Error("the command outlived the server")
	}
}

func TestResume(t *testing.T) {
	home := t.TempDir()
	first := start(t, codextest.ServeOptions{Home: home}, agent.Options{})
	id := first.ThreadID()
	if _, err := first.turn("say one", "turn 2:", "say two"); err != nil {
		t.Fatal(err)
	}
	second := dial(t, codextest.ServeOptions{Home: home}, agent.Options{})
	if _, err := second.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := second.ResumeThread(t.Context(), id, second.params()); !errors.Is(err, agent.ErrThreadBusy) {
		t.Fatalf("resume of a thread in use: %v", err)
	}
	_ = first.Close()
	<-first.exit
	if err := second.ResumeThread(t.Context(), "01a00000-0000-7000-8000-000000000000", second.params()); !errors.Is(err, agent.ErrNoThread) {
		t.Fatalf("resume of nothing: %v", err)
	}
	if err := second.ResumeThread(t.Context(), id, second.params()); err != nil {
		t.Fatal(err)
	}
	turn, err := second.RunTurn(t.Context(), agent.TurnParams{Input: "This is continuation turn #2 of 3.", Cwd: second.dir})
	if err != nil || turn.LastMessage != "two" {
		t.Fatalf("%+v, %v", turn, err)
	}
	if u := second.Usage(); u.Total != 2100 {
		t.Errorf("usage goes on from the stored total: %+v", u)
	}
}

func TestHandshakeFaults(t *testing.T) {
	t.Run("initialize refused", func(t *testing.T) {
		r := dial(t, codextest.ServeOptions{Faults: codextest.Faults{InitializeError: "unknown variant `initialize`" + strings.Repeat("x", 9000)}}, agent.Options{})
		_, err := r.Initialize(t.Context())
		if e := want(t, err, agent.CodeIncompatible); len(e.Message) > 500 {
			t.Errorf("message of %d bytes", len(e.Message))
		}
	})
	t.Run("silent", func(t *testing.T) {
		r := dial(t, codextest.ServeOptions{Faults: codextest.Faults{SilentInitialize: true}}, agent.Options{InitializeTimeout: 20 * time.Millisecond})
		_, err := r.Initialize(t.Context())
		_ = want(t, err, agent.CodeResponseTimeout)
	})
	t.Run("exit", func(t *testing.T) {
		r := dial(t, codextest.ServeOptions{Faults: codextest.Faults{Exit: true}}, agent.Options{})
		_, err := r.Initialize(t.Context())
		_ = want(t, err, agent.CodePortExit)
	})
	t.Run("no thread", func(t *testing.T) {
		r := dial(t, codextest.ServeOptions{Faults: codextest.Faults{ThreadError: "error creating thread: Fatal error: required MCP servers failed"}}, agent.Options{})
		if _, err := r.Initialize(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := r.StartThread(t.Context(), r.params())
		_ = want(t, err, agent.CodeResponseError)
		waitFor(t, func() bool { return len(r.named(agent.EventStartupFailed)) == 1 })
	})
	t.Run("policy of another age", func(t *testing.T) {
		r := dial(t, codextest.ServeOptions{}, agent.Options{})
		if _, err := r.Initialize(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := r.StartThread(t.Context(), agent.ThreadParams{Cwd: r.dir, ApprovalPolicy: json.RawMessage(`"on-failure"`)})
		_ = want(t, err, agent.CodeIncompatible)
	})
}

// waitFor polls a condition that another goroutine makes true.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(never); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited in vain")
		}
	}
}

// A person decides what the server asks, one after the other; each answer is obeyed.
func TestAsk(t *testing.T) {
	var mu sync.Mutex
	var asked []agent.Request
	decide := func(yes bool) agent.Asker {
		return func(_ context.Context, a agent.Request) agent.Decision {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, a)
			d := agent.Decision{Approve: yes, ForSession: a.Summary == "touch a", By: "operator"}
			if yes {
				d.Answers = map[string][]string{"q1": {"Yes"}, "region": {"us"}, "n": {"2"}}
			}
			return d
		}
	}
	script := []string{
		"ask-command touch a", "ask-command touch a", "ask-command touch d", "ask-file b", "ask-permissions", "ask-user Which way?",
		"ask-form Where?", "subagent-ask touch e", "say end",
	}
	kinds := func() string {
		mu.Lock()
		defer mu.Unlock()
		var out []string
		for _, a := range asked {
			out = append(out, string(a.Kind))
		}
		asked = nil
		return strings.Join(out, " ")
	}
	for _, c := range []struct {
		yes   bool
		kinds string
		files int
		said  []string
	}{
		{true, "command command file_change permissions question question command", 4, []string{
			"permissions: 2 granted for the turn", `answered: ["Yes"]`, `form: accept {"n":2,"region":"us"}`,
		}},
		{false, "command command command file_change permissions question question command", 0, []string{
			"permissions: 0 granted for the turn", "answered: []", "form: decline null",
		}},
	} {
		r := start(t, codextest.ServeOptions{}, agent.Options{OnApproval: agent.ApprovalAsk, OnQuestion: agent.QuestionAsk, Ask: decide(c.yes)})
		turn, err := r.turn(script...)
		if err != nil || turn.LastMessage != "end" {
			t.Fatal(turn, err)
		}
		if got := kinds(); got != c.kinds {
			t.Errorf("asked %s\nwant  %s", got, c.kinds)
		}
		files, err := os.ReadDir(r.dir)
		if err != nil || len(files) != c.files {
			t.Errorf("%d files, %v", len(files), err)
		}
		for _, text := range c.said {
			if !strings.Contains(r.messages(), text) {
				t.Errorf("no %q in\n%s", text, r.messages())
			}
		}
	}
}
