package codex_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex"
)

// flow is what a recorded conversation needs besides its messages: the policies of its
// session, the operator's decisions, and the code of its last turn's error ("" for none).
type flow struct {
	approval  agent.Approval
	question  agent.QuestionPolicy
	decisions []agent.Decision // in order; further requests stay undecided
	// the worker interrupts the turn; otherwise the session does so itself
	stopped bool
	outcome agent.Code
}

// asked returns a flow in which an operator decides.
func asked(decisions ...agent.Decision) flow {
	return flow{approval: agent.ApprovalAsk, question: agent.QuestionAsk, decisions: decisions}
}

func answered(question, answer string) agent.Decision {
	return agent.Decision{Answers: map[string][]string{question: {answer}}}
}

// flows returns those that need more than a session that approves.
func flows() map[string]flow {
	yes := agent.Decision{Approve: true}
	no := agent.Decision{}
	unanswered := asked()
	unanswered.outcome = agent.CodePortExit
	return map[string]flow{
		"agent_auth":     {outcome: agent.CodeAgentAuth},
		"agent_killed_1": {outcome: agent.CodePortExit},
		"agent_killed_2": {outcome: agent.CodePortExit},
		"agent_quota":    {outcome: agent.CodeAgentQuota},
		"approval_deny":  {approval: agent.ApprovalDeny},
		"approval_fail":  {approval: agent.ApprovalFail, outcome: agent.CodeApprovalRequired},
		"ask_approve":    asked(yes, agent.Decision{Approve: true, ForSession: true}),
		"ask_deny":       asked(no, no),
		"ask_more":       asked(yes),
		"ask_question":   asked(answered("q1", "No"), answered("q1", "by the river"), no),
		"ask_stopped_1": {
			approval: agent.ApprovalAsk,
			stopped:  true,
			outcome:  agent.CodeTurnCancelled,
		},
		"ask_sub_agent":       asked(yes),
		"ask_untrusted":       asked(yes, agent.Decision{Approve: true, ForSession: true}, yes),
		"ask_worker_killed_1": unanswered,
		"ask_worker_killed_2": asked(yes),
		"mcp_tool_2":          asked(yes, agent.Decision{Approve: true, ForSession: true}),
		"mcp_tool_4":          {approval: agent.ApprovalDeny},
		"no_network":          {outcome: agent.CodeNetwork},
		"permissions_denied":  {approval: agent.ApprovalDeny},
		"question_fail":       {outcome: agent.CodeTurnInputRequired},
		"quota_unknown":       {outcome: agent.CodeAgentQuota},
		"stop_hanging":        {stopped: true, outcome: agent.CodeTurnCancelled},
		"stream_cut":          {outcome: agent.CodeNetwork},
		"turn_failed":         {outcome: agent.CodeTurnFailed},
		"worker_terminated_1": {stopped: true, outcome: agent.CodeTurnCancelled},
	}
}

// TestRecorded plays the messages that scripts recorded with the real codex
// (testdata/recorded) to a session. It must send and answer what the recorded session did,
// understand every line, and end alike. The recordings must not contain keys, nor paths of the
// machine that made them.
func TestRecorded(t *testing.T) {
	files, err := filepath.Glob("testdata/recorded/*.jsonl")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	known := flows()
	for name := range known {
		test.Equal(
			t,
			"there is a recording of "+name,
			slices.Contains(files, "testdata/recorded/"+name+".jsonl"),
			true,
		)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := test.Must(os.ReadFile(file))
			// Plain searches: a regular expression over all recordings takes half a minute
			// under the race detector.
			for _, text := range []string{
				`"/tmp/`, `"/root/`, `"/home/`, ` /tmp/`, ` /root/`, ` /home/`, `'/tmp/`, `'/root/`,
				`'/home/`, "lin_api_",
			} {
				test.Equal(t, "it contains "+text, bytes.Contains(data, []byte(text)), false)
			}
			newStage(t, known[name], data).play()
		})
	}
}

// recordedLine is a line of a recording: what the session sent, or what it received.
type recordedLine struct {
	Dir string
	Raw json.RawMessage `json:"msg"`
	recordedMsg
}

// recordedMsg is the part of a message that the test compares.
type recordedMsg struct {
	ID     json.RawMessage
	Method string
	Params struct {
		ThreadID       string
		Name           string // of thread/name/set
		Cwd            string
		ApprovalPolicy json.RawMessage
		SandboxPolicy  json.RawMessage
	}
	Result, Error json.RawMessage
}

// stage is a session whose agent is a recording.
type stage struct {
	t     *testing.T
	f     flow
	s     *codex.Session
	lines []recordedLine
	name  string           // what the recorded session called its thread
	out   *io.PipeWriter   // the agent's stdout
	heard chan recordedMsg // what the session sends
	call  chan struct{}    // closed when the last call of the session's has returned
	turn  error            // of the last turn
	tools chan agent.ToolResult

	mu      sync.Mutex
	events  []agent.Event
	decided int
}

func newStage(t *testing.T, f flow, data []byte) *stage {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	st := &stage{
		t:     t,
		f:     f,
		out:   outW,
		heard: make(chan recordedMsg, 1000),
		call:  make(chan struct{}),
		tools: make(chan agent.ToolResult, 100),
	}
	close(st.call)
	for text := range bytes.Lines(data) {
		var l recordedLine
		var tool struct {
			ContentItems []struct{ Text string }
			Success      bool
		}
		if err := errors.Join(json.Unmarshal(text, &l), json.Unmarshal(l.Raw, &l.recordedMsg)); err != nil &&
			l.Dir == "send" {
			t.Fatal(err)
		}
		st.lines = append(st.lines, l)
		if l.Dir == "send" {
			st.name += l.Params.Name
			// of the recorded session's tools
			if json.Unmarshal(l.Result, &tool) == nil && len(tool.ContentItems) == 1 {
				st.tools <- agent.ToolResult{Text: tool.ContentItems[0].Text, Success: tool.Success}
			}
		}
	}
	go func() {
		defer close(st.heard)
		for in := json.NewDecoder(inR); ; {
			var m recordedMsg
			if in.Decode(&m) != nil {
				return
			}
			st.heard <- m
		}
	}()
	st.s = codex.New(agent.Streams{Stdin: inW, Stdout: outR}, agent.Options{
		ReadTimeout: test.Patience(),
		OnApproval:  f.approval,
		OnQuestion:  f.question,
		Ask:         st.decide,
		Tools:       []agent.Tool{{Name: "linear_graphql", InputSchema: json.RawMessage(`{}`)}},
		CallTool:    func(context.Context, string, json.RawMessage) agent.ToolResult { return <-st.tools },
		OnEvent: func(e agent.Event) {
			st.mu.Lock()
			defer st.mu.Unlock()
			st.events = append(st.events, e)
		},
	})
	return st
}

// decide returns the operator's next decision of the recording.
func (st *stage) decide(ctx context.Context, a agent.Request) agent.Decision {
	if a.Summary == "" {
		st.t.Error("the operator is shown no summary")
	}
	st.mu.Lock()
	n := st.decided
	st.decided++
	st.mu.Unlock()
	if n >= len(st.f.decisions) {
		<-ctx.Done()
		return agent.Decision{}
	}
	return st.f.decisions[n]
}

func (st *stage) play() {
	for i, want := range st.lines {
		if want.Dir == "recv" {
			if _, err := st.out.Write(append(bytes.Clone(want.Raw), '\n')); err != nil {
				st.t.Fatalf("line %d: %v", i+1, err)
			}
			continue
		}
		switch want.Method {
		case "config/read": // the session asks before it resumes the thread
			resume := slices.IndexFunc(
				st.lines[i:],
				func(l recordedLine) bool { return l.Method == "thread/resume" },
			)
			st.begin(st.lines[i+resume].recordedMsg)
		case "thread/resume":
		default:
			st.begin(want.recordedMsg)
		}
		select {
		case got, open := <-st.heard:
			same := open && got.Method == want.Method && string(got.ID) == string(want.ID) &&
				got.Params.ThreadID == want.Params.ThreadID
			if !same || !alike(got.Result, want.Result) || !alike(got.Error, want.Error) {
				st.t.Fatalf(
					"line %d: the session sent %s %s %s %s,\nthe recorded one %s",
					i+1,
					got.ID,
					got.Method,
					got.Result,
					got.Error,
					want.Raw,
				)
			}
		case <-time.After(test.Patience()):
			st.t.Fatalf("line %d: %s was not sent", i+1, want.Raw)
		}
	}
	_ = st.out.Close() // a pipe in memory
	st.returned()
	st.ended()
}

func alike(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// begin calls the method of the session that sends a recorded request, unless the session
// sends it by itself.
func (st *stage) begin(m recordedMsg) {
	ctx := st.t.Context()
	p := m.Params
	thread := agent.ThreadParams{Name: st.name, Cwd: p.Cwd, ApprovalPolicy: p.ApprovalPolicy}
	var call func() error
	switch m.Method {
	case "initialize":
		call = func() error { _, err := st.s.Initialize(ctx); return err }
	case "command/exec":
		call = func() error { return st.s.ProbeSandbox(ctx, p.Cwd, p.SandboxPolicy) }
	case "thread/start":
		call = func() error { _, err := st.s.StartThread(ctx, thread); return err }
	case "thread/resume":
		call = func() error {
			err := st.s.ResumeThread(ctx, p.ThreadID, thread)
			if errors.Is(err, agent.ErrThreadBusy) {
				return nil // a new thread follows
			}
			return err
		}
	case "turn/start":
		call = func() error {
			_, st.turn = st.s.RunTurn(ctx, agent.TurnParams{
				Input:          "x",
				Cwd:            p.Cwd,
				ApprovalPolicy: p.ApprovalPolicy,
			})
			return nil
		}
	case "turn/interrupt":
		if st.f.stopped {
			// the outcome of the turn shows whether it worked
			go func() { _ = st.s.Interrupt(ctx) }()
		}
		return
	default:
		return
	}
	st.returned()
	done := make(chan struct{})
	st.call = done
	go func() {
		defer close(done)
		if err := call(); err != nil {
			st.t.Error(err)
		}
	}()
}

// returned waits until the last call has returned.
func (st *stage) returned() {
	select {
	case <-st.call:
	case <-time.After(test.Patience()):
		st.t.Fatal("a method of the session does not return")
	}
}

// ended checks the outcome and the events of the session.
func (st *stage) ended() {
	<-st.s.Done()
	if err := st.s.Close(); err != nil {
		st.t.Error(err)
	}
	for m := range st.heard {
		st.t.Errorf("the session has sent more: %s %s %s %s", m.ID, m.Method, m.Result, m.Error)
	}
	var e *agent.Error
	got := agent.Code("")
	if errors.As(st.turn, &e) {
		got = e.Code
	}
	if got != st.f.outcome || st.turn != nil && e == nil {
		st.t.Errorf("the last turn ended with %q (%v), not %q", got, st.turn, st.f.outcome)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, e := range st.events {
		switch e.Name {
		case agent.EventMalformed, agent.EventOtherMessage, agent.EventRequestRefused:
			st.t.Errorf("not understood: %s %s", e.Name, e.Raw)
		}
	}
	if len(st.events) == 0 || st.decided < len(st.f.decisions) {
		st.t.Errorf("%d events, %d of %d decisions", len(st.events), st.decided, len(st.f.decisions))
	}
}
