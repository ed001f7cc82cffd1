package codex

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

	"github.com/symphony-cron/symphony/runner/agent"
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

// connect makes a session and its peer; both end with the test.
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

func (p *peer) names() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for _, e := range p.events {
		names = append(names, e.Name)
	}
	return strings.Join(names, " ")
}

const (
	initialized1  = `{"id":1,"result":{"userAgent":"symphony/0.169.0 (x)","codexHome":"/h"}}`
	threadStarted = `{"id":2,"result":{"thread":{"id":"th"}}}`
	turnStarted   = `{"id":3,"result":{"turn":{"id":"tu","status":"inProgress"}}}`
	turnCompleted = `{"method":"turn/completed","params":{"threadId":"th","turn":{"id":"tu","status":"completed","items":[]}}}`
	delta         = `{"method":"item/agentMessage/delta","params":{"threadId":"th","turnId":"tu","itemId":"m","delta":"x"}}`
	retry         = `{"method":"error","params":{"threadId":"th","turnId":"tu","willRetry":true,"error":{"message":"Reconnecting... waiting for network","codexErrorInfo":{"responseStreamDisconnected":{"httpStatusCode":null}}}}}`
)

// inTurn is a session whose turn is under way. The returned function waits for RunTurn.
func inTurn(t *testing.T, ctx context.Context, o agent.Options) (*Session, *peer, func() (agent.Turn, error)) {
	t.Helper()
	s, p := connect(t, o)
	go func() {
		p.hear() // initialize
		p.say(initialized1)
		p.hear() // initialized
		p.hear() // thread/start
		p.say(threadStarted)
	}()
	if _, err := s.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.StartThread(t.Context(), agent.ThreadParams{Cwd: "/w"}); err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		turn agent.Turn
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		turn, err := s.RunTurn(ctx, agent.TurnParams{Input: "do"})
		done <- outcome{turn, err}
	}()
	p.hear() // turn/start
	p.say(turnStarted)
	return s, p, func() (agent.Turn, error) {
		o := <-done
		return o.turn, o.err
	}
}

func wantAny(t *testing.T, err error) *agent.Error {
	t.Helper()
	var e *agent.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v without a code", err)
	}
	return e
}

func wantCode(t *testing.T, err error, code agent.Code) *agent.Error {
	t.Helper()
	var e *agent.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("error %v, want %s", err, code)
	}
	return e
}

func TestStallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, wait := inTurn(t, t.Context(), agent.Options{StallTimeout: 30 * time.Second, TurnTimeout: time.Hour})
		go p.rest()
		for range 10 {
			time.Sleep(29 * time.Second)
			p.say(delta)
		}
		from := time.Now()
		_, err := wait()
		e := wantCode(t, err, agent.CodeStalled)
		if took := time.Since(from); took != 30*time.Second || err.Error() != "stalled for 30s" || e.Cause != "" {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

func TestRetryNoticesAreNoProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, wait := inTurn(t, t.Context(), agent.Options{StallTimeout: time.Minute, TurnTimeout: time.Hour})
		go p.rest()
		go p.every(7*time.Second, retry)
		from := time.Now()
		_, err := wait()
		e := wantCode(t, err, agent.CodeStalled)
		if time.Since(from) != time.Minute || e.Cause != agent.CodeNetwork || !strings.HasPrefix(err.Error(), "stalled for 1m0s: Reconnecting") {
			t.Errorf("after %v: %v, cause %q", time.Since(from), err, e.Cause)
		}
	})
}

func TestTurnClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, wait := inTurn(t, t.Context(), agent.Options{TurnTimeout: time.Minute})
		go p.rest()
		for range 5 {
			time.Sleep(59 * time.Second)
			p.say(retry) // any line resets this clock
		}
		from := time.Now()
		_, err := wait()
		_ = wantCode(t, err, agent.CodeTurnTimeout)
		if time.Since(from) != time.Minute {
			t.Errorf("after %v", time.Since(from))
		}
	})
}

func TestClocksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, wait := inTurn(t, t.Context(), agent.Options{})
		go p.rest()
		time.Sleep(1000 * time.Hour)
		p.say(turnCompleted)
		if _, err := wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestBusyLengthensStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		busyFor := 12 * time.Minute
		_, p, wait := inTurn(t, t.Context(), agent.Options{
			StallTimeout: 5 * time.Minute, TurnTimeout: time.Hour,
			Busy: func() bool { return time.Since(begin) < busyFor },
		})
		go p.rest()
		_, err := wait()
		_ = wantCode(t, err, agent.CodeStalled)
		// Seen busy after 5 and 10 minutes, not at 15.
		if took := time.Since(begin); took != 15*time.Minute {
			t.Errorf("stalled after %v", took)
		}
	})
}

func TestBusyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		_, p, wait := inTurn(t, t.Context(), agent.Options{
			StallTimeout: 5 * time.Minute, TurnTimeout: 17 * time.Minute, Busy: func() bool { return true },
		})
		go p.rest()
		go p.every(time.Minute, retry) // the stream is not silent
		_, err := wait()
		_ = wantCode(t, err, agent.CodeStalled)
		if took := time.Since(begin); took != 17*time.Minute {
			t.Errorf("stalled after %v", took)
		}
	})
}

func TestOpenCommandLengthensStall(t *testing.T) {
	item := func(method, id string) string {
		return fmt.Sprintf(`{"method":"item/%s","params":{"threadId":"th","turnId":"tu","item":{"type":"commandExecution","id":%q}}}`, method, id)
	}
	synctest.Test(t, func(t *testing.T) {
		_, p, wait := inTurn(t, t.Context(), agent.Options{StallTimeout: time.Minute, TurnTimeout: time.Hour})
		go p.rest()
		p.say(item("started", "a"))
		time.Sleep(59 * time.Minute)
		p.say(item("completed", "a"))
		// One of an earlier turn does not count.
		p.say(`{"method":"item/started","params":{"threadId":"th","turnId":"old","item":{"type":"commandExecution","id":"b"}}}`)
		from := time.Now()
		_, err := wait()
		_ = wantCode(t, err, agent.CodeStalled)
		if took := time.Since(from); took != time.Minute {
			t.Errorf("stalled after %v", took)
		}
	})
}

func TestResponseTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := connect(t, agent.Options{ReadTimeout: 5 * time.Second, InitializeTimeout: 30 * time.Second})
		go p.rest()
		from := time.Now()
		_, err := s.Initialize(t.Context())
		_ = wantCode(t, err, agent.CodeResponseTimeout)
		if time.Since(from) != 30*time.Second {
			t.Errorf("initialize after %v", time.Since(from))
		}
		from = time.Now()
		_, err = s.StartThread(t.Context(), agent.ThreadParams{})
		_ = wantCode(t, err, agent.CodeResponseTimeout)
		if time.Since(from) != 5*time.Second {
			t.Errorf("thread/start after %v", time.Since(from))
		}
		synctest.Wait()
		if got := p.names(); got != "startup_failed startup_failed" {
			t.Errorf("events %s", got)
		}
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
		_, err := wait()
		_ = wantCode(t, err, agent.CodeResponseTimeout)
		if took := time.Since(from); took > 11*time.Second {
			t.Errorf("after %v", took)
		}
	})
}

func TestEndBeforeAnswer(t *testing.T) {
	s, p := connect(t, agent.Options{})
	go func() {
		p.hear()
		p.say(initialized1)
		p.hear()
		p.hear()
		p.say(threadStarted)
		p.hear()
		p.say(`{"method":"turn/started","params":{"threadId":"th","turn":{"id":"tu"}}}`, turnCompleted, turnStarted)
		p.rest()
	}()
	if _, err := s.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.StartThread(t.Context(), agent.ThreadParams{}); err != nil {
		t.Fatal(err)
	}
	if turn, err := s.RunTurn(t.Context(), agent.TurnParams{}); err != nil || turn.ID != "tu" {
		t.Fatalf("%+v, %v", turn, err)
	}
}

// TestForeignEnds checks that ends of other turns and threads, and requests with the ids of ours, do not end the turn.
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
		if line := p.hear(); json.Unmarshal([]byte(line), &answer) != nil || string(answer.ID) != id || answer.Result.CurrentTimeAt == 0 {
			t.Errorf("answer to %s: %s", id, line)
		}
	}
	go p.rest()
	p.say(turnCompleted)
	if turn, err := wait(); err != nil || turn.Status != "completed" {
		t.Fatal(turn, err)
	}
	if n := strings.Count(p.names(), agent.EventTurnCompleted); n != 1 {
		t.Errorf("events: %s", p.names())
	}
}

func TestEndOfStream(t *testing.T) {
	t.Run("in a turn", func(t *testing.T) {
		_, p, wait := inTurn(t, t.Context(), agent.Options{})
		go p.rest()
		_ = p.out.Close()
		_, err := wait()
		_ = wantCode(t, err, agent.CodePortExit)
	})
	t.Run("with its end as last words without a line end", func(t *testing.T) {
		_, p, wait := inTurn(t, t.Context(), agent.Options{})
		go p.rest()
		if _, err := io.WriteString(p.out, turnCompleted); err != nil {
			t.Fatal(err)
		}
		_ = p.out.Close()
		if _, err := wait(); err != nil {
			t.Error(err)
		}
	})
	t.Run("in a request", func(t *testing.T) {
		s, p := connect(t, agent.Options{})
		go func() {
			p.hear()
			p.out.CloseWithError(errors.New("broken"))
		}()
		_, err := s.Initialize(t.Context())
		if e := wantCode(t, err, agent.CodePortExit); !strings.Contains(e.Message, "broken") {
			t.Error(e)
		}
	})
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s, p, wait := inTurn(t, ctx, agent.Options{})
	cancel()
	if _, err := wait(); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	go func() {
		var req struct {
			ID     int
			Method string
			Params struct{ ThreadID, TurnID string }
		}
		if line := p.hear(); json.Unmarshal([]byte(line), &req) != nil || req.Method != "turn/interrupt" || req.ID < 4 ||
			req.Params.ThreadID != "th" || req.Params.TurnID != "tu" {
			t.Errorf("heard %s", line)
		}
		p.say(fmt.Sprintf(`{"id":%d,"result":{}}`, req.ID), `{"method":"turn/completed","params":{"threadId":"th","turn":{"id":"tu","status":"interrupted"}}}`)
		p.rest()
	}()
	if err := s.Interrupt(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Interrupt(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestToolRunsBeside checks that a tool call neither blocks the reader nor outlives its turn.
func TestToolRunsBeside(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
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
	p.say(`{"method":"item/tool/call","id":0,"params":{"threadId":"th","turnId":"tu","tool":"slow","arguments":{"n":1}}}`)
	<-began
	p.say(`{"method":"item/tool/call","id":1,"params":{"threadId":"th","turnId":"tu","tool":"slow","arguments":{"n":2}}}`)
	if got := p.hear(); got != `{"id":1,"result":{"contentItems":[{"text":"quick","type":"inputText"}],"success":true}}` {
		t.Errorf("heard %s", got)
	}
	if n := open(s); n != 1 {
		t.Errorf("%d requests are open, one is", n)
	}
	go p.rest()
	p.say(turnCompleted)
	if _, err := wait(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestSlowCallback checks that a callback that hangs blocks neither the reader nor the end of the turn.
func TestSlowCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		_, p, wait := inTurn(t, t.Context(), agent.Options{ReadTimeout: time.Second, OnEvent: func(agent.Event) { <-release }})
		go p.rest()
		for range maxQueuedEvents / 2 {
			p.say(delta)
		}
		p.say(turnCompleted)
		if _, err := wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestUsageSums(t *testing.T) {
	s, p, wait := inTurn(t, t.Context(), agent.Options{})
	go p.rest()
	p.say(
		`{"method":"thread/tokenUsage/updated","params":{"threadId":"th","tokenUsage":{"total":{"totalTokens":30,"inputTokens":20,"cachedInputTokens":8,"outputTokens":10,"reasoningOutputTokens":4},"last":{"totalTokens":999}}}}`,
		`{"method":"thread/tokenUsage/updated","params":{"threadId":"th","tokenUsage":{"total":{"totalTokens":25,"inputTokens":15,"outputTokens":10}}}}`,
		`{"method":"thread/tokenUsage/updated","params":{"threadId":"sub","tokenUsage":{"total":{"totalTokens":6,"inputTokens":5,"cachedInputTokens":2,"outputTokens":1,"reasoningOutputTokens":1},"last":{"totalTokens":999}}}}`,
		`{"method":"thread/tokenUsage/updated","params":{"threadId":"sub2","tokenUsage":{"total":{"inputTokens":7,"outputTokens":3}}}}`,
		turnCompleted,
	)
	if _, err := wait(); err != nil {
		t.Fatal(err)
	}
	if u := s.Usage(); u != (agent.Usage{Input: 32, CachedInput: 10, Output: 14, Reasoning: 5, Total: 46}) {
		t.Errorf("usage %+v of %v", u, s.UsageByThread())
	}
}

func TestWire(t *testing.T) {
	s, p := connect(t, agent.Options{ClientVersion: "9", Tools: []agent.Tool{{Name: "t", Description: "d", InputSchema: json.RawMessage(`{"type":"object"}`)}}})
	heard := make(chan string, 8)
	go func() {
		for _, answer := range []string{initialized1, "", `{"id":2,"error":{"code":-32600,"message":"no rollout found for thread id th"}}`, `{"id":4,"result":{"thread":{"id":"th"}}}`, `{"id":5,"result":{}}`, turnStarted + "\n" + turnCompleted} {
			heard <- p.hear()
			if answer != "" {
				p.say(answer)
			}
		}
		p.rest()
	}()
	if _, err := s.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	params := agent.ThreadParams{Name: "A-1: t", Cwd: "/w", ApprovalPolicy: json.RawMessage(`"never"`), Sandbox: json.RawMessage(`"read-only"`), Config: map[string]any{"a.b": false}}
	if err := s.ResumeThread(t.Context(), "th", params); !errors.Is(err, agent.ErrNoThread) {
		t.Fatal(err)
	}
	if _, err := s.StartThread(t.Context(), params); err != nil {
		t.Fatal(err)
	}
	_, err := s.RunTurn(t.Context(), agent.TurnParams{Input: "a <b> & c", Cwd: "/w", ApprovalPolicy: json.RawMessage(`"never"`), SandboxPolicy: json.RawMessage(`{"type":"dangerFullAccess"}`)})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"id":1,"method":"initialize","params":{"capabilities":{"experimentalApi":true},"clientInfo":{"name":"symphony","version":"9"}}}`,
		`{"method":"initialized","params":{}}`,
		`{"id":2,"method":"thread/resume","params":{"threadId":"th","excludeTurns":true,"cwd":"/w","approvalPolicy":"never","sandbox":"read-only","config":{"a.b":false}}}`,
		`{"id":4,"method":"thread/start","params":{"cwd":"/w","approvalPolicy":"never","sandbox":"read-only","config":{"a.b":false},"dynamicTools":[{"type":"function","name":"t","description":"d","inputSchema":{"type":"object"}}]}}`,
		`{"id":5,"method":"thread/name/set","params":{"name":"A-1: t","threadId":"th"}}`,
		`{"id":3,"method":"turn/start","params":{"threadId":"th","input":[{"type":"text","text":"a <b> & c"}],"cwd":"/w","approvalPolicy":"never","sandboxPolicy":{"type":"dangerFullAccess"}}}`,
	} {
		if got := <-heard; got != want {
			t.Errorf("heard %s\n want %s", got, want)
		}
	}
}

// TestOverloaded checks that an overloaded model server counts as a fault of the machine and not of the issue.
func TestOverloaded(t *testing.T) {
	s, p := connect(t, agent.Options{})
	go func() {
		p.hear() // initialize
		p.say(initialized1)
		p.hear() // initialized
		p.hear() // thread/start
		p.say(threadStarted)
		p.hear() // turn/start
		p.say(`{"id":3,"error":{"code":-32001,"message":"Server overloaded; retry later."}}`)
		p.rest()
	}()
	if _, err := s.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.StartThread(t.Context(), agent.ThreadParams{}); err != nil {
		t.Fatal(err)
	}
	_, err := s.RunTurn(t.Context(), agent.TurnParams{})
	_ = wantCode(t, err, agent.CodeNetwork)
}

// TestCancelledTurnKeepsItsReason checks that the error of a cancelled turn contains codex's reason.
func TestCancelledTurnKeepsItsReason(t *testing.T) {
	for line, want := range map[string]string{
		`{"method":"turn/completed","params":{"threadId":"th","turn":{"id":"tu","status":"interrupted","error":{"message":"budget exceeded"}}}}`: "turn_cancelled: the turn was interrupted: budget exceeded",
		`{"method":"turn/cancelled","params":{"threadId":"th","turnId":"tu","reason":"replaced"}}`:                                               "turn_cancelled: the turn was interrupted: replaced",
		`{"method":"turn/completed","params":{"threadId":"th","turn":{"id":"tu","status":"interrupted"}}}`:                                       "turn_cancelled: the turn was interrupted",
	} {
		_, p, wait := inTurn(t, t.Context(), agent.Options{})
		go p.rest()
		p.say(line)
		if _, err := wait(); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// TestEventsNameProcessAndUsage checks that every event has the agent's pid, and the end of a turn its tokens (specification 10.4).
func TestEventsNameProcessAndUsage(t *testing.T) {
	_, p, wait := inTurn(t, t.Context(), agent.Options{PID: 42})
	go p.rest()
	p.say(`{"method":"thread/tokenUsage/updated","params":{"threadId":"th","tokenUsage":{"total":{"inputTokens":20,"outputTokens":10}}}}`, turnCompleted)
	if _, err := wait(); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		if e.PID != 42 {
			t.Errorf("%s has process %d", e.Name, e.PID)
		}
	}
	if last := p.events[len(p.events)-1]; last.Name != agent.EventTurnCompleted || last.Usage == nil || last.Usage.Total != 30 {
		t.Errorf("last event %+v", last)
	}
}
