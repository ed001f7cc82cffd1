package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/runner/codex"
)

const (
	decoderShare = 0.25
	decoderBytes = 24 << 20
	decoderRuns  = 5
)

// decoder compares a session, from the agent's lines to the events that it tells, with a bare reader that only looks
// whether each line is JSON. Both have one processor, as a worker has.
func (b *bench) decoder() error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	deltas, err := newStream(b.stream)
	if err != nil {
		return err
	}
	if err := b.decoded("the decoder, on a turn's usual events", deltas, true); err != nil {
		return err
	}
	long, err := newStream(longStream)
	if err != nil {
		return err
	}
	return b.decoded("the decoder, on lines of 12 MB", long, false)
}

func (b *bench) decoded(heading string, s stream, judged bool) error {
	var rates, bare, events, ratios []float64
	for range decoderRuns {
		lines, plain, err := s.bare()
		if err != nil {
			return err
		}
		told, took, err := s.session(b.ctx)
		if err != nil {
			return err
		}
		if told < s.notices {
			return fmt.Errorf("%d of %d events were told", told, s.notices)
		}
		if lines < s.notices {
			return fmt.Errorf("%d of %d lines were read", lines, s.notices)
		}
		size := float64(len(s.text))
		rates, bare = append(rates, size/took.Seconds()/1e6), append(bare, size/plain.Seconds()/1e6)
		events, ratios = append(events, float64(told)/took.Seconds()), append(ratios, plain.Seconds()/took.Seconds())
	}
	t := &b.table
	t.heading("%s", heading)
	t.add(figure{Name: "events a second", Values: events})
	t.add(figure{Name: "through the decoder", Unit: "MB/s", Values: rates})
	t.add(figure{Name: "through the bare reader with json.Valid", Unit: "MB/s", Values: bare})
	f := figure{Name: "part of the bare reader's, pair by pair", Values: ratios}
	if judged {
		f.Budget = atLeast(decoderShare).steady()
	}
	t.add(f)
	return nil
}

// stream is what an agent says from its first line to the end of its turn.
type stream struct {
	text    []byte
	notices int
}

const (
	streamThread = "0199a213-81c0-7800-8aa1-bbab2a035a53"
	streamTurn   = "0199a213-81d4-7101-9f3b-1f3f7cd2d1c6"
)

// newStream puts the notices between the answers to what a session asks and the turn's end. Answers may come before
// they are waited for.
func newStream(notices func(say func(method string, params map[string]any) error) error) (s stream, err error) {
	var out bytes.Buffer
	lines := json.NewEncoder(&out)
	answer := func(id int, result any) error { return lines.Encode(map[string]any{"id": id, "result": result}) }
	say := func(method string, params map[string]any) error {
		params["threadId"] = streamThread
		s.notices++
		return lines.Encode(map[string]any{"method": method, "params": params})
	}
	turn := func(status string) map[string]any {
		return map[string]any{"turn": map[string]any{"id": streamTurn, "status": status, "items": []any{}, "error": nil}}
	}
	err = errors.Join(
		answer(1, map[string]any{"userAgent": "symphony/0.169.0 (linux)", "codexHome": "/home"}),
		answer(2, map[string]any{"thread": map[string]any{"id": streamThread}}),
		answer(3, turn("inProgress")), say("turn/started", turn("inProgress")), notices(say), say("turn/completed", turn("completed")),
	)
	s.text = out.Bytes()
	return s, err
}

// stream is a turn with many deltas, some commands with their output, and the count of tokens.
func (b *bench) stream(say func(method string, params map[string]any) error) error {
	output := strings.Repeat("ok  \tgithub.com/example/project/drafts\t0.412s\n", 60)
	size := decoderBytes
	if b.o.quick {
		size /= 4
	}
	for n, written := 0, 0; written < size; n++ {
		method, params := "item/agentMessage/delta", map[string]any{"itemId": "msg_1", "delta": fmt.Sprintf(" word %d", n)}
		switch {
		case n%50 == 49:
			method, params = "item/completed", map[string]any{"item": map[string]any{
				"type": "commandExecution", "id": fmt.Sprintf("call_%d", n), "command": "/bin/bash -lc 'go test ./drafts'", "cwd": "/work",
				"status": "completed", "exitCode": 0, "durationMs": 1412, "aggregatedOutput": output, "commandActions": []any{},
			}}
			written += len(output)
		case n%100 == 98:
			total := map[string]any{"totalTokens": n * 10, "inputTokens": n * 8, "cachedInputTokens": n * 6, "outputTokens": n * 2, "reasoningOutputTokens": n}
			method, params = "thread/tokenUsage/updated", map[string]any{"tokenUsage": map[string]any{"total": total, "last": total, "modelContextWindow": 272_000}}
		}
		params["turnId"] = streamTurn
		written += 170
		if err := say(method, params); err != nil {
			return err
		}
	}
	return nil
}

func longStream(say func(method string, params map[string]any) error) error {
	text := strings.Repeat("All work and no play makes a line of twelve megabytes. ", longLine/55)
	for n := range 5 {
		item := map[string]any{"type": "agentMessage", "id": fmt.Sprintf("msg_%d", n), "text": text}
		if err := say("item/completed", map[string]any{"turnId": streamTurn, "item": item}); err != nil {
			return err
		}
	}
	return nil
}

// bare reads the lines and looks whether they are JSON.
func (s stream) bare() (lines int, took time.Duration, err error) {
	runtime.GC()
	began := time.Now()
	r := bufio.NewReaderSize(bytes.NewReader(s.text), 64<<10)
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			return lines, time.Since(began), nil
		case err != nil:
			return lines, 0, err
		case !json.Valid(line):
			return lines, 0, fmt.Errorf("line %d is no JSON", lines+1)
		}
		lines, line = lines+1, line[:0]
	}
}

// session has a turn with the stream as its agent.
func (s stream) session(ctx context.Context) (told int, took time.Duration, err error) {
	runtime.GC()
	began := time.Now()
	session := codex.New(codex.Transport{Stdin: nowhere{}, Stdout: bytes.NewReader(s.text)}, codex.Options{
		OnEvent: func(e codex.Event) { told++ },
	})
	defer func() { err = errors.Join(err, session.Close()) }()
	if _, err := session.Initialize(ctx); err != nil {
		return 0, 0, err
	}
	if _, err := session.StartThread(ctx, codex.ThreadParams{Cwd: "/work"}); err != nil {
		return 0, 0, err
	}
	turn, err := session.RunTurn(ctx, codex.TurnParams{Input: "do it", Cwd: "/work"})
	if err != nil || turn.Status != "completed" {
		return 0, 0, errors.Join(err, fmt.Errorf("the turn ended as %q", turn.Status))
	}
	<-session.Done() // after it nothing more is told
	return told, time.Since(began), nil
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) Close() error                { return nil }
