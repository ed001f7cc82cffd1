package codex

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/wire"
)

// peer is the agent of a session under test.
type peer struct {
	t   *testing.T
	in  *bufio.Scanner // what the client wrote
	inR *io.PipeReader
	out *io.PipeWriter

	mu     sync.Mutex
	events []agent.Event
}

// connect returns a session and its peer. Both end with the test.
func connect(t *testing.T, o agent.Options) (*Session, *peer) {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p := &peer{t: t, in: bufio.NewScanner(inR), inR: inR, out: outW}
	if o.OnEvent == nil {
		o.OnEvent = func(e agent.Event) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.events = append(p.events, e)
		}
	}
	s := New(agent.Streams{Stdin: inW, Stdout: outR}, o)
	t.Cleanup(func() {
		_ = s.Close()
		_ = outW.Close()
		<-s.Done()
	})
	return s, p
}

// say writes lines to the client.
func (p *peer) say(lines ...string) {
	for _, l := range lines {
		if _, err := io.WriteString(p.out, l+"\n"); err != nil {
			return // the session is over
		}
	}
}

// hear reads the client's next line.
func (p *peer) hear() string {
	if !p.in.Scan() {
		return ""
	}
	return p.in.Text()
}

// every repeats a line until the test ends.
func (p *peer) every(d time.Duration, line string) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.say(line)
		case <-p.t.Context().Done():
			return
		}
	}
}

// rest reads all further lines, so that the client can always write.
func (p *peer) rest() {
	for p.in.Scan() {
	}
}

// lines sends all further lines to a channel.
func (p *peer) lines() <-chan string {
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for p.in.Scan() {
			lines <- p.in.Text()
		}
	}()
	return lines
}

// heard returns the events until now.
func (p *peer) heard() []agent.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.events)
}

func (p *peer) names() string {
	return strings.Join(test.Map(p.heard(), func(e agent.Event) string { return e.Name }), " ")
}

// hears checks the next line of the client.
func (p *peer) hears(want string) {
	p.t.Helper()
	test.Equal(p.t, "line of the client", p.hear(), want)
}

// bubble runs a test with a clock of its own.
func bubble(t *testing.T, name string, f func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

const (
	initialized1  = `{"id":1,"result":{"userAgent":"symphony/0.169.0 (x)","codexHome":"/h"}}`
	threadStarted = `{"id":2,"result":{"thread":{"id":"th","model":"other"},"model":"gpt-a"}}`
	turnStarted   = `{"id":3,"result":{"turn":{"id":"tu","status":"inProgress"}}}`
	turnCompleted = `{"method":"turn/completed","params":{"threadId":"th","turn":{"id":"tu",` +
		`"status":"completed","items":[]}}}`
	delta = `{"method":"item/agentMessage/delta","params":{"threadId":"th","turnId":"tu",` +
		`"itemId":"m","delta":"x"}}`
	retry = `{"method":"error","params":{"threadId":"th","turnId":"tu","willRetry":true,` +
		`"error":{"message":"Reconnecting... waiting for network",` +
		`"codexErrorInfo":{"responseStreamDisconnected":{"httpStatusCode":null}}}}}`
)

// opened returns a session whose thread is open.
func opened(t *testing.T, o agent.Options) (*Session, *peer) {
	t.Helper()
	s, p := connect(t, o)
	go func() {
		p.hear() // initialize
		p.say(initialized1)
		p.hear() // initialized
		p.hear() // thread/start
		p.say(threadStarted)
	}()
	test.Must(s.Initialize(t.Context()))
	test.Must(s.StartThread(t.Context(), agent.ThreadParams{Cwd: "/w"}))
	return s, p
}

// running waits for the end of RunTurn.
type running func() (agent.Turn, error)

// completes waits for the end of a turn without an error.
func (wait running) completes(t *testing.T) {
	t.Helper()
	test.Must(wait())
}

// fails waits for the end of a turn with an error that has the code.
func (wait running) fails(t *testing.T, code agent.Code) *agent.Error {
	t.Helper()
	_, err := wait()
	return wantCode(t, err, code)
}

// runTurn starts a turn and returns after the answer to turn/start.
func runTurn(ctx context.Context, s *Session, p *peer, params agent.TurnParams, answer string) running {
	type outcome struct {
		turn agent.Turn
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		turn, err := s.RunTurn(ctx, params)
		done <- outcome{turn, err}
	}()
	p.hear() // turn/start
	p.say(answer)
	return func() (agent.Turn, error) {
		o := <-done
		return o.turn, o.err
	}
}

// inTurn returns a session with a running turn.
func inTurn(t *testing.T, ctx context.Context, o agent.Options) (*Session, *peer, running) {
	t.Helper()
	s, p := opened(t, o)
	return s, p, runTurn(ctx, s, p, agent.TurnParams{Input: "do"}, turnStarted)
}

func wantCode(t *testing.T, err error, code agent.Code) *agent.Error {
	t.Helper()
	var e *agent.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("error %v, want %s", err, code)
	}
	return e
}

// TestClocks checks when a turn times out, depending on what the agent does. Time is that of a
// synctest bubble.
func TestClocks(t *testing.T) {
	item := func(method, turn string) string {
		return fmt.Sprintf(
			`{"method":"item/%s","params":{"threadId":"th","turnId":%q,"item":{"type":"commandExecution","id":"a"}}}`,
			method,
			turn,
		)
	}
	const minute = time.Minute
	for _, c := range []struct {
		name        string
		stall, turn time.Duration
		busyFor     time.Duration
		agent       func(p *peer)
		took        time.Duration // in total
		want        string        // prefix of the error
		cause       agent.Code
	}{
		{
			name: "no progress", stall: 30 * time.Second, turn: time.Hour, agent: func(p *peer) {
				for range 10 {
					time.Sleep(29 * time.Second)
					p.say(delta)
				}
			}, took: 320 * time.Second, want: "stalled for 30s",
		},
		{
			name:  "retries are no progress",
			stall: minute,
			turn:  time.Hour,
			agent: func(p *peer) { go p.every(7*time.Second, retry) },
			took:  minute,
			want:  "stalled for 1m: Reconnecting",
			cause: agent.CodeNetwork,
		},
		{
			name: "silence", turn: minute, agent: func(p *peer) {
				for range 5 {
					time.Sleep(59 * time.Second)
					p.say(retry) // any line resets this clock
				}
			}, took: 355 * time.Second, want: "turn_timeout: nothing came",
		},
		{
			name: "off", agent: func(p *peer) {
				time.Sleep(1000 * time.Hour)
				p.say(turnCompleted)
			}, took: 1000 * time.Hour,
		},
		{ // found busy after 5 and 10 minutes, idle after 15
			name:    "busy",
			stall:   5 * minute,
			turn:    time.Hour,
			busyFor: 12 * minute,
			agent:   func(*peer) {},
			took:    15 * minute,
			want:    "stalled for 15m",
		},
		{
			name:    "busy for too long",
			stall:   5 * minute,
			turn:    17 * minute,
			busyFor: time.Hour,
			agent:   func(p *peer) { go p.every(minute, retry) },
			took:    17 * minute,
			want:    "stalled for 17m",
			cause:   agent.CodeNetwork,
		},
		{
			name: "a command runs", stall: minute, turn: time.Hour, agent: func(p *peer) {
				p.say(item("started", "tu"))
				time.Sleep(59 * minute)
				// a command of an earlier turn does not count
				p.say(item("completed", "tu"), item("started", "old"))
			}, took: time.Hour, want: "stalled for 1m",
		},
	} {
		bubble(t, c.name, func(t *testing.T) {
			from := time.Now()
			_, p, wait := inTurn(t, t.Context(), agent.Options{
				StallTimeout: c.stall,
				TurnTimeout:  c.turn,
				Busy:         func() bool { return time.Since(from) < c.busyFor },
			})
			go p.rest()
			c.agent(p)
			_, err := wait()
			got := ""
			cause := agent.Code("")
			if e := new(agent.Error); errors.As(err, &e) {
				got = err.Error()
				cause = e.Cause
			}
			if took := time.Since(from); took != c.took || !strings.HasPrefix(got, c.want) ||
				c.want == "" && err != nil ||
				cause != c.cause {
				t.Errorf(
					"after %v: %v, cause %q; want %s after %v, cause %q",
					took,
					err,
					cause,
					c.want,
					c.took,
					c.cause,
				)
			}
		})
	}
}

func TestResponseTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := connect(t, agent.Options{
			ReadTimeout:       5 * time.Second,
			InitializeTimeout: 30 * time.Second,
		})
		go p.rest()
		from := time.Now()
		_ = wantCode(t, test.Err(s.Initialize(t.Context())), agent.CodeResponseTimeout)
		test.Equal(t, "limit of initialize", time.Since(from), 30*time.Second)
		_ = wantCode(t, test.Err(s.StartThread(t.Context(), agent.ThreadParams{})), agent.CodeResponseTimeout)
		test.Equal(t, "limit of both", time.Since(from), 35*time.Second)
		synctest.Wait()
		test.Equal(t, "events", p.names(), "startup_failed startup_failed")
	})
}

// TestBlockedWrite checks that an agent that does not read its stdin cannot block the client.
func TestBlockedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, wait := inTurn(t, t.Context(), agent.Options{ReadTimeout: 5 * time.Second})
		from := time.Now()
		for i := range 3 {
			p.say(fmt.Sprintf(`{"method":"unknown/request","id":%d,"params":{}}`, i))
		}
		p.say(delta) // reading goes on
		wait.fails(t, agent.CodeResponseTimeout)
		if took := time.Since(from); took > 11*time.Second {
			t.Errorf("after %v", took)
		}
	})
}

// TestUnheard checks that an agent is not late with anything while it can't be heard: neither
// with reading its stdin, nor with an answer, nor with progress.
func TestUnheard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := time.Now().Add(10*time.Minute + 33*time.Second) // at no limit
		unheard := func() bool { return time.Now().Before(back) }
		_, p, wait := inTurn(t, t.Context(), agent.Options{
			ReadTimeout:  5 * time.Second,
			StallTimeout: time.Minute,
			Unheard:      unheard,
		})
		p.say(`{"method":"unknown/request","id":1,"params":{}}`) // the answer is not read
		time.Sleep(time.Until(back))
		go p.rest()
		p.say(turnCompleted)
		wait.completes(t)
	})
}

// TestForeignEnds checks that neither the end of another turn or thread, nor a request that
// has the id of one of ours, ends the turn.
func TestForeignEnds(t *testing.T) {
	_, p, wait := inTurn(t, t.Context(), agent.Options{})
	p.say(
		`{"method":"turn/completed","params":{"threadId":"other","turn":{"id":"tu","status":"failed"}}}`,
		`{"method":"turn/completed","params":{"threadId":"th","turn":{"id":"older","status":"failed"}}}`,
		`{"method":"turn/completed","params":{"threadId":"other","turn":{"id":"x","status":"completed"}}}`,
	)
	for _, id := range []string{`0`, `3`, `"a"`, `"3"`} {
		p.say(`{"method":"currentTime/read","id":` + id + `,"params":{}}`)
		var answer struct {
			ID     json.RawMessage
			Result struct{ CurrentTimeAt int64 }
		}
		if line := p.hear(); json.Unmarshal([]byte(line), &answer) != nil || string(answer.ID) != id ||
			answer.Result.CurrentTimeAt == 0 {
			t.Errorf("answer to %s: %s", id, line)
		}
	}
	go p.rest()
	p.say(turnCompleted)
	wait.completes(t)
	test.Equal(t, "completed turns", strings.Count(p.names(), agent.EventTurnCompleted), 1)
}

func TestEndOfStream(t *testing.T) {
	t.Run("in a turn", func(t *testing.T) {
		for range 50 { // an event emitted after the agent's end is delivered, too
			_, p, wait := inTurn(t, t.Context(), agent.Options{})
			go p.rest()
			_ = p.out.Close()
			wait.fails(t, agent.CodePortExit)
			if !strings.HasSuffix(p.names(), agent.EventTurnEndedWithError) {
				t.Fatalf("events: %s", p.names())
			}
		}
	})
	t.Run("after the turn's end on a line without a line break", func(t *testing.T) {
		_, p, wait := inTurn(t, t.Context(), agent.Options{})
		go p.rest()
		test.Must(io.WriteString(p.out, turnCompleted))
		_ = p.out.Close()
		wait.completes(t)
	})
	t.Run("with an endless line", func(t *testing.T) {
		_, p, wait := inTurn(t, t.Context(), agent.Options{})
		go p.rest()
		// until the test closes it
		go func() { _, _ = io.WriteString(p.out, strings.Repeat("x", wire.MaxLine+1)) }()
		test.Contains(t, "the error", wait.fails(t, agent.CodePortExit).Message, "more than 64 MiB")
	})
	t.Run("in a request", func(t *testing.T) {
		s, p := connect(t, agent.Options{})
		go func() {
			p.hear()
			p.out.CloseWithError(errors.New("broken"))
		}()
		test.Contains(
			t,
			"the error",
			wantCode(t, test.Err(s.Initialize(t.Context())), agent.CodePortExit).Message,
			"broken",
		)
	})
}

// TestConcurrentTool checks that a tool call neither blocks the reader nor outlives its turn.
func TestConcurrentTool(t *testing.T) {
	began := make(chan struct{})
	ended := make(chan error, 1)
	s, p, wait := inTurn(t, t.Context(), agent.Options{
		Tools: []agent.Tool{{Name: "slow"}},
		CallTool: func(ctx context.Context, _ string, args json.RawMessage) agent.ToolResult {
			if string(args) == `{"n":2}` {
				return agent.ToolResult{Text: "quick", Success: true}
			}
			close(began)
			<-ctx.Done()
			ended <- ctx.Err()
			return agent.ToolResult{}
		},
	})
	p.say(
		`{"method":"item/tool/call","id":0,"params":{"threadId":"th","turnId":"tu","tool":"slow",` +
			`"arguments":{"n":1}}}`,
	)
	<-began
	p.say(
		`{"method":"item/tool/call","id":1,"params":{"threadId":"th","turnId":"tu","tool":"slow",` +
			`"arguments":{"n":2}}}`,
	)
	p.hears(`{"id":1,"result":{"contentItems":[{"text":"quick","type":"inputText"}],"success":true}}`)
	n, _ := s.pending()
	test.Equal(t, "open requests", n, 1)
	go p.rest()
	p.say(turnCompleted)
	wait.completes(t)
	test.ErrorIs(t, "the error", <-ended, context.Canceled)
}

// TestSlowCallback checks that a callback that hangs blocks neither the reader nor the end of
// the turn.
func TestSlowCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		_, p, wait := inTurn(t, t.Context(), agent.Options{
			ReadTimeout: time.Second,
			OnEvent:     func(agent.Event) { <-release },
		})
		go p.rest()
		for range wire.MaxQueuedEvents / 2 {
			p.say(delta)
		}
		p.say(turnCompleted)
		wait.completes(t)
	})
}

// TestUsage checks the tokens of the thread and its sub-agents, the models that codex gave the
// thread and rerouted it to, and that every event names the agent's process (specification
// 10.4).
func TestUsage(t *testing.T) {
	used := func(thread, total string) string {
		return `{"method":"thread/tokenUsage/updated","params":{"threadId":"` + thread +
			`","tokenUsage":{"total":` + total + `,"last":{"totalTokens":999}}}}`
	}
	rerouted := func(thread, model string) string {
		return `{"method":"model/rerouted","params":{"threadId":"` + thread + `","toModel":"` + model + `"}}`
	}
	s, p, wait := inTurn(t, t.Context(), agent.Options{PID: 42})
	go p.rest()
	p.say(
		used(
			"th",
			`{"totalTokens":30,"inputTokens":20,"cachedInputTokens":8,"outputTokens":10,"reasoningOutputTokens":4}`,
		),
		used("th", `{"totalTokens":25,"inputTokens":15,"outputTokens":10}`),
		used(
			"sub",
			`{"totalTokens":6,"inputTokens":5,"cachedInputTokens":2,"outputTokens":1,"reasoningOutputTokens":1}`,
		),
		used("sub2", `{"inputTokens":7,"outputTokens":3}`),
		rerouted("th", "gpt-b"),
		rerouted("th", "gpt-b"),
		rerouted("sub", "gpt-c"),
		rerouted("th", "gpt-d"),
		turnCompleted,
	)
	wait.completes(t)
	sum := agent.Usage{Input: 32, CachedInput: 10, Output: 14, Reasoning: 5, Total: 46}
	test.Equal(t, "usage and models", []any{s.Usage(), s.Model()}, []any{sum, "gpt-a+gpt-b+gpt-d"})
	for _, e := range p.heard() {
		test.Equal(t, "process of "+e.Name, e.PID, 42)
	}
	if last := p.events[len(p.events)-1]; last.Name != agent.EventTurnCompleted || last.Usage == nil ||
		*last.Usage != sum {
		t.Errorf("last event %+v", last)
	}
}

func TestWire(t *testing.T) {
	s, p := connect(t, agent.Options{
		ClientVersion: "9",
		Tools: []agent.Tool{{
			Name:        "t",
			Description: "d",
			InputSchema: json.RawMessage(`{"type":"object"}`),
		}},
	})
	go func() {
		for _, c := range []struct{ want, answer string }{
			{`{"id":1,"method":"initialize","params":{"capabilities":{"experimentalApi":true},` +
				`"clientInfo":{"name":"symphony","version":"9"}}}`, initialized1},
			{`{"method":"initialized","params":{}}`, ""},
			{
				`{"id":1001,"method":"config/read","params":{"cwd":"/w"}}`,
				`{"id":1001,"result":{"config":{"model":"m","model_provider":null}}}`,
			},
			{
				`{"id":2,"method":"thread/resume","params":{"threadId":"th","excludeTurns":true,` +
					`"cwd":"/w","approvalPolicy":"never","sandbox":"read-only","config":{"a.b":false},` +
					`"model":"m","modelProvider":"openai"}}`,
				`{"id":2,"error":{"code":-32600,"message":"no rollout found for thread id th"}}`,
			},
			{
				`{"id":3,"method":"thread/start","params":{"cwd":"/w","approvalPolicy":"never",` +
					`"sandbox":"read-only","config":{"a.b":false},"dynamicTools":[{"description":"d",` +
					`"inputSchema":{"type":"object"},"name":"t","type":"function"}]}}`,
				`{"id":3,"result":{"thread":{"id":"th"}}}`,
			},
			{`{"id":1002,"method":"thread/name/set","params":{"name":"A-1: t",` +
				`"threadId":"th"}}`, `{"id":1002,"result":{}}`},
			{
				`{"id":4,"method":"turn/start","params":{"threadId":"th","input":[{"type":"text",` +
					`"text":"a <b> & c"}],"cwd":"/w","approvalPolicy":"never",` +
					`"sandboxPolicy":{"type":"dangerFullAccess"}}}`,
				strings.Replace(turnStarted, "3", "4", 1) + "\n" + turnCompleted,
			},
		} {
			p.hears(c.want)
			if c.answer != "" {
				p.say(c.answer)
			}
		}
		p.rest()
	}()
	test.Must(s.Initialize(t.Context()))
	params := agent.ThreadParams{
		Name:           "A-1: t",
		Cwd:            "/w",
		ApprovalPolicy: json.RawMessage(`"never"`),
		Sandbox:        json.RawMessage(`"read-only"`),
		Config:         map[string]any{"a.b": false},
	}
	test.ErrorIs(t, "the error", s.ResumeThread(t.Context(), "th", params), agent.ErrNoThread)
	test.Must(s.StartThread(t.Context(), params))
	_, err := s.RunTurn(t.Context(), agent.TurnParams{
		Input:          "a <b> & c",
		Cwd:            "/w",
		ApprovalPolicy: json.RawMessage(`"never"`),
		SandboxPolicy:  json.RawMessage(`{"type":"dangerFullAccess"}`),
	})
	test.OK(t, err)
}

// TestCalls checks what a session sends for the calls of clients, and what it makes of the
// answers.
func TestCalls(t *testing.T) {
	s, p := connect(t, agent.Options{})
	want := func(line string, answers ...string) {
		p.hears(line)
		p.say(answers...)
	}
	test.ErrorIs(t, "steer before a turn", s.Steer(t.Context(), nil), agent.ErrNoTurn)
	go func() {
		p.hear() // initialize
		p.say(initialized1)
		p.hear() // initialized
		want(
			`{"id":2,"method":"thread/start","params":{"cwd":"/w","model":"m","baseInstructions":"b",`+
				`"developerInstructions":"d"}}`,
			threadStarted,
		)
		want(
			`{"id":3,"method":"turn/start","params":{"threadId":"th","input":[{"type":"text",`+
				`"text":"look"},{"type":"image","url":"data:image/png;base64,AA=="},{"type":"localImage",`+
				`"path":"/x.png"}],"model":"n","effort":"low"}}`,
			turnStarted,
		)
		want(
			`{"id":4,"method":"turn/steer","params":{"expectedTurnId":"tu","input":[{"type":"text",`+
				`"text":"more"}],"threadId":"th"}}`,
			`{"id":4,"result":{"turnId":"tu"}}`,
		)
		want(
			`{"id":5,"method":"turn/steer","params":{"expectedTurnId":"tu","input":null,"threadId":"th"}}`,
			`{"id":5,"error":{"code":-32600,"message":"no input"}}`,
		)
		want(
			`{"id":6,"method":"turn/steer","params":{"expectedTurnId":"tu","input":null,"threadId":"th"}}`,
			`{"id":6,"error":{"code":-32600,"message":"no active turn to steer"}}`,
		)
		want(
			`{"id":7,"method":"turn/steer","params":{"expectedTurnId":"tu","input":null,"threadId":"th"}}`,
			turnCompleted,
			`{"id":7,"error":{"code":-32600,"message":"no turn"}}`,
		)
		want(
			`{"id":1001,"method":"command/exec","params":{"command":["a","b"],"cwd":"/w",`+
				`"env":{"KEY":null,"V":"v"},"outputBytesCap":1048576,"sandboxPolicy":{"type":"readOnly"},"timeoutMs":2000}}`,
			`{"id":1001,"result":{"exitCode":3,"stdout":"o","stderr":"e"}}`,
		)
	}()
	test.Must(s.Initialize(t.Context()))
	test.Must(s.StartThread(t.Context(), agent.ThreadParams{
		Cwd:                   "/w",
		Model:                 "m",
		BaseInstructions:      "b",
		DeveloperInstructions: "d",
	}))
	ended := make(chan error, 1)
	go func() {
		_, err := s.RunTurn(t.Context(), agent.TurnParams{
			Model:  "n",
			Effort: "low",
			Items: []agent.Input{
				{
					Type: "text",
					Text: "look",
				}, {
					Type: "image",
					URL:  "data:image/png;base64,AA==",
				}, {
					Type: "localImage",
					Path: "/x.png",
				},
			},
		})
		ended <- err
	}()
	more := []agent.Input{{Type: "text", Text: "more"}}
	err := s.Steer(t.Context(), more)
	// the turn is about to begin
	for ; errors.Is(err, agent.ErrNoTurn); err = s.Steer(t.Context(), more) {
		time.Sleep(time.Millisecond)
	}
	test.OK(t, err)
	_ = wantCode(t, s.Steer(t.Context(), nil), agent.CodeResponseError)
	for _, when := range []string{"before its end is reported", "at its end"} {
		test.ErrorIs(t, "steer of a turn that has ended, "+when, s.Steer(t.Context(), nil), agent.ErrNoTurn)
	}
	test.OK(t, <-ended)
	result, err := s.Exec(t.Context(), agent.ExecParams{
		Command:       []string{"a", "b"},
		Cwd:           "/w",
		Env:           map[string]any{"V": "v", "KEY": nil},
		SandboxPolicy: json.RawMessage(`{"type":"readOnly"}`),
		Timeout:       2 * time.Second,
	})
	test.Equal(t, "exec", []any{err, result}, []any{nil, agent.ExecResult{
		ExitCode: 3,
		Stdout:   "o",
		Stderr:   "e",
	}})
}

// TestOverloaded checks that an overloaded model server counts as a fault of the machine and
// not of the issue.
func TestOverloaded(t *testing.T) {
	s, p := opened(t, agent.Options{})
	_, err := runTurn(
		t.Context(),
		s,
		p,
		agent.TurnParams{},
		`{"id":3,"error":{"code":-32001,"message":"Server overloaded; retry later."}}`,
	)()
	_ = wantCode(t, err, agent.CodeNetwork)
}

// TestReasonOfATurnsEnd checks that the error of a turn contains codex's reason, be it in the
// message about its end or in an error before that.
func TestReasonOfATurnsEnd(t *testing.T) {
	const reported = `{"method":"error","params":{"threadId":"th","turnId":"tu",` +
		`"error":{"message":"limit","codexErrorInfo":"usageLimitExceeded"}}}` + "\n"
	for line, want := range map[string]string{
		reported + `{"method":"turn/completed","params":{"threadId":"th","turn":{"id":"tu",` +
			`"status":"failed","error":null}}}`: "agent_quota: limit",
		reported + `{"method":"turn/cancelled","params":{"threadId":"th","turnId":"tu"}}`: "turn_cancelled: " +
			"the turn was interrupted: limit",
		`{"method":"turn/completed","params":{"threadId":"th","turn":{"id":"tu","status":"interrupted",` +
			`"error":{"message":"budget exceeded"}}}}`: "turn_cancelled: the turn was interrupted: budget exceeded",
		`{"method":"turn/cancelled","params":{"threadId":"th","turnId":"tu",` +
			`"reason":"replaced"}}`: "turn_cancelled: the turn was interrupted: replaced",
		`{"method":"turn/completed","params":{"threadId":"th","turn":{"id":"tu",` +
			`"status":"interrupted"}}}`: "turn_cancelled: the turn was interrupted",
		// The answer of the model's server, as codex quotes it.
		`{"method":"turn/failed","params":{"threadId":"th","turnId":"tu",` +
			`"error":{"message":"HTTP 400: {\"error\":{\"message\":\"no more\",` +
			`\"type\":\"insufficient_quota\"}}, url: x"}}}`: "agent_quota: HTTP 400: no more, url: x",
	} {
		_, p, wait := inTurn(t, t.Context(), agent.Options{})
		go p.rest()
		p.say(line)
		test.Equal(t, "the error", fmt.Sprint(test.Err(wait())), want)
	}
}
