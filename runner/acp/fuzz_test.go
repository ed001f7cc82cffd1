package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/wire"
)

// FuzzStream feeds a session of each kind with arbitrary bytes, from the first line or within a
// turn. Time is that of a synctest bubble, so that a hang shows as a deadlock or as minutes gone
// by. Every event must encode as JSON, and the agent must be able to read every line that is
// sent.
func FuzzStream(f *testing.F) {
	files := test.Must(filepath.Glob("testdata/recorded/*_turn.jsonl"))
	for n, file := range files {
		var stream strings.Builder
		for line := range strings.Lines(test.Read(f, file)) {
			var l struct{ Recv json.RawMessage }
			test.OK(f, json.Unmarshal([]byte(line), &l))
			if l.Recv != nil {
				stream.Write(append(l.Recv, '\n'))
			}
		}
		f.Add(uint8(n), false, stream.String())
	}
	for _, stream := range []string{
		`{"id":0,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"kind":"edit",` +
			`"content":[{"type":"diff","oldText":null,"newText":7}]},"options":[{"optionId":1}]}}`,
		`{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update",` +
			`"toolCallId":"c","status":"completed","kind":"other","name":"mcp__symphony__x","rawOutput":[1]}}}`,
		chunk("a") + "\n" + chunk("[MODE_UPDATE] yolo") + "\n" + ended,
		`{"id":3,"error":{"code":429,"message":"{\"error\":{\"message\":\"quota\"}}","data":7}}`,
		`{"method":"$/cancel_request","params":{"requestId":0}}` + "\n[]\n\x00\n{\"half",
	} {
		f.Add(uint8(0), true, stream)
	}
	f.Fuzz(func(t *testing.T, which uint8, inTurn bool, stream string) {
		if len(stream) > 1<<15 {
			t.Skip()
		}
		k := kinds[int(which)%len(kinds)]
		synctest.Test(t, func(t *testing.T) { fuzzOne(t, k, inTurn, stream) })
	})
}

func fuzzOne(t *testing.T, k *kind, inTurn bool, stream string) {
	const limit = 2 * startBound
	began := time.Now()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	var events []agent.Event
	s := newSession(k, agent.Streams{Stdin: inW, Stdout: outR}, agent.Options{
		ReadTimeout:  limit,
		TurnTimeout:  limit,
		StallTimeout: limit / 2,
		OnApproval:   agent.ApprovalAsk,
		Ask:          func(context.Context, agent.Request) agent.Decision { return agent.Decision{Approve: true} },
		OnEvent:      func(e agent.Event) { events = append(events, e) },
	})
	sent := make(chan []byte, 1)
	go func() {
		all, _ := io.ReadAll(inR) // the pipe ends with the session
		sent <- all
	}()
	if inTurn {
		stream = `{"id":1,"result":` + hello + "}\n" + `{"id":2,"result":` + session + "}\n" + stream
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
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
		if _, err := s.StartThread(t.Context(), agent.ThreadParams{Cwd: "/w", Model: "m"}); err == nil {
			// any outcome will do
			_, _ = s.RunTurn(t.Context(), agent.TurnParams{Input: "x"})
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
			!utf8.ValidString(e.Message) || len([]rune(e.Message)) > wire.MessageLength {
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
