// Package codextest is a small app-server that runs a script from the prompt, in the language of
// package script, and speaks the protocol of codex 0.169. Tests use it to drive sessions and
// workers, and the demo command uses it as its agent: it needs no model, no network and no
// sandbox.
//
// Messages follow recordings of a real codex (shapes.json), and TestShapes compares their
// members. As with codex, each command runs in its own process session, and only a graceful
// exit kills it, so that tests of clean-up have processes to find.
package codextest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/runner/agent/script"

	"github.com/symphony-cron/symphony/internal/text"
)

// Version is the codex release whose messages the server imitates.
const Version = "0.169.0"

// faults are failures that a prompt can't cause.
const faults = `ways to fail:
silent-initialize       initialize is never answered
initialize-error=TEXT   initialize is answered with this error
thread-error=TEXT       thread/start and thread/resume are answered with this error
version=TEXT            the version that initialize reports
exit                    exit 1 before anything is answered
sandbox=TEXT            command/exec fails with this text, as on a machine that cannot sandbox
sandbox-exit            exit 1 when asked to try the sandbox
specified               no more than the specification names: no home, no version
second                  no version, but a home, as the second version of the protocol has
question                ask whether to install an update instead of answering, and wait
logged-out              account/read reports that a login is needed and missing`

// Main is the main function of a scripted codex, with the arguments "app-server [flags]" or
// "--version". It returns the exit status. CODEX_HOME is the default of the flag --home.
func Main(args []string, in io.Reader, out, errw io.Writer) int {
	switch {
	case len(args) == 1 && args[0] == "--version":
		fmt.Fprintln(out, "codex-cli "+Version)
		return 0
	case len(args) == 0 || args[0] != "app-server":
		fmt.Fprintln(
			errw,
			"usage: app-server [--home DIR] [--pace DURATION] [--fault NAME[=TEXT]]… | --version",
		)
		return 2
	}
	s := &server{
		out:     out,
		errw:    errw,
		faults:  script.Faults{},
		crashed: make(chan struct{}, 1),
		quit:    make(chan struct{}),
		threads: map[string]*thread{},
	}
	flags := flag.NewFlagSet("app-server", flag.ContinueOnError)
	flags.SetOutput(errw)
	flags.StringVar(&s.home, "home", os.Getenv("CODEX_HOME"), "folder for threads; must exist")
	flags.DurationVar(&s.pace, "pace", 0, "wait before each directive")
	flags.DurationVar(&s.deafFor, "deaf-for", 10*time.Minute, "how long a deaf server outlives its client")
	flags.Func("fault", faults, s.faults.Flag(faults))
	flags.Func("c", "a setting, which a scripted codex needs not", func(string) error { return nil })
	if err := flags.Parse(args[1:]); err != nil {
		return 2
	}
	if info, err := os.Stat(s.home); s.home != "" && (err != nil || !info.IsDir()) {
		fmt.Fprintf(errw, "Error: CODEX_HOME points to %q, but that path does not exist\n", s.home)
		return 1
	}
	if s.faults.Has("exit") {
		fmt.Fprintln(errw, "Error: --fault exit")
		return 1
	}
	return s.run(in)
}

// server is an app-server.
type server struct {
	// an existing folder for threads, so that a later process can resume them; "": they are
	// not kept
	home    string
	pace    time.Duration // before each directive, for demos
	deafFor time.Duration
	faults  script.Faults
	errw    io.Writer
	crashed chan struct{} // receives when a turn runs crash
	quit    chan struct{} // closed when the server ends
	deaf    atomic.Bool
	running sync.WaitGroup // counts turns

	initialized     bool // only the reader uses it
	requests, items atomic.Int64
	pending         sync.Map // the server's own requests, as chan *message by id
	granted         sync.Map // commands accepted for the session

	outMu sync.Mutex
	out   io.Writer

	mu       sync.Mutex
	threads  map[string]*thread
	commands []*command
}

// run serves until the client closes its end or the process gets SIGTERM.
func (s *server) run(in io.Reader) int {
	// This keeps SIGTERM from ending the process. A deaf server ignores ctx, too.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			s.take(lines.Bytes())
		}
	}()
	select {
	case <-s.crashed:
		return 1
	case <-gone:
	case <-ctx.Done():
	}
	if s.deaf.Load() {
		select {
		case <-s.crashed:
			return 1
		case <-time.After(s.deafFor):
		}
	}
	s.end()
	return 0
}

// end ends turns and commands. It is not called after a crash: commands go on, as they do when
// a codex is killed.
func (s *server) end() {
	s.mu.Lock()
	close(s.quit)
	for _, t := range s.threads {
		if t.turn != nil {
			t.turn.stop()
		}
	}
	commands := s.commands
	s.mu.Unlock()
	for _, c := range commands {
		c.kill()
	}
	s.running.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.threads {
		_ = t.lock.Close() // releases it; nil for a thread without a home
	}
}

func (s *server) log(text string) {
	fmt.Fprintf(s.errw, "%s ERROR %s\n", time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"), text)
}

// object is a JSON object to send.
type object map[string]any

func (s *server) send(message object) { s.write(append(text.JSON(message), '\n')) }

// write writes a line. A client that stopped reading does not stop the server.
func (s *server) write(line []byte) {
	s.outMu.Lock()
	defer s.outMu.Unlock()
	if _, err := s.out.Write(line); err != nil {
		s.log("codex_app_server_transport: " + err.Error())
	}
}

func (s *server) notify(method string, params object) {
	s.send(object{"method": method, "params": params, "emittedAtMs": now()})
}

// message is a line from the client.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// specified reports whether the server knows no more than the specification.
func (s *server) specified() bool { return s.faults.Has("specified") }

// take handles a line from the client.
func (s *server) take(line []byte) {
	var m message
	if err := json.Unmarshal(line, &m); err != nil || bytes.Equal(m.ID, []byte("null")) {
		s.log("codex_app_server_transport::transport: Failed to deserialize JSONRPCMessage")
		return
	}
	switch {
	case m.Method != "" && m.ID != nil:
		s.serve(&m)
	case m.Method == "":
		if waiting, ok := s.pending.LoadAndDelete(string(m.ID)); ok {
			waiting.(chan *message) <- &m // buffered
		}
	}
}

// params are the members that the server reads, of all requests together.
type params struct {
	ClientInfo     struct{ Name, Version string }
	id             json.RawMessage // of the request
	ThreadID       string
	TurnID         string
	Cwd            string
	ApprovalPolicy json.RawMessage
	Config         *threadConfig
	Input          []input
	Command        []string
	Env            map[string]*string
	TimeoutMs      int64
	ExpectedTurnID string
}

// input is a piece of a prompt. An image counts as the text "[image ADDRESS]".
type input struct{ Type, Text, URL, Path string }

func (i input) prompt() string {
	if i.Type == "image" || i.Type == "localImage" {
		return "[image " + cmp.Or(i.URL, i.Path) + "]"
	}
	return i.Text
}

// reply is the answer to a request: a result and a function to call after it, an error, or
// neither.
type reply struct {
	result object
	after  func()
	err    string
}

// handlers serve the client's requests.
var handlers = map[string]func(*server, *params) reply{
	"initialize":      (*server).initialize,
	"thread/start":    (*server).startThread,
	"thread/resume":   (*server).resumeThread,
	"turn/start":      (*server).startTurn,
	"turn/interrupt":  (*server).interrupt,
	"command/exec":    (*server).exec,
	"turn/steer":      (*server).steer,
	"thread/name/set": func(*server, *params) reply { return reply{result: object{}} },
	"config/read": func(*server, *params) reply {
		return reply{result: object{
			"config":  object{"model_provider": "scripted", "mcp_servers": object{}},
			"origins": object{},
		}}
	},
	"account/read": func(s *server, _ *params) reply {
		return reply{result: object{"account": nil, "requiresOpenaiAuth": s.faults.Has("logged-out")}}
	},
}

func (s *server) serve(m *message) {
	r := s.answer(m)
	if r.err != "" {
		s.send(object{"error": object{"code": -32600, "message": r.err}, "id": m.ID})
		return
	}
	if r.result != nil {
		s.send(object{"id": m.ID, "result": r.result})
	}
	if r.after != nil {
		r.after()
	}
}

// answer carries a request out, or refuses it as codex would.
func (s *server) answer(m *message) reply {
	if len(m.Params) == 0 {
		return reply{err: "Invalid request: missing field `params`"}
	}
	handle := handlers[m.Method]
	if handle == nil {
		return reply{err: unknownVariant(m.Method, slices.Sorted(maps.Keys(handlers)))}
	}
	if !s.initialized && m.Method != "initialize" {
		return reply{err: "Not initialized"}
	}
	fault := s.faults["thread-error"]
	if fault != "" && (m.Method == "thread/start" || m.Method == "thread/resume") {
		return reply{err: fault}
	}
	p := params{id: m.ID}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return reply{err: "Invalid request: " + err.Error()}
	}
	var policy string
	isWord := json.Unmarshal(p.ApprovalPolicy, &policy) == nil
	if isWord && !slices.Contains(approvalPolicies, policy) {
		return reply{err: unknownVariant(policy, approvalPolicies)}
	}
	return handle(s, &p)
}

// approvalPolicies are the words that codex accepts; a policy may also be an object.
var approvalPolicies = []string{"untrusted", "on-request", "granular", "never"}

func unknownVariant(word string, known []string) string {
	return fmt.Sprintf(
		"Invalid request: unknown variant `%s`, expected one of `%s`",
		word,
		strings.Join(known, "`, `"),
	)
}

func (s *server) initialize(p *params) reply {
	s.initialized = true
	if s.faults.Has("silent-initialize") {
		return reply{}
	}
	if s.faults.Has("question") {
		s.write([]byte("\x1b[33mUpdate available!\x1b[0m Install it now? [Y/n] "))
		return reply{}
	}
	if s.specified() {
		return reply{result: object{"userAgent": "peer/1.0"}}
	}
	if s.faults.Has("second") {
		return reply{result: object{"userAgent": "peer", "codexHome": cmp.Or(s.home, "/")}}
	}
	client := p.ClientInfo
	agent := fmt.Sprintf(
		"%s/%s (Scripted; x86_64) dumb (%s; %s)",
		client.Name,
		cmp.Or(s.faults["version"], Version),
		client.Name,
		client.Version,
	)
	return reply{
		err: s.faults["initialize-error"],
		result: object{
			"userAgent":      agent,
			"codexHome":      cmp.Or(os.Getenv("CODEX_HOME"), s.home),
			"platformFamily": "unix",
			"platformOs":     "linux",
		},
	}
}

// probe is the command with which a client tries the sandbox.
var probe = []string{"/bin/sh", "-c", ":"}

// exec runs a command without a sandbox, and answers the probe of the sandbox without running
// it. A fault simulates a machine that can't sandbox.
func (s *server) exec(p *params) reply {
	text := s.faults["sandbox"]
	if s.faults.Has("sandbox-exit") {
		os.Exit(1)
	}
	switch {
	case text != "":
		return reply{result: object{"exitCode": 1, "stdout": "", "stderr": text + "\n"}}
	case slices.Equal(p.Command, probe):
		return reply{result: object{"exitCode": 0, "stdout": "", "stderr": ""}}
	case len(p.Command) == 0:
		return reply{err: "command must not be empty"}
	}
	return reply{after: func() { go s.execute(p) }}
}

// execute runs the command of command/exec and answers.
func (s *server) execute(p *params) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(p.TimeoutMs)*time.Millisecond)
	defer cancel()
	c := exec.CommandContext(ctx, p.Command[0], p.Command[1:]...)
	c.Dir = p.Cwd
	c.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		_, changed := p.Env[name]
		return changed
	})
	for name, value := range p.Env {
		if value != nil {
			c.Env = append(c.Env, name+"="+*value)
		}
	}
	var out, errw strings.Builder
	c.Stdout = &out
	c.Stderr = &errw
	code := 0
	err := c.Run()
	switch {
	case ctx.Err() != nil:
		code = 124 // as codex reports for a command that it ended at its timeout
	case c.ProcessState == nil:
		s.send(object{
			"error": object{"code": -32603, "message": "exec failed: " + err.Error()},
			"id":    p.id,
		})
		return
	default:
		code = c.ProcessState.ExitCode()
	}
	s.send(object{
		"id":     p.id,
		"result": object{"exitCode": code, "stdout": out.String(), "stderr": errw.String()},
	})
}
