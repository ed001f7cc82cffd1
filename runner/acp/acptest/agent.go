// Package acptest is a small agent that speaks the Agent Client Protocol and runs a script from
// the prompt, in the language of package script. Tests use it to drive sessions and workers:
// it needs no model and no network.
//
// Of the language it knows: sh, background, say, think, patch, tool, tokens, sleep, stream,
// ask-command, ask-file, request, fail, cancel, crash, hang, deaf, garbage and long. tool calls
// a tool of the client's MCP server, which it starts as a real agent does. "fail KIND TEXT" is
// an error with the errorKind KIND, or with the code KIND.
package acptest

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent/script"
)

// faults are failures that a prompt can't cause.
const faults = `ways to fail:
silent             initialize is never answered
version=N          the version of the protocol that is answered
exit               exit 1 before anything is answered
not-logged-in      session/new fails
logged-out         it says, as Claude does, that it has no login
model=NAME         the model that every session uses, whatever is asked for
no-tools           the client's MCP server is not started`

// Main is the main function of a scripted agent. It returns the exit status.
func Main(args []string, in io.Reader, out, errw io.Writer) int {
	a := &scripted{
		out:      out,
		errw:     errw,
		faults:   script.Faults{},
		sessions: map[string]*session{},
		quit:     make(chan int, 1),
	}
	flags := flag.NewFlagSet("acp", flag.ContinueOnError)
	flags.SetOutput(errw)
	flags.StringVar(&a.home, "home", "", "folder for sessions, so that a later process can resume them")
	flags.StringVar(&a.name, "name", "scripted-acp", "agentInfo.name")
	flags.StringVar(&a.version, "version", "1.0.0", "agentInfo.version")
	flags.Func("fault", faults, a.faults.Flag(faults))
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if a.home != "" {
		_ = os.MkdirAll(a.home, 0o700) // without it no session is known later
	}
	if a.faults.Has("exit") {
		fmt.Fprintln(errw, "Error: --fault exit")
		return 1
	}
	return a.run(in)
}

// scripted is the agent.
type scripted struct {
	home, name, version string

	faults script.Faults
	errw   io.Writer
	quit   chan int // gets the exit status
	deaf   atomic.Bool

	requests atomic.Int64
	items    atomic.Int64
	pending  sync.Map // chan message by id

	outMu sync.Mutex
	out   io.Writer

	mu       sync.Mutex
	sessions map[string]*session
}

// session is a conversation, in memory and in the home.
type session struct {
	ID      string   `json:"id"`
	Cwd     string   `json:"cwd"`
	Prompts []string `json:"prompts"`

	mode   string
	model  string
	here   int // turns in this process
	tools  *mcp.ClientSession
	cancel context.CancelFunc // of the running turn, or nil
}

// object is a JSON object to send.
type object map[string]any

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func (a *scripted) run(in io.Reader) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			a.take(slices.Clone(lines.Bytes()))
		}
		if !a.deaf.Load() {
			a.exit(0)
		}
	}()
	for {
		select {
		case code := <-a.quit:
			return code
		case <-ctx.Done():
			if !a.deaf.Load() {
				return 143
			}
			ctx = context.Background()
		}
	}
}

func (a *scripted) exit(code int) {
	select {
	case a.quit <- code:
	default:
	}
}

func (a *scripted) send(v object) {
	v["jsonrpc"] = "2.0"
	a.write(string(text.JSON(v)))
}

func (a *scripted) write(line string) {
	a.outMu.Lock()
	defer a.outMu.Unlock()
	_, _ = io.WriteString(a.out, line+"\n") // a client that is gone closes stdin, too
}

func (a *scripted) take(line []byte) {
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		a.send(object{"id": nil, "error": object{"code": -32700, "message": "Parse error"}})
		return
	}
	if m.Method == "" {
		if waiting, found := a.pending.LoadAndDelete(string(m.ID)); found {
			waiting.(chan message) <- m // buffered
		}
		return
	}
	if m.Method == "session/prompt" { // it is answered at its end
		go a.prompt(&m)
		return
	}
	result, err := a.serve(&m)
	switch {
	case m.ID == nil:
	case err != nil:
		a.refuse(m.ID, err)
	case result != nil:
		a.send(object{"id": m.ID, "result": result})
	}
}

// refusal is an error of the protocol.
type refusal struct {
	code int
	text string
	data any
}

func (r *refusal) Error() string { return r.text }

func (a *scripted) refuse(id json.RawMessage, err error) {
	r := &refusal{code: -32603, text: "Internal error: " + err.Error()}
	errors.As(err, &r)
	fault := object{"code": r.code, "message": r.text}
	if r.data != nil {
		fault["data"] = r.data
	}
	a.send(object{"id": id, "error": fault})
}

// params are the members that the agent reads, of all requests together.
type params struct {
	ProtocolVersion int
	SessionID       string
	Cwd             string
	ModeID          string
	ConfigID        string
	Value           string
	Prompt          []struct{ Text string }
	McpServers      []struct {
		Command string
		Args    []string
	}
}

func (a *scripted) serve(m *message) (object, error) {
	var p params
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return nil, &refusal{code: -32602, text: "Invalid params: " + err.Error()}
	}
	switch m.Method {
	case "initialize":
		return a.initialize()
	case "session/new":
		return a.newSession(&p)
	case "session/resume":
		return a.resume(&p)
	case "session/list":
		return a.list()
	case "session/set_config_option":
		return a.set(&p)
	case "session/cancel":
		a.cancel(&p)
		return nil, nil
	}
	return nil, &refusal{code: -32601, text: fmt.Sprintf("%q: method not found", m.Method)}
}

func (a *scripted) initialize() (object, error) {
	if a.faults.Has("silent") {
		return nil, nil
	}
	version := json.RawMessage(cmp.Or(a.faults["version"], "1"))
	sessions := object{"close": object{}}
	if a.home != "" {
		sessions["resume"] = object{}
		sessions["list"] = object{}
	}
	return object{
		"protocolVersion":   version,
		"agentInfo":         object{"name": a.name, "title": "Scripted", "version": a.version},
		"agentCapabilities": object{"loadSession": false, "sessionCapabilities": sessions},
		"authMethods":       []object{},
	}, nil
}

func (a *scripted) newSession(p *params) (object, error) {
	if a.faults.Has("not-logged-in") {
		return nil, &refusal{code: -32000, text: "Authentication required"}
	}
	return a.open(&session{ID: uuid.NewString()}, p)
}

func (a *scripted) resume(p *params) (object, error) {
	s, err := a.stored(p.SessionID)
	if err != nil {
		return nil, &refusal{code: -32002, text: "Resource not found"}
	}
	return a.open(s, p)
}

// stored returns a session of the home.
func (a *scripted) stored(id string) (*session, error) {
	s := &session{}
	data, err := os.ReadFile(a.file(id))
	if err == nil {
		err = json.Unmarshal(data, s)
	}
	return s, err
}

func (a *scripted) list() (object, error) {
	files, err := filepath.Glob(a.file("*"))
	if err != nil {
		return nil, err
	}
	sessions := []object{}
	for _, file := range files {
		s, err := a.stored(strings.TrimSuffix(filepath.Base(file), ".json"))
		if err != nil {
			return nil, err
		}
		sessions = append(sessions, object{"sessionId": s.ID, "cwd": s.Cwd})
	}
	return object{"sessions": sessions}, nil
}

func (a *scripted) file(id string) string {
	return filepath.Join(a.home, filepath.Base(id)+".json")
}

// open starts the client's MCP server, and answers with the session's settings.
func (a *scripted) open(s *session, p *params) (object, error) {
	s.Cwd = p.Cwd
	s.mode = "default"
	s.model = cmp.Or(a.faults["model"], "scripted")
	if len(p.McpServers) > 0 && !a.faults.Has("no-tools") {
		server := p.McpServers[0]
		client := mcp.NewClient(&mcp.Implementation{Name: a.name, Version: a.version}, nil)
		tools, err := client.Connect(
			context.Background(),
			&mcp.CommandTransport{Command: exec.CommandContext(context.Background(), server.Command, server.Args...)},
			nil,
		)
		if err != nil {
			return nil, fmt.Errorf("MCP server: %w", err)
		}
		if _, err := tools.ListTools(context.Background(), nil); err != nil {
			return nil, fmt.Errorf("MCP server: %w", err)
		}
		s.tools = tools
	}
	a.mu.Lock()
	a.sessions[s.ID] = s
	a.mu.Unlock()
	if a.faults.Has("logged-out") {
		status := object{"authStatus": object{"kind": "none", "label": "Not logged in"}}
		a.send(object{"method": "_auth/status_update", "params": status})
	}
	answer := s.options()
	answer["sessionId"] = s.ID
	return answer, nil
}

func (s *session) options() object {
	choose := func(id, now string, values ...string) object {
		options := text.Map(values, func(v string) object { return object{"value": v, "name": v} })
		return object{
			"id":           id,
			"name":         id,
			"category":     id,
			"type":         "select",
			"currentValue": now,
			"options":      options,
		}
	}
	return object{"configOptions": []object{
		choose("mode", s.mode, "default", "plan"),
		choose("model", s.model, "scripted", "other"),
	}}
}

func (a *scripted) set(p *params) (object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.sessions[p.SessionID]
	if s == nil {
		return nil, &refusal{code: -32002, text: "Resource not found"}
	}
	known := map[string][]string{"mode": {"default", "plan"}, "model": {"scripted", "other"}}
	if !slices.Contains(known[p.ConfigID], p.Value) {
		return nil, &refusal{code: -32602, text: "Invalid value for config option " + p.ConfigID + ": " + p.Value}
	}
	if p.ConfigID == "mode" {
		s.mode = p.Value
	} else {
		s.model = cmp.Or(a.faults["model"], p.Value)
	}
	return s.options(), nil
}

func (a *scripted) cancel(p *params) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.sessions[p.SessionID]; s != nil && s.cancel != nil {
		s.cancel()
	}
}

// prompt runs a turn and answers it.
func (a *scripted) prompt(m *message) {
	var p params
	if err := json.Unmarshal(m.Params, &p); err != nil || len(p.Prompt) == 0 {
		a.refuse(m.ID, &refusal{code: -32602, text: "Invalid params"})
		return
	}
	a.mu.Lock()
	s := a.sessions[p.SessionID]
	if s == nil {
		a.mu.Unlock()
		a.refuse(m.ID, &refusal{code: -32002, text: "Resource not found"})
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.cancel = cancel
	s.here++
	s.Prompts = append(s.Prompts, p.Prompt[0].Text)
	steps, err := script.Steps(s.Prompts, s.here)
	a.mu.Unlock()
	if a.home != "" {
		_ = os.WriteFile(a.file(s.ID), text.JSON(s), 0o600) // without it the session is unknown later
	}
	t := &turn{agent: a, session: s, ctx: ctx, input: 1000, output: 50}
	if err == nil {
		err = t.play(steps)
	}
	a.mu.Lock()
	s.cancel = nil
	a.mu.Unlock()
	usage := object{"inputTokens": t.input, "outputTokens": t.output, "totalTokens": t.input + t.output}
	switch {
	case errors.Is(err, errCrashed):
	case errors.Is(err, context.Canceled):
		a.send(object{"id": m.ID, "result": object{"stopReason": "cancelled"}})
	case err != nil:
		a.refuse(m.ID, err)
	default:
		a.send(object{"id": m.ID, "result": object{"stopReason": "end_turn", "usage": usage}})
	}
}

var errCrashed = errors.New("crashed")

// sleep waits, or ends the turn if it is cancelled.
func (t *turn) sleep(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-t.ctx.Done():
		return t.ctx.Err()
	}
}
