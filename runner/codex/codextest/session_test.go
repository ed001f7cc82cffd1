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

// patience bounds each step of a test.
const patience = time.Minute

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
		o.ReadTimeout = patience
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

// wantCode checks the code of an error.
func wantCode(t *testing.T, err error, code agent.Code) *agent.Error {
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
	case <-time.After(patience):
		t.Error("no exit after EOF")
	}
}

func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		script string
		code   agent.Code
		text   string
	}{
		{"fail other went wrong", agent.CodeTurnFailed, "went wrong"},
		{"fail httpConnectionFailed=401 unexpected status 401", agent.CodeAgentAuth, "401"},
		{"fail httpConnectionFailed=503 x", agent.CodeNetwork, "x"},
		{"fail responseStreamDisconnected= gone", agent.CodeNetwork, "gone"},
		{"fail usageLimitExceeded you hit it", agent.CodeAgentQuota, "you hit it"},
		{"fail serverOverloaded x", agent.CodeNetwork, "x"},
		{"fail other Missing environment variable: `KEY`.", agent.CodeAgentAuth, "KEY"},
		{"cancel", agent.CodeTurnCancelled, "interrupted"},
		{"crash", agent.CodePortExit, "agent ended"},
		{"ask-user Which way?", agent.CodeTurnInputRequired, "Which way?"},
		{"bogus", agent.CodeTurnFailed, `line 1: unknown directive "bogus"`},
	} {
		t.Run(c.script, func(t *testing.T) {
			r := start(t, codextest.ServeOptions{}, agent.Options{})
			_, err := r.turn(c.script)
			e := wantCode(t, err, c.code)
			if !strings.Contains(e.Message, c.text) {
				t.Errorf("message %q, want %q in it", e.Message, c.text)
			}
		})
	}
}

func TestStream(t *testing.T) {
	for _, c := range []struct{ name, script, event string }{
		{"garbage", "garbage this is no JSON", "malformed this is no JSON"},
		{"an answer without a request", `garbage {"id":"x","result":{}}`, `other_message answer to no request of ours, id "x"`},
		{"late answer", "late-response", "turn_completed"},
		{"sub-agent", "subagent child says", "notification child says"},
		{"long line", "long 3000000", "notification command exited 0: cat large"},
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

// An interrupt leaves the command running; the server kills it when it ends.
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

// waitFor polls a condition that another goroutine makes true.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited in vain")
		}
	}
}

// The server obeys the answer to each of its requests.
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
		"ask-form Where?", "say end",
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
		{true, "command command file_change permissions question question", 3, []string{
			"permissions: 2 granted for the turn", `answered: ["Yes"]`, `form: accept {"n":2,"region":"us"}`,
		}},
		{false, "command command command file_change permissions question question", 0, []string{
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
