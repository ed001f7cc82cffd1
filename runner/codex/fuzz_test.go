package codex

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/internal/test"

	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/wire"
)

// FuzzStream feeds a session with arbitrary bytes, from the first line or within a turn. Time
// is that of a synctest bubble, so that a hang shows as a deadlock or as minutes gone by.
// Every event must encode as JSON, and codex must be able to read every line that is sent.
func FuzzStream(f *testing.F) {
	for _, stream := range []string{
		initialized1 + "\n" + threadStarted + "\n" + turnStarted + "\n" + delta + "\n" + turnCompleted + "\n",
		turnCompleted + "\r\n" + turnStarted + "\n" + initialized1 + "\n" + threadStarted + "\n{\"half",
		initialized1 + "\n" + `{"id":2,"error":{"code":-32600,"message":"no rollout found"}}`,
		delta + "\n" + retry + "\n" + turnCompleted,
		`{"method":"turn/started","params":{"threadId":"th","turn":{"id":"goal"}}}` + "\n" + turnCompleted,
		`{"id":0,"method":"item/commandExecution/requestApproval","params":{"command":["bash","-lc","ls"]}}` + "\n" +
			`{"id":"a","method":"item/permissions/requestApproval",` +
			`"params":{"permissions":{"network":{"enabled":true,"x":null}}}}`,
		`{"id":{"a":1},"method":"x"}` + "\n" + `{"id":9,"method":"item/fileChange/requestApproval",` +
			`"params":{"reason":"r"}}`,
		`{"id":7,"method":"item/tool/call","params":{"tool":"t","arguments":{}}}` + "\n" +
			`{"method":"serverRequest/resolved","params":{"requestId":7}}`,
		`{"id":5,"method":"item/tool/requestUserInput","params":{"questions":[{"id":"a","question":"?"}]}}`,
		`{"id":2,"method":"mcpServer/elicitation/request","params":{"mode":"form",` +
			`"requestedSchema":{"type":"object","properties":{"a":{"type":"integer"}}}}}`,
		`{"method":"thread/tokenUsage/updated","params":{"threadId":"th",` +
			`"tokenUsage":{"total":{"totalTokens":9,"inputTokens":-1}}}}` + "\n" +
			`{"method":"account/rateLimits/updated","params":{"rateLimits":{"limitId":"codex",` +
			`"primary":{"usedPercent":100,"resetsAt":1e300}}}}` + "\n" +
			`{"method":"turn/failed","params":{"error":{"message":"usage limit",` +
			`"codexErrorInfo":"usageLimitExceeded"}}}`,
		`{"id":1,"method":"a` + `\u0000` + `b","params":[1]}` + "\n" + `{"method":"item/started",` +
			`"params":{"item":{"type":"commandExecution","id":"c","command":7}}}` + "\n[]\n\x00",
		begunPatch + "\n" + askPatch + "\n" + askCommand + "\n" + resolved,
	} {
		f.Add(false, stream)
		f.Add(true, stream)
	}
	f.Fuzz(func(t *testing.T, inTurn bool, stream string) {
		if len(stream) > 1<<15 {
			t.Skip()
		}
		synctest.Test(t, func(t *testing.T) { fuzzOne(t, inTurn, stream) })
	})
}

func fuzzOne(t *testing.T, inTurn bool, stream string) {
	const limit = time.Minute
	began := time.Now()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	var events []agent.Event
	s := New(agent.Streams{Stdin: inW, Stdout: outR}, agent.Options{
		ReadTimeout:  limit,
		TurnTimeout:  limit,
		StallTimeout: limit / 2,
		OnApproval:   agent.ApprovalAsk,
		OnQuestion:   agent.QuestionAsk,
		Ask: func(context.Context, agent.Request) agent.Decision {
			return agent.Decision{Approve: true, Answers: all}
		},
		Tools: []agent.Tool{{Name: "t"}},
		CallTool: func(context.Context, string, json.RawMessage) agent.ToolResult {
			return agent.ToolResult{Success: true}
		},
		OnEvent: func(e agent.Event) { events = append(events, e) },
	})
	sent := make(chan []byte, 1)
	go func() {
		all, _ := io.ReadAll(inR) // the pipe ends with the session
		sent <- all
	}()
	written := make(chan struct{})
	go func() {
		defer close(written)
		if inTurn {
			stream = initialized1 + "\n" + threadStarted + "\n" + turnStarted + "\n" + stream
		}
		for line := range bytes.Lines([]byte(stream)) {
			if _, err := outW.Write(line); err != nil {
				return
			}
			// so that the session sends the request that the next line answers
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		_ = outW.Close() // a pipe in memory
	}()
	if _, err := s.Initialize(t.Context()); err == nil {
		if _, err := s.StartThread(t.Context(), agent.ThreadParams{Cwd: "/w"}); err == nil {
			// any outcome will do
			_, _ = s.RunTurn(t.Context(), agent.TurnParams{Input: "x", Cwd: "/w"})
		}
	}
	test.OK(t, s.Close())
	_ = outR.Close()
	<-s.Done()
	<-written
	synctest.Wait()
	if took := time.Since(began); took > 6*limit {
		t.Errorf("the session took %v", took)
	}
	for _, e := range events {
		if _, err := json.Marshal(e); err != nil || e.Name == "" || e.At.IsZero() ||
			!utf8.ValidString(e.Message) ||
			len([]rune(e.Message)) > wire.MessageLength {
			t.Errorf("event %+v: %v", e, err)
		}
	}
	for line := range bytes.Lines(<-sent) {
		// the end of the session may cut the last line
		if whole := line[len(line)-1] == '\n'; whole && !json.Valid(line) {
			t.Errorf("sent %q", line)
		}
	}
}
