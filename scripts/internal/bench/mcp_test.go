//go:build linux

package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkMCP measures a server whose host reads the events of 20 agents, 100 a second each,
// and compares the memory of their workers with that of workers of issues whose agents do the
// same.
func BenchmarkMCP(b *testing.B) {
	const agents, perSecond = 20, 100
	seconds := unlessShort(20, 5)
	// two events each
	script := strings.Repeat("think the answer is near\nsleep 20ms\n", seconds*perSecond/2)
	report(b, func() []metric {
		p := newProject(b, agents)
		p.setIssues(agents, 0, script)
		p.symphony("tick")
		ofIssues := p.memoryOfWorkers(b, agents)
		p.stop()

		h := p.startHost()
		defer h.end()
		for n := range agents {
			id := fmt.Sprintf("agent-%d", n)
			conversation := struct{ ConversationID string }{}
			dir := filepath.Join(p.Dir, id)
			must(os.Mkdir(dir, 0o700))
			h.call("spawn_agent", map[string]any{"id": id, "cwd": dir}, nil)
			h.call("new_conversation", map[string]any{"agentId": id}, &conversation)
			h.conversations = append(h.conversations, conversation.ConversationID)
		}
		for n, conversation := range h.conversations {
			items := []map[string]any{{"type": "text", "text": "```agent\n" + script + "```"}}
			h.call("send_user_turn", map[string]any{
				"agentId": fmt.Sprintf("agent-%d", n),
				"params":  map[string]any{"conversationId": conversation, "items": items},
			}, nil)
		}
		ofAgents := p.memoryOfWorkers(b, agents)
		for end := time.Now().Add(5 * time.Minute); h.turns() < agents; pause(100 * time.Millisecond) {
			if time.Now().After(end) {
				b.Fatal("the turns have not ended")
			}
		}
		delays, dropped := h.delays()
		memory := h.peakMB()
		for n := range agents {
			h.call("kill_agent", map[string]any{"agentId": fmt.Sprintf("agent-%d", n)}, nil)
		}
		return []metric{
			{memory, "server-MB", 60},
			{slices.Max(delays), "s-to-host", 1},
			{float64(dropped), "dropped", 0},
			{1000 * median(delays), "ms-to-host", math.Inf(1)},
			{float64(len(delays)) / float64(seconds), "events/s", math.Inf(1)},
			{ofAgents / ofIssues, "x-worker", 1.1},
			{ofAgents, "worker-MB", math.Inf(1)},
		}
	})
}

// memoryOfWorkers is the mean memory of workers whose agents have been at work for some
// seconds.
func (p *project) memoryOfWorkers(b *testing.B, count int) (mb float64) {
	pause(4 * time.Second)
	workers, _ := p.workers()
	if len(workers) != count {
		b.Fatalf("%d workers, want %d", len(workers), count)
	}
	for _, pid := range workers {
		mb += proportionalSetMB(pid) / float64(count)
	}
	return mb
}

// host is a program that uses symphony mcp and reads all that comes.
type host struct {
	server
	in            io.WriteCloser
	answers       chan json.RawMessage
	events        chan event // as they come
	seen          []event
	conversations []string
}

type event struct {
	At            time.Time
	Name, Message string
	Dropped       int64
	came          time.Time
}

func (p *project) startHost() *host {
	launcher := filepath.Join(p.Dir, "codex")
	must(
		os.WriteFile(
			launcher,
			fmt.Appendf(
				nil,
				"#!/bin/sh\nexec '%s' demo-agent app-server --home \"$CODEX_HOME\"\n",
				programs.agent,
			),
			0o700,
		),
	) //nolint:gosec // a program
	cmd := exec.CommandContext(ctx, programs.symphony, "mcp")
	cmd.Dir = p.Dir
	cmd.Env = append(slices.Clone(p.Env), "CODEX_BIN="+launcher, "CODEX_HOME="+p.AgentHome)
	cmd.Stderr = os.Stderr
	h := &host{
		server:  server{cmd},
		in:      get(cmd.StdinPipe()),
		answers: make(chan json.RawMessage, 1),
		events:  make(chan event, 1_000_000),
	}
	out := bufio.NewReader(get(cmd.StdoutPipe()))
	must(cmd.Start())
	go h.read(out)
	h.send(
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","clientInfo":{"name":"bench","version":"1"},` +
			`"capabilities":{"experimental":{"codex/event":{}}}}}`,
	)
	<-h.answers
	h.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return h
}

func (h *host) read(out *bufio.Reader) {
	for {
		line, err := out.ReadBytes('\n')
		if err != nil {
			return // the server has ended
		}
		var m struct {
			Method string
			Params event
		}
		must(json.Unmarshal(line, &m))
		if m.Method == "" {
			h.answers <- line
			continue
		}
		m.Params.came = time.Now()
		h.events <- m.Params
	}
}

func (h *host) send(line string) { get(io.WriteString(h.in, line+"\n")) }

func (h *host) call(tool string, arguments, result any) {
	h.send(
		fmt.Sprintf(
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`,
			tool,
			get(json.Marshal(arguments)),
		),
	)
	var m struct {
		Error  json.RawMessage
		Result struct {
			IsError           bool
			StructuredContent json.RawMessage
		}
	}
	must(json.Unmarshal(<-h.answers, &m))
	if m.Error != nil || m.Result.IsError {
		must(fmt.Errorf("%s: %s%s", tool, m.Error, m.Result.StructuredContent))
	}
	if result != nil {
		must(json.Unmarshal(m.Result.StructuredContent, result))
	}
}

// peakMB is the memory of the server at its peak, with the pages of the program.
func (h *host) peakMB() (mb float64) {
	_, after, _ := strings.Cut(
		string(get(os.ReadFile(fmt.Sprintf("/proc/%d/status", h.Process.Pid)))),
		"VmHWM:",
	)
	get(fmt.Sscanf(after, "%f kB", &mb))
	return mb * 1024 / 1e6
}

// turns is how many turns have ended according to the events.
func (h *host) turns() (ended int) {
	for len(h.events) > 0 {
		h.seen = append(h.seen, <-h.events)
	}
	for _, e := range h.seen {
		if e.Name == "call_completed" && e.Message == "turn" {
			ended++
		}
		if e.Name == "call_failed" {
			must(errors.New("a call has failed"))
		}
	}
	return ended
}

// delays are the seconds from each event to its arrival.
func (h *host) delays() (delays []float64, dropped int64) {
	for _, e := range h.seen {
		delays = append(delays, e.came.Sub(e.At).Seconds())
		dropped = dropped + e.Dropped
	}
	return delays, dropped
}
