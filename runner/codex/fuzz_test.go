package codex

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

// fuzzed is one session that is fed with arbitrary bytes.
type fuzzed struct {
	t      *testing.T
	events []Event
	heard  []byte // all that the client wrote
}

// How a fuzzed stream reaches the session: the bits of mode.
const (
	modeHandshake = 1 << iota // a good handshake and an answered turn/start go before it
	modeSlowly                // a few bytes at a time
	modeDeny
	modeFail
	modeTools
	modeInterrupt
	modeAsk
)

const (
	fuzzRead = 5 * time.Second
	fuzzTurn = time.Minute
)

// FuzzStream feeds a session with arbitrary bytes, from the first line or within a turn. Time is that of a bubble: a
// hang shows as a deadlock or as minutes gone by.
func FuzzStream(f *testing.F) {
	for _, seed := range []struct {
		mode   byte
		stream string
	}{
		{0, initialized1 + "\n" + threadStarted + "\n" + turnStarted + "\n" + delta + "\n" + turnCompleted + "\n"},
		{modeSlowly, turnCompleted + "\r\n" + turnStarted + "\n" + initialized1 + "\n" + threadStarted + "\n{\"half"},
		{0, `{"id":1,"error":{"code":-32600,"message":"Invalid request"}}`},
		{0, initialized1 + "\n" + `{"id":2,"error":{"code":-32600,"message":"no rollout found"}}`},
		{modeHandshake, delta + "\n" + retry + "\n" + turnCompleted},
		{modeHandshake | modeInterrupt, `{"method":"turn/started","params":{"threadId":"th","turn":{"id":"goal"}}}` + "\n" + turnCompleted},
		{modeHandshake, `{"id":0,"method":"item/commandExecution/requestApproval","params":{"command":["bash","-lc","ls"]}}` + "\n" +
			`{"id":"a","method":"item/permissions/requestApproval","params":{"permissions":{"network":{"enabled":true,"x":null}}}}`},
		{modeHandshake | modeDeny, `{"id":-1.5,"method":"execCommandApproval","params":null}` + "\n" + `{"id":{"a":1},"method":"x"}`},
		{modeHandshake | modeFail, `{"id":9,"method":"item/fileChange/requestApproval","params":{"reason":"r"}}`},
		{modeHandshake | modeTools, `{"id":7,"method":"item/tool/call","params":{"tool":"t","arguments":{}}}` + "\n" +
			`{"id":8,"method":"item/tool/call","params":{"tool":"wait"}}` + "\n" + `{"method":"serverRequest/resolved","params":{"requestId":8}}`},
		{modeHandshake, `{"id":5,"method":"item/tool/requestUserInput","params":{"questions":[{"question":"?"}]}}`},
		{modeHandshake, `{"id":5,"method":"mcpServer/elicitation/request","error":"none"}`},
		{modeHandshake, `{"method":"thread/tokenUsage/updated","params":{"threadId":"th","tokenUsage":{"total":{"totalTokens":9,"inputTokens":-1}}}}` + "\n" +
			`{"method":"account/rateLimits/updated","params":{"rateLimits":{"limitId":"codex","primary":{"usedPercent":100,"resetsAt":1e300}}}}` + "\n" +
			`{"method":"turn/failed","params":{"error":{"message":"usage limit","codexErrorInfo":"usageLimitExceeded"}}}`},
		{modeHandshake, `{"method":"turn/started","params":{"turnId":"o"}}` + "\n" + `{"method":"turn/completed"}` + "\n" + `{"id":null,"method":"x"}` + "\n[]\n\x00"},
		{modeHandshake | modeAsk, begunPatch + "\n" + askPatch + "\n" + askCommand + "\n" + resolved + "\n" +
			`{"id":2,"method":"mcpServer/elicitation/request","params":{"mode":"form","requestedSchema":{"type":"object","properties":{"a":{"type":"integer"}}}}}` + "\n" +
			`{"id":5,"method":"item/tool/requestUserInput","params":{"questions":[{"id":"a","question":"?"}]}}`},
		{modeHandshake, `{"method":"codex/event/task_complete","params":{"conversation_id":"th","msg":{"type":"task_complete","last_agent_message":"x"}}}`},
		{modeHandshake, `{"method":"codex/event/x","params":{"msg":{"type":"exec_command_begin","call_id":"c","command":["a"]}}}` + "\n" +
			`{"method":"item/started","params":{"thread_id":"th","item":{"type":"file_change","id":"p","changes":[{"path":"a","kind":"add"}]}}}`},
		{0, strings.Repeat("{\"id\":3,\"result\":{}}\n"+turnCompleted+"\n", 80)},
		{modeHandshake, `{"id":1,"method":"a` + `\u0000` + `b","params":[1]}` + "\n" + `{"method":"item/started","params":{"item":{"type":"commandExecution","id":"c","command":7}}}`},
	} {
		f.Add(seed.mode, []byte(seed.stream))
	}
	f.Fuzz(func(t *testing.T, mode byte, stream []byte) {
		if len(stream) > 1<<15 {
			t.Skip()
		}
		synctest.Test(t, func(t *testing.T) {
			r := fuzzed{t: t}
			r.run(mode, stream)
			r.judgeEvents(len(stream))
			r.judgeAnswers(mode, stream)
		})
	})
}

// run has the session live from its first request to its end.
func (r *fuzzed) run(mode byte, stream []byte) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	o := Options{
		ReadTimeout: fuzzRead, TurnTimeout: fuzzTurn, StallTimeout: fuzzTurn / 2,
		OnEvent: func(e Event) { r.events = append(r.events, e) },
	}
	switch {
	case mode&modeFail != 0:
		o.OnApproval = ApprovalFail
	case mode&modeDeny != 0:
		o.OnApproval = ApprovalDeny
	}
	if mode&modeAsk != 0 {
		o.OnApproval, o.OnQuestion = ApprovalAsk, QuestionAsk
		o.Ask = func(ctx context.Context, a Ask) Decision {
			if a.Kind == AskCommand { // nobody looks at it for a while
				select {
				case <-ctx.Done():
				case <-time.After(fuzzRead):
				}
			}
			return Decision{Approve: true, Answers: map[string][]string{"a": {"1"}}}
		}
	}
	if mode&modeTools != 0 {
		o.Tools = []Tool{{Name: "t"}, {Name: "wait"}}
		o.CallTool = func(ctx context.Context, name string, _ json.RawMessage) ToolResult {
			if name == "wait" {
				select {
				case <-ctx.Done():
				case <-time.After(fuzzRead):
				}
			}
			return ToolResult{Text: name, Success: name == "t"}
		}
	}
	began := time.Now()
	s := New(Transport{Stdin: inW, Stdout: outR}, o)
	heard := make(chan struct{})
	asked := make(chan string, 1<<10)
	go func() {
		defer close(heard)
		defer close(asked)
		lines := bufio.NewReader(inR)
		for {
			line, err := lines.ReadBytes('\n')
			r.heard = append(r.heard, line...)
			if err != nil {
				return
			}
			var m message
			if json.Unmarshal(line, &m) == nil && m.Method != "" {
				select {
				case asked <- m.Method:
				default: // nobody listens any more
				}
			}
		}
	}()
	go agent(outW, asked, mode, stream)

	err := r.converse(s, mode)
	if e := (*Error)(nil); err != nil && !errors.As(err, &e) && !strings.HasPrefix(err.Error(), "turn/start: ") {
		r.t.Errorf("an error without a type: %v", err)
	}
	time.Sleep(2 * fuzzRead)
	synctest.Wait() // what is to be answered is answered
	if passed := time.Since(began); passed > 5*fuzzTurn {
		r.t.Errorf("took %v", passed)
	}
	r.judgeState(s, len(stream))
	if err := s.Close(); err != nil {
		r.t.Error(err)
	}
	if err := outW.Close(); err != nil {
		r.t.Error(err)
	}
	<-s.Done()
	<-s.silent
	<-heard
}

// agent plays codex: the handshake, if that is wanted, and then the stream.
func agent(out io.Writer, asked <-chan string, mode byte, stream []byte) {
	if mode&modeHandshake != 0 {
		for method := range asked {
			answer := map[string]string{"initialize": initialized1, "thread/start": threadStarted, "turn/start": turnStarted}[method]
			if answer == "" {
				continue
			}
			if _, err := io.WriteString(out, answer+"\n"); err != nil {
				return
			}
			if method == "turn/start" {
				break
			}
		}
	}
	if stream = append(stream, '\n'); mode&modeSlowly == 0 {
		_, _ = out.Write(stream) // fails when the session is over, which is no fault
		return
	}
	for part := range slices.Chunk(stream, 3) {
		if _, err := out.Write(part); err != nil {
			return
		}
	}
}

// converse goes the way of a worker, as far as the agent lets it.
func (r *fuzzed) converse(s *Session, mode byte) error {
	ctx := r.t.Context()
	if _, err := s.Initialize(ctx); err != nil {
		return err
	}
	id, err := s.StartThread(ctx, ThreadParams{Cwd: "/w"})
	if err != nil {
		return err
	}
	if id == "" {
		r.t.Error("a thread without an id")
	}
	if mode&modeInterrupt != 0 {
		soon, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		if _, err := s.RunTurn(soon, TurnParams{Input: "do"}); err != nil && soon.Err() != nil {
			// What the agent makes of it is its own; that it comes back is what counts.
			_ = s.Interrupt(ctx)
			return nil
		}
	}
	turn, err := s.RunTurn(ctx, TurnParams{Input: "do"})
	if err == nil && turn.Status != statusCompleted {
		r.t.Errorf("no error, and the turn is %q", turn.Status)
	}
	return err
}

// judgeState bounds what the session keeps.
func (r *fuzzed) judgeState(s *Session, fed int) {
	s.mu.Lock()
	kept := 0
	for _, list := range s.calls.early {
		kept += len(list)
	}
	if kept != s.calls.kept || kept > earlyKept || len(s.early) > earlyKept {
		r.t.Errorf("%d early answers, counted %d; %d early ends", kept, s.calls.kept, len(s.early))
	}
	// A line that is kept in any way has some bytes; a few are those of the handshake.
	entries := len(s.foreign) + len(s.finished) + len(s.requests) + len(s.usage) + len(s.limits) + len(s.calls.pending) + len(s.patches.files)
	if entries > 8+fed/8 {
		r.t.Errorf("%d entries kept of %d bytes", entries, fed)
	}
	s.mu.Unlock()
	if raw := s.RateLimits(); raw != nil && !json.Valid(raw) {
		r.t.Errorf("rate limits %q", raw)
	}
	for thread, u := range s.UsageByThread() {
		if u.Input < 0 || u.CachedInput < 0 || u.Output < 0 || u.Reasoning < 0 || u.Total < 0 {
			r.t.Errorf("tokens of %q: %+v", thread, u)
		}
	}
}

// judgeEvents: every event can be written down as one line, and is short.
func (r *fuzzed) judgeEvents(fed int) {
	if len(r.events) > fed+16 {
		r.t.Errorf("%d events of %d bytes", len(r.events), fed)
	}
	for _, e := range r.events {
		if e.Name == "" || e.At.IsZero() {
			r.t.Errorf("event %+v", e)
		}
		if e.Raw != nil && !json.Valid(e.Raw) {
			r.t.Errorf("raw is no JSON: %q", e.Raw)
		}
		if n := utf8.RuneCountInString(e.Message); n > 2*messageLength || strings.ContainsAny(e.Message, "\n\r\x00") {
			r.t.Errorf("message of %d characters: %.300q", n, e.Message)
		}
		if _, err := json.Marshal(e); err != nil {
			r.t.Error(err)
		}
	}
}

// judgeAnswers: the client writes whole JSON lines; every request of the agent's is answered once with its own id, and
// nothing else is answered.
func (r *fuzzed) judgeAnswers(mode byte, stream []byte) {
	answered := map[string]int{}
	for line := range bytes.Lines(r.heard) {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(line, &m); err != nil || !bytes.HasSuffix(line, []byte("\n")) {
			r.t.Errorf("the client wrote %q: %v", line, err)
			continue
		}
		if m["method"] == nil {
			if (m["result"] == nil) == (m["error"] == nil) {
				r.t.Errorf("an answer without result or error, or with both: %s", line)
			}
			answered[compact(m["id"])]++
		}
	}
	asked := map[string]int{}
	for line := range bytes.Lines(stream) {
		id, _ := requestID(line)
		asked[id]++
	}
	for line := range bytes.Lines(stream) {
		if id, sure := requestID(line); sure {
			// What a person is asked is not answered when it ended before, nor is a call that was made anew by its id.
			anew := mode&modeTools != 0 && asked[id] > 1
			if answered[id]--; answered[id] < 0 && mode&modeAsk == 0 && !anew {
				r.t.Errorf("not answered: %q", line)
			}
		} else if answered[id] > 0 {
			answered[id]--
		}
	}
	for id, n := range answered {
		if n > 0 {
			r.t.Errorf("%d answers too many to %q", n, id)
		}
	}
}

// requestID reads the line on its own: sure is false where readers of JSON may differ about its being a request.
func requestID(line []byte) (id string, sure bool) {
	var m map[string]json.RawMessage
	if json.Unmarshal(line, &m) != nil {
		return "", false
	}
	sure = true
	for key, value := range m {
		for _, name := range []string{"id", "method"} {
			if key != name && strings.EqualFold(key, name) {
				sure = false
				if name == "id" {
					m["id"] = value
				}
			}
		}
	}
	var method string
	if json.Unmarshal(m["method"], &method) != nil || method == "" || m["id"] == nil || string(m["id"]) == "null" {
		sure = false
	}
	return compact(m["id"]), sure
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}
