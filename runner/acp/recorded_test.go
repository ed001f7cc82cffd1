package acp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/wire"
)

// TestRecorded plays the agents' part of recorded conversations, and compares what the session
// makes of them with a golden file, which UPDATE_SCRIPTS=1 rewrites. The prompts of the
// recordings are the scripts of the model that the agents talked to.
func TestRecorded(t *testing.T) {
	files := test.Must(filepath.Glob("testdata/recorded/*.jsonl"))
	var all strings.Builder
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		t.Run(name, func(t *testing.T) {
			fmt.Fprintf(&all, "== %s\n%s\n", name, replay(t, name))
		})
	}
	const golden = "testdata/recorded.golden"
	if os.Getenv("UPDATE_SCRIPTS") != "" {
		test.OK(t, os.WriteFile(golden, []byte(all.String()), 0o600))
	}
	if !t.Failed() {
		test.Equal(t, golden, all.String(), test.Read(t, golden))
	}
}

// models are asked for in the recordings of agents that need one.
var models = map[string]string{
	"opencode":                               "mock/m1",
	"opencode_wrong_model":                   "mock/no-such",
	"opencode_wrong_model_enabled_providers": "mock/no-such",
	"opencode_no_provider_disabled":          "mock/m1",
}

// replay returns what a session tells of a recorded conversation.
func replay(t *testing.T, name string) string {
	agentName, _, _ := strings.Cut(name, "_")
	p := &player{t: t, cancel: make(chan struct{})}
	p.read("testdata/recorded/" + name + ".jsonl")
	k := kindNamed(agentName)
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p.out = outW
	var mu sync.Mutex
	var told strings.Builder
	tell := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&told, format+"\n", args...)
	}
	asked := make(chan struct{})
	approval := agent.ApprovalApprove
	switch {
	case strings.Contains(name, "reject"):
		approval = agent.ApprovalDeny
	case strings.Contains(name, "never"):
		approval = agent.ApprovalAsk
	}
	s := newSession(k, agent.Streams{Stdin: inW, Stdout: outR}, agent.Options{
		OnApproval: approval,
		Ask: func(ctx context.Context, r agent.Request) agent.Decision {
			close(asked)
			return waitForEnd(ctx, r)
		},
		Now: func() time.Time { return time.UnixMilli(0) },
		OnEvent: func(e agent.Event) {
			if !e.Fragment && !e.Routine {
				tell("%s", described(e))
			}
		},
	})
	played := make(chan struct{})
	go func() {
		defer close(played)
		p.play(inR)
	}()
	go func() {
		<-p.cancel
		if approval == agent.ApprovalAsk {
			<-asked
		}
		_ = s.Interrupt(t.Context()) // RunTurn tells how the turn ended
	}()
	tell("%s", p.converse(s, agent.ThreadParams{
		Cwd:   "/WORKSPACE",
		Model: firstOf(models[name], models[agentName]),
	}, tell))
	test.OK(t, s.Close())
	_ = outW.Close()
	<-s.Done()
	<-played
	return told.String()
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func kindNamed(name string) *kind {
	at := slices.IndexFunc(kinds, func(k *kind) bool { return k.name == name })
	if at < 0 { // one of the agents without a row
		return kinds[len(kinds)-1]
	}
	return kinds[at]
}

// described describes an event in a line.
func described(e agent.Event) string {
	line := "  " + e.Name + ": " + e.Message
	if i := e.Item; i != nil {
		item := *i
		item.ID = ""
		line += " " + string(test.Must(json.Marshal(item)))
	}
	if e.Usage != nil {
		line += fmt.Sprintf(" [%d in, %d out]", e.Usage.Input, e.Usage.Output)
	}
	return line
}

// recordedLine is a line of a recording: of the client or of the agent.
type recordedLine struct{ Send, Recv *wire.Message }

// player is the agent of a recording.
type player struct {
	t      *testing.T
	lines  []recordedLine
	out    *io.PipeWriter
	cancel chan struct{} // closed when the recording cancels the turn

	ids     map[string]json.RawMessage // of the client's requests, by their ids in the recording
	options []map[string]any           // the settings of the session
	loads   bool                       // the recording loads a session that could be resumed
}

func (p *player) read(file string) {
	p.ids = map[string]json.RawMessage{}
	opens := false
	modes := map[string]bool{} // ids of session/set_mode: this client uses another request
	for line := range strings.Lines(test.Read(p.t, file)) {
		var l struct{ Send, Recv json.RawMessage }
		test.OK(p.t, json.Unmarshal([]byte(line), &l))
		var r recordedLine
		if l.Send != nil {
			r.Send = wire.ReadMessage(l.Send)
		} else {
			r.Recv = wire.ReadMessage(l.Recv)
		}
		switch {
		case r.Send != nil && r.Send.Method == "session/set_mode":
			modes[string(r.Send.ID)] = true
			continue
		case r.Recv != nil && r.Recv.Method == "" && modes[string(r.Recv.ID)]:
			continue
		case r.Send != nil && r.Send.Method == "session/load" && !opens:
			p.loads = true
		}
		opens = opens || r.Send != nil && strings.HasPrefix(r.Send.Method, "session/")
		p.lines = append(p.lines, r)
	}
}

// play sends the agent's lines, each as soon as the client has sent what comes before it.
func (p *player) play(in io.Reader) {
	heard := bufio.NewScanner(in)
	heard.Buffer(nil, 1<<20)
	for _, l := range p.lines {
		if l.Send == nil {
			p.say(l.Recv)
			continue
		}
		if l.Send.Method == "session/cancel" {
			close(p.cancel)
		}
		if !p.await(heard, l.Send) {
			return
		}
	}
	for heard.Scan() { // until the session is closed
	}
}

// await reads until the client has sent a line of the recording. It takes any mode; what the
// client asks for besides is refused.
func (p *player) await(heard *bufio.Scanner, want *wire.Message) bool {
	for heard.Scan() {
		m := wire.ReadMessage(bytes.Clone(heard.Bytes()))
		checked(p.t, m, map[string]string{string(m.ID): "session/request_permission"}) // nothing else is answered
		var asked struct{ ConfigID, Value string }
		wire.Unmarshal(m.Params, &asked)
		switch {
		case m.Method == want.Method && m.Method != "":
			p.ids[string(want.ID)] = m.ID
			return true
		case m.Method == "session/set_config_option" && asked.ConfigID == "mode":
			for _, option := range p.options {
				if option["id"] == "mode" {
					option["currentValue"] = asked.Value
				}
			}
			p.write(wire.Object{"jsonrpc": "2.0", "id": m.ID, "result": wire.Object{"configOptions": p.options}})
		case m.Method == "" && want.Method == "" && string(m.ID) == string(want.ID):
			test.Equal(p.t, "answer", string(compact(m.Result)), string(compact(want.Result)))
			return true
		case m.Method != "" && m.HasID():
			p.write(wire.Object{
				"jsonrpc": "2.0",
				"id":      m.ID,
				"error":   wire.Object{"code": -32602, "message": "not in the recording"},
			})
		}
	}
	return false
}

// say sends a line of the agent, with the id of the client's request if it is an answer.
func (p *player) say(m *wire.Message) {
	var line map[string]json.RawMessage
	test.OK(p.t, json.Unmarshal(m.Raw, &line))
	if m.Method == "" {
		line["id"] = p.ids[string(m.ID)]
		var settings struct{ ConfigOptions []map[string]any }
		wire.Unmarshal(m.Result, &settings)
		if settings.ConfigOptions != nil {
			p.options = settings.ConfigOptions
		}
	}
	if p.loads && line["result"] != nil {
		line["result"] = bytes.ReplaceAll(line["result"], []byte(`"resume"`), []byte(`"hidden"`))
	}
	p.write(line)
}

func (p *player) write(line any) {
	// the session may have been closed
	_, _ = p.out.Write(append(test.Must(json.Marshal(line)), '\n'))
}

func compact(raw json.RawMessage) json.RawMessage {
	var v any
	wire.Unmarshal(raw, &v)
	return test.Must(json.Marshal(v))
}

// converse does with the session what the client of the recording did, and returns how it
// ended.
func (p *player) converse(s *Session, params agent.ThreadParams, tell func(string, ...any)) string {
	ctx := p.t.Context()
	server, err := s.Initialize(ctx)
	s.conn.Flush()
	if err != nil {
		return "initialize: " + err.Error()
	}
	tell("%s", server.UserAgent)
	err = p.open(s, params)
	s.conn.Flush()
	if err != nil {
		return "no session: " + told(err)
	}
	tell("model %q", s.Model())
	for _, l := range p.lines {
		if l.Send == nil || l.Send.Method != "session/prompt" {
			continue
		}
		var prompt struct{ Prompt []struct{ Text string } }
		wire.Unmarshal(l.Send.Params, &prompt)
		turn, err := s.RunTurn(ctx, agent.TurnParams{Input: prompt.Prompt[0].Text, Cwd: "/WORKSPACE"})
		ended := fmt.Sprintf("turn %s %q", turn.Status, turn.LastMessage)
		if turn.Cost != nil {
			ended += fmt.Sprintf(", %.5f %s", turn.Cost.Amount, turn.Cost.Currency)
		}
		if err != nil {
			ended += ", " + told(err)
		}
		tell("%s", ended)
	}
	used := slices.Collect(maps.Values(s.UsageByThread()))
	return fmt.Sprintf("used %+v, model %q", used, s.Model())
}

// open opens the session of the recording.
func (p *player) open(s *Session, params agent.ThreadParams) error {
	for _, l := range p.lines {
		if l.Send == nil {
			continue
		}
		switch l.Send.Method {
		case "session/new":
			return test.Err(s.StartThread(p.t.Context(), params))
		case "session/resume", "session/load":
			var asked struct{ SessionID string }
			wire.Unmarshal(l.Send.Params, &asked)
			return s.ResumeThread(p.t.Context(), asked.SessionID, params)
		}
	}
	return errors.New("the recording opens no session")
}

func told(err error) string {
	code := ""
	if failed, is := errors.AsType[*agent.Error](err); is {
		code = string(failed.Code)
	}
	return fmt.Sprintf("%s: %v", code, err)
}
