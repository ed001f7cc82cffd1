package acp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/wire"
)

// waitForEnd is an operator who never answers.
func waitForEnd(ctx context.Context, _ agent.Request) agent.Decision {
	<-ctx.Done()
	return agent.Decision{}
}

// peer is an agent that a test plays line by line.
type peer struct {
	t   *testing.T
	in  *bufio.Scanner
	out *io.PipeWriter

	mu     sync.Mutex
	events []agent.Event
}

// connect returns a session of a kind, and its agent.
func connect(t *testing.T, kind string, o agent.Options) (*Session, *peer) {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p := &peer{t: t, in: bufio.NewScanner(inR), out: outW}
	p.in.Buffer(nil, 1<<20)
	o.OnEvent = func(e agent.Event) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.events = append(p.events, e)
	}
	s := newSession(kindNamed(kind), agent.Streams{Stdin: inW, Stdout: outR}, o)
	t.Cleanup(func() {
		go func() { // what the session still sends
			for p.in.Scan() {
			}
		}()
		_ = outW.Close()
		_ = s.Close()
		<-s.Done()
	})
	return s, p
}

// hear returns the next line of the session.
func (p *peer) hear() *wire.Message {
	if !p.in.Scan() {
		return &wire.Message{}
	}
	return wire.ReadMessage([]byte(p.in.Text()))
}

func (p *peer) say(lines ...string) {
	for _, line := range lines {
		_, _ = io.WriteString(p.out, line+"\n") // the session may be closed
	}
}

// answer answers the next request of the session with a result.
func (p *peer) answer(result string) *wire.Message {
	m := p.hear()
	p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result))
	return m
}

// names returns the events so far.
func (p *peer) names() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(test.Map(p.events, func(e agent.Event) string { return e.Name }), " ")
}

const (
	hello   = `{"protocolVersion":1,"agentInfo":{"name":"x","version":"1.0.0"},"agentCapabilities":{}}`
	session = `{"sessionId":"s"}`
)

// inTurn returns a session with a running turn, and its agent, which has read the prompt.
func inTurn(t *testing.T, kind string, o agent.Options) (s *Session, p *peer, wait func() (agent.Turn, error)) {
	t.Helper()
	s, p = connect(t, kind, o)
	go func() {
		p.answer(hello)
		p.answer(session)
	}()
	test.Must(s.Initialize(t.Context()))
	test.Must(s.StartThread(t.Context(), agent.ThreadParams{Cwd: "/w"}))
	return s, p, p.prompt(s, "work")
}

// prompt starts a turn, and reads its prompt.
func (p *peer) prompt(s *Session, text string) (wait func() (agent.Turn, error)) {
	type result struct {
		turn agent.Turn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		turn, err := s.RunTurn(context.Background(), agent.TurnParams{Input: text})
		done <- result{turn, err}
	}()
	m := p.hear()
	test.Equal(p.t, "method", m.Method, "session/prompt")
	p.mu.Lock()
	defer p.mu.Unlock()
	return func() (agent.Turn, error) {
		r := <-done
		return r.turn, r.err
	}
}

// chunk is an update with a piece of a message.
func chunk(text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":`+
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%q}}}}`, text)
}

const ended = `{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}`

func codeOf(err error) agent.Code {
	failed, is := errors.AsType[*agent.Error](err)
	if !is {
		return ""
	}
	return failed.Code
}

// An agent that can't be used is refused before a session.
func TestRefusedAgents(t *testing.T) {
	for _, c := range []struct{ name, kind, answer, says string }{
		{"version 2", "acp", `{"protocolVersion":2}`, "speaks version 2"},
		{"no version", "acp", `{}`, "speaks version 0"},
		{"a version that is no number", "acp", `{"protocolVersion":"1"}`, "speaks version 0"},
		{"another agent", "claude", hello, `agent.kind is claude, but the command starts "x"`},
		{
			"an old release",
			"opencode",
			`{"protocolVersion":1,"agentInfo":{"name":"OpenCode","version":"1.2.40"}}`,
			"opencode 1.2.40 is older than 1.18.33",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, p := connect(t, c.kind, agent.Options{})
			go p.answer(c.answer)
			_, err := s.Initialize(t.Context())
			test.Equal(t, "code", codeOf(err), agent.CodeAgentIncompatible)
			test.Contains(t, "error", err.Error(), c.says)
		})
	}
}

// A release that is too old is named.
func TestOldRelease(t *testing.T) {
	for _, c := range []struct{ kind, agent, says string }{
		{"opencode", "OpenCode", "opencode 0.1.0 is older than 1.18.33, the oldest that symphony works with"},
		{
			"gemini",
			"gemini-cli",
			"gemini 0.1.0 is older than 0.61.0, the oldest that symphony works with",
		},
	} {
		able := &initialized{ProtocolVersion: protocolVersion}
		able.AgentInfo.Name = c.agent
		able.AgentInfo.Version = "0.1.0"
		err := kindNamed(c.kind).accept(able)
		test.Equal(t, c.kind, err.Error(), string(agent.CodeAgentIncompatible)+": "+c.says)
	}
}

// What is no agent of the protocol is refused with what it said.
func TestNoAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := connect(t, "acp", agent.Options{})
		go func() {
			p.hear()
			p.say("Welcome! Log in with your browser: [Y/n]")
		}()
		_, err := s.Initialize(t.Context())
		test.Equal(t, "code", codeOf(err), agent.CodeResponseTimeout)
		test.Contains(t, "error", err.Error(), "Log in with your browser")
	})
}

// The settings are set and read back; an agent that uses others gets no prompt.
func TestSettings(t *testing.T) {
	const options = `{"sessionId":"s","configOptions":[` +
		`{"id":"mode","category":"mode","currentValue":%q},{"id":"model","category":"model","currentValue":%q},` +
		`{"id":"effort","category":"thought_level","currentValue":%q}]}`
	with := func(mode, model, effort string) string { return fmt.Sprintf(options, mode, model, effort) }
	for _, c := range []struct {
		name    string
		kind    string
		params  agent.ThreadParams
		answers []string // to session/new, and to each change
		says    string
	}{
		{"all are set already", "opencode", agent.ThreadParams{Model: "m"}, []string{with("build", "m", "low")}, ""},
		{
			"all change",
			"claude",
			agent.ThreadParams{Model: "opus", Effort: "high"},
			[]string{
				with("auto", "default", "low"),
				with("auto", "opus", "low"),
				with("auto", "opus", "high"),
				with("default", "opus", "high"),
			},
			"",
		},
		{
			"another model",
			"opencode",
			agent.ThreadParams{Model: "mine/m"},
			[]string{with("build", "opencode/big-pickle", ""), with("build", "opencode/big-pickle", "")},
			`agent.model: opencode uses "opencode/big-pickle" instead of "mine/m"`,
		},
		{"no model", "opencode", agent.ThreadParams{}, nil, "agent.model is not set"},
		{"no effort", "acp", agent.ThreadParams{Effort: "high"}, []string{session}, "agent.effort: acp offers no choice"},
		{
			"a mode that stays",
			"claude",
			agent.ThreadParams{},
			[]string{with("auto", "opus", ""), with("auto", "opus", "")},
			`its mode: claude uses "auto" instead of "default"`,
		},
		{
			"a model that is not in the list",
			"acp",
			agent.ThreadParams{Model: "x"},
			[]string{`{"sessionId":"s","models":{"currentModelId":"a","availableModels":[{"modelId":"a"},{"modelId":"b"}]}}`},
			`agent.model: acp does not know "x", only a, b`,
		},
		{
			"a mode of the older form that nothing confirms",
			"claude",
			agent.ThreadParams{},
			[]string{`{"sessionId":"s","modes":{"currentModeId":"auto","availableModes":[{"id":"default"}]}}`, `{}`},
			`its mode: claude uses "auto" instead of "default"`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, p := connect(t, c.kind, agent.Options{})
			go func() {
				for _, answer := range c.answers {
					p.answer(answer)
				}
			}()
			c.params.Cwd = "/w"
			_, err := s.StartThread(t.Context(), c.params)
			if c.says == "" {
				test.OK(t, err)
				return
			}
			test.Equal(t, "code", codeOf(err), agent.CodeAgentIncompatible)
			test.Contains(t, "error", err.Error(), c.says)
		})
	}
}

// A model that the agent changes by itself ends the turn.
func TestModelChanges(t *testing.T) {
	s, p := connect(t, "opencode", agent.Options{})
	go p.answer(`{"sessionId":"s","configOptions":[{"id":"mode","currentValue":"build"},{"id":"model","currentValue":"m"}]}`)
	test.Must(s.StartThread(t.Context(), agent.ThreadParams{Cwd: "/w", Model: "m"}))
	wait := p.prompt(s, "work")
	p.say(`{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"config_option_update",` +
		`"configOptions":[{"id":"model","currentValue":"opencode/big-pickle"}]}}}`)
	test.Equal(t, "method", p.hear().Method, "session/cancel")
	p.say(`{"id":2,"result":{"stopReason":"cancelled"}}`)
	_, err := wait()
	test.Equal(t, "code", codeOf(err), agent.CodeAgentIncompatible)
	test.Contains(t, "error", err.Error(), `opencode changes its model from "m" to "opencode/big-pickle"`)
}

// A model that the agent changes between two turns gets no prompt.
func TestModelChangesBetweenTurns(t *testing.T) {
	s, p := connect(t, "opencode", agent.Options{})
	go p.answer(`{"sessionId":"s","configOptions":[{"id":"mode","currentValue":"build"},{"id":"model","currentValue":"m"}]}`)
	test.Must(s.StartThread(t.Context(), agent.ThreadParams{Cwd: "/w", Model: "m"}))
	wait := p.prompt(s, "work")
	p.say(`{"id":2,"result":{"stopReason":"end_turn"}}`)
	test.Must(wait())
	p.say(
		`{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"config_option_update",`+
			`"configOptions":[{"id":"model","currentValue":"opencode/big-pickle"}]}}}`,
		`{"id":7,"result":{}}`, // its event tells that the update was read
	)
	test.Until(t, "the update", func() bool { return strings.Contains(p.names(), agent.EventOtherMessage) })
	_, err := s.RunTurn(t.Context(), agent.TurnParams{Input: "go on"})
	test.Equal(t, "code", codeOf(err), agent.CodeAgentIncompatible)
	test.Contains(t, "error", err.Error(), `opencode changes its model from "m" to "opencode/big-pickle"`)
}

// A session whose answer has no id is not taken for the session before.
func TestNoSessionID(t *testing.T) {
	s, p := connect(t, "acp", agent.Options{})
	go func() {
		p.answer(session)
		p.answer(`{}`)
	}()
	test.Must(s.StartThread(t.Context(), agent.ThreadParams{Cwd: "/w"}))
	_, err := s.StartThread(t.Context(), agent.ThreadParams{Cwd: "/w"})
	test.Equal(t, "code", codeOf(err), agent.CodeAgentIncompatible)
	test.Contains(t, "error", err.Error(), "no session id")
}

// A permission that is read while its turn is being cancelled is cancelled, too: Gemini would
// wait for an answer, and not end its turn.
func TestPermissionDuringCancel(t *testing.T) {
	s, p, wait := inTurn(t, "acp", agent.Options{OnApproval: agent.ApprovalAsk, Ask: waitForEnd})
	turn := s.current()
	s.withdraw()
	turn.cancelled.Store(true)
	r := s.begin(turn, json.RawMessage("0"), agent.Request{})
	test.Equal(t, "an open request", r == nil, true)
	p.say(ended)
	_, err := wait()
	test.OK(t, err)
}

// Requests are answered by the kinds of the options. What has no fitting option counts as
// cancelled.
func TestPermissions(t *testing.T) {
	const both = `[{"optionId":"a","name":"Yes, always","kind":"allow_always"},` +
		`{"optionId":"n","name":"Yes","kind":"reject_once"},{"optionId":"y","name":"No","kind":"allow_once"}]`
	chosen := func(id string) string {
		return `{"outcome":{"optionId":"` + id + `","outcome":"selected"}}`
	}
	const cancelled = `{"outcome":{"outcome":"cancelled"}}`
	yes := agent.Decision{Approve: true, By: "ann"}
	for _, c := range []struct {
		name     string
		policy   agent.Approval
		decision agent.Decision
		options  string
		answer   string
		event    string
	}{
		{"approve", agent.ApprovalApprove, yes, both, chosen("y"), agent.EventApprovalAutoApproved},
		{"deny", agent.ApprovalDeny, yes, both, chosen("n"), agent.EventApprovalDenied},
		{"an operator approves", agent.ApprovalAsk, yes, both, chosen("y"), agent.EventApprovalGranted},
		{"an operator denies", agent.ApprovalAsk, agent.Decision{}, both, chosen("n"), agent.EventApprovalDenied},
		{"nobody answers", agent.ApprovalAsk, agent.Decision{Expired: true}, both, chosen("n"), agent.EventRequestExpired},
		{"no options", agent.ApprovalApprove, yes, `[]`, cancelled, agent.EventApprovalAutoApproved},
		{"no options that can be read", agent.ApprovalApprove, yes, `7`, cancelled, agent.EventApprovalAutoApproved},
		{
			"only always",
			agent.ApprovalApprove,
			yes,
			`[{"optionId":"a","kind":"allow_always"}]`,
			cancelled,
			agent.EventApprovalAutoApproved,
		},
		{
			"never again",
			agent.ApprovalDeny,
			yes,
			`[{"optionId":"a","kind":"allow_once"},{"optionId":"n","kind":"reject_always"}]`,
			chosen("n"),
			agent.EventApprovalDenied,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, p, wait := inTurn(t, "acp", agent.Options{
				OnApproval: c.policy,
				Ask:        func(context.Context, agent.Request) agent.Decision { return c.decision },
			})
			p.say(`{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s",` +
				`"toolCall":{"toolCallId":"c","kind":"execute","title":"make"},"options":` + c.options + `}}`)
			m := p.hear()
			test.Equal(t, "id", string(m.ID), "0")
			test.Equal(t, "answer", string(compact(m.Result)), c.answer)
			p.say(ended)
			_, err := wait()
			test.OK(t, err)
			test.Contains(t, "events", p.names(), c.event)
		})
	}
}

// Under the policy fail a request is rejected and ends the turn.
func TestPermissionFails(t *testing.T) {
	_, p, wait := inTurn(t, "acp", agent.Options{OnApproval: agent.ApprovalFail})
	p.say(`{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s",` +
		`"toolCall":{"toolCallId":"c","kind":"execute","rawInput":{"command":"make"}},` +
		`"options":[{"optionId":"y","kind":"allow_once"},{"optionId":"n","kind":"reject_once"}]}}`)
	test.Contains(t, "answer", string(p.hear().Raw), `"optionId":"n"`)
	test.Equal(t, "method", p.hear().Method, "session/cancel")
	p.say(`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}`)
	_, err := wait()
	test.Equal(t, "code", codeOf(err), agent.CodeApprovalRequired)
	test.Contains(t, "error", err.Error(), "approve make")
}

// A request that waits for an operator is cancelled with its turn, before that: otherwise
// Gemini never ends the turn.
func TestCancelWithAPermission(t *testing.T) {
	s, p, wait := inTurn(t, "acp", agent.Options{OnApproval: agent.ApprovalAsk, Ask: waitForEnd})
	p.say(`{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s",` +
		`"toolCall":{"toolCallId":"c","kind":"execute","title":"make"},"options":[{"optionId":"y","kind":"allow_once"}]}}`)
	test.Until(t, "the request", func() bool { return strings.Contains(p.names(), agent.EventApprovalRequested) })
	interrupted := make(chan error, 1)
	go func() { interrupted <- s.Interrupt(context.Background()) }()
	m := p.hear()
	test.Equal(t, "id", string(m.ID), "7")
	test.Contains(t, "answer", string(m.Result), "cancelled")
	test.Equal(t, "method", p.hear().Method, "session/cancel")
	p.say(`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}`)
	test.OK(t, <-interrupted)
	turn, err := wait()
	test.Equal(t, "status", turn.Status, turnInterrupted)
	test.Equal(t, "code", codeOf(err), agent.CodeTurnCancelled)
}

// OpenCode ends its turn at a denial without a word: its next turn begins with it.
func TestDenialIsSaid(t *testing.T) {
	s, p := connect(t, "opencode", agent.Options{OnApproval: agent.ApprovalDeny})
	go p.answer(`{"sessionId":"s","configOptions":[{"id":"mode","currentValue":"build"},{"id":"model","currentValue":"m"}]}`)
	test.Must(s.StartThread(t.Context(), agent.ThreadParams{Cwd: "/w", Model: "m"}))
	wait := p.prompt(s, "work")
	p.say(`{"id":0,"method":"session/request_permission","params":{"sessionId":"s",` +
		`"toolCall":{"toolCallId":"c","kind":"execute","title":"rm -r /"},"options":[{"optionId":"n","kind":"reject_once"}]}}`)
	p.hear()
	p.say(`{"id":2,"result":{"stopReason":"end_turn"}}`)
	test.Must(wait())
	go func() { _, _ = s.RunTurn(t.Context(), agent.TurnParams{Input: "go on"}) }()
	test.Contains(t, "prompt", string(p.hear().Params), `- Denied: rm -r /\n\ngo on`)
}

// Unknown requests are refused, unknown notifications and updates are ignored; nothing of this
// ends the turn.
func TestUnknown(t *testing.T) {
	_, p, wait := inTurn(t, "acp", agent.Options{})
	p.say(
		`{"jsonrpc":"2.0","id":"a","method":"fs/write_text_file","params":{"path":"/w/x","content":"x"}}`,
		`{"jsonrpc":"2.0","method":"_x/y","params":[1]}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"new_kind","kind":7}}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"other","update":{"sessionUpdate":"agent_message_chunk"}}}`,
		`{"jsonrpc":"2.0","id":99,"result":{}}`,
		`not JSON`,
		`[]`,
		chunk("Done."),
		ended,
	)
	m := p.hear()
	test.Equal(t, "id", string(m.ID), `"a"`)
	test.Equal(t, "code", m.Error.Code, wire.MethodNotFound)
	turn, err := wait()
	test.OK(t, err)
	test.Equal(t, "last message", turn.LastMessage, "Done.")
}

// A question to a person is refused by name, although symphony has offered to pass on none, and the
// turn goes on.
func TestQuestion(t *testing.T) {
	_, p, wait := inTurn(t, "acp", agent.Options{})
	p.say(
		`{"jsonrpc":"2.0","id":3,"method":"elicitation/create","params":{"mode":"form","sessionId":"s",`+
			`"message":"Which colour?","requestedSchema":{"type":"object","properties":{"question_0":{"type":"string"}}}}}`,
		chunk("Then red."),
		ended,
	)
	m := p.hear()
	test.Equal(t, "code", m.Error.Code, wire.MethodNotFound)
	test.Equal(t, "message", m.Error.Message, "symphony does not support elicitation/create")
	turn, err := wait()
	test.OK(t, err)
	test.Equal(t, "last message", turn.LastMessage, "Then red.")
}

// A line of 63 MB does not end the connection, and its body is not kept.
func TestLongLine(t *testing.T) {
	_, p, wait := inTurn(t, "acp", agent.Options{})
	long := strings.Repeat("x", 63<<20)
	p.say(
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update",`+
			`"toolCallId":"c","kind":"execute","title":"cat large","status":"completed","rawOutput":"`+long+`"}}}`,
		chunk("Done."),
		ended,
	)
	turn, err := wait()
	test.OK(t, err)
	test.Equal(t, "last message", turn.LastMessage, "Done.")
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		if size := len(test.Must(json.Marshal(e))); size > 2*maxBody {
			t.Errorf("an event of %d bytes: %s", size, e.Message)
		}
	}
}

// An agent that says nothing, as during retries of its model, is stalled. Signs of life that
// the client does not understand count.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, wait := inTurn(t, "acp", agent.Options{StallTimeout: 5 * time.Minute})
		time.Sleep(4 * time.Minute)
		p.say(`{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"notice"}}}`)
		began := time.Now()
		_, err := wait()
		test.Equal(t, "code", codeOf(err), agent.CodeStalled)
		test.Equal(t, "after", time.Since(began), 5*time.Minute)
		test.Contains(t, "error", err.Error(), "the agent may be retrying its model")
	})
}

// A session that the agent can't go on with is no failure.
func TestNoSession(t *testing.T) {
	const resumes = `{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"resume":{},"list":{}}}}`
	for name, c := range map[string]struct {
		hello   string
		answers []string
	}{
		"it resumes none":      {`{"protocolVersion":1}`, nil},
		"it does not list it":  {resumes, []string{`"result":{"sessions":[{"sessionId":"other"}]}`}},
		"it does not know it":  {resumes, []string{`"result":{"sessions":[{"sessionId":"old"}]}`, `"error":{"code":-32002,"message":"no"}`}},
		"it fails to load one": {`{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}`, []string{`"error":{"code":-32603,"message":"Internal error"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := connect(t, "acp", agent.Options{})
			go func() {
				p.answer(c.hello)
				for _, answer := range c.answers {
					p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, p.hear().ID, answer))
				}
			}()
			test.Must(s.Initialize(t.Context()))
			err := s.ResumeThread(t.Context(), "old", agent.ThreadParams{Cwd: "/w"})
			test.ErrorIs(t, "error", err, agent.ErrNoThread)
		})
	}
}

// The tokens of a resumed session are added to those of earlier processes, and the first cost
// is not known, because it contains that of earlier processes. The cost of the session is all of it.
func TestResumedUsage(t *testing.T) {
	s, p := connect(t, "acp", agent.Options{})
	go func() {
		p.answer(`{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"resume":{}}}}`)
		p.answer(`{}`)
	}()
	test.Must(s.Initialize(t.Context()))
	test.OK(t, s.ResumeThread(t.Context(), "s", agent.ThreadParams{
		Cwd:  "/w",
		Used: agent.Usage{Input: 1000, Output: 100, Total: 1100},
	}))
	paid := func(id int, amount string) *agent.Cost {
		wait := p.prompt(s, "work")
		p.say(
			`{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"usage_update",`+
				`"cost":{"amount":`+amount+`,"currency":"USD"}}}}`,
			fmt.Sprintf(`{"id":%d,"result":{"stopReason":"end_turn","usage":{"inputTokens":10,"cachedReadTokens":5,"outputTokens":1}}}`, id),
		)
		turn, err := wait()
		test.OK(t, err)
		return turn.Cost
	}
	test.Equal(t, "the first cost", paid(3, "3.5"), nil)
	test.Equal(t, "the second cost", paid(4, "3.75"), &agent.Cost{Amount: 0.25, Currency: "USD"})
	test.Equal(t, "tokens", s.UsageByThread(), map[string]agent.Usage{
		"s": {Input: 1030, CachedInput: 10, Output: 102, Total: 1132, Paid: 3_750_000},
	})
}

// A run names the model that was set, not the one with which the agent begins.
func TestModelOfRun(t *testing.T) {
	s, p := connect(t, "acp", agent.Options{})
	go func() {
		p.answer(hello)
		p.answer(`{"sessionId":"s","models":{"currentModelId":"auto","availableModels":[{"modelId":"auto"},{"modelId":"flash"}]}}`)
		p.answer(`{}`)
	}()
	test.Must(s.Initialize(t.Context()))
	test.Must(s.StartThread(t.Context(), agent.ThreadParams{Cwd: "/w", Model: "flash"}))
	test.Equal(t, "model", s.Model(), "flash")
}
