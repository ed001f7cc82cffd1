package codextest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Version is the codex release whose messages the server imitates.
const Version = "0.169.0"

// options are the flags of the server. Without a home, threads end with the process.
type options struct {
	home    string        // an existing folder that keeps threads, so that a new process can resume them
	pace    time.Duration // before each directive, for demos
	deafFor time.Duration // how long a deaf server outlives its client
	faults  map[string]string
}

// faults are failures that no prompt can ask for.
const faults = `ways to fail:
silent-initialize       initialize is never answered
initialize-error=TEXT   initialize is answered with this error
thread-error=TEXT       thread/start and thread/resume are answered with this error
version=TEXT            the version that initialize reports
exit                    exit 1 before anything is answered
sandbox=TEXT            command/exec fails with this text, as on a machine that cannot sandbox
logged-out              account/read reports that a login is needed and missing`

func (o *options) addFault(text string) error {
	name, value, _ := strings.Cut(text, "=")
	if !strings.Contains(faults, "\n"+name+"=") && !strings.Contains(faults, "\n"+name+" ") {
		return fmt.Errorf("unknown fault %q", name)
	}
	o.faults[name] = value
	return nil
}

// Main is the main function of a scripted codex, with the arguments "app-server [flags]" or "--version". It returns the exit
// status. CODEX_HOME is the default of the flag --home.
func Main(args []string, in io.Reader, out, errw io.Writer) int {
	switch {
	case len(args) == 1 && args[0] == "--version":
		fmt.Fprintln(out, "codex-cli "+Version)
		return 0
	case len(args) == 0 || args[0] != "app-server":
		fmt.Fprintln(errw, "usage: app-server [--home DIR] [--pace DURATION] [--fault NAME[=TEXT]]… | --version")
		return 2
	}
	o := options{faults: map[string]string{}}
	flags := flag.NewFlagSet("app-server", flag.ContinueOnError)
	flags.SetOutput(errw)
	flags.StringVar(&o.home, "home", os.Getenv("CODEX_HOME"), "folder for threads; must exist")
	flags.DurationVar(&o.pace, "pace", 0, "wait before each directive")
	flags.DurationVar(&o.deafFor, "deaf-for", 10*time.Minute, "how long a deaf server outlives its client")
	flags.Func("fault", faults, o.addFault)
	if err := flags.Parse(args[1:]); err != nil {
		return 2
	} else if flags.NArg() > 0 {
		fmt.Fprintf(errw, "app-server takes no %q\n", flags.Arg(0))
		return 2
	}
	if info, err := os.Stat(o.home); o.home != "" && (err != nil || !info.IsDir()) {
		fmt.Fprintf(errw, "Error: CODEX_HOME points to %q, but that path does not exist\n", o.home)
		return 1
	}
	if _, told := o.faults["exit"]; told {
		fmt.Fprintln(errw, "Error: told to fail")
		return 1
	}
	s := &server{
		options: o, out: out, errw: errw, crashed: make(chan struct{}, 1), quit: make(chan struct{}),
		threads: map[string]*thread{}, pending: map[string]chan *message{}, granted: map[string]bool{},
	}
	return s.run(in)
}

// server is one app-server.
type server struct {
	options
	errw    io.Writer
	crashed chan struct{} // a turn said crash
	quit    chan struct{} // closed when the server ends

	outMu sync.Mutex
	out   io.Writer // nil when the client has stopped reading

	mu          sync.Mutex
	initialized bool
	threads     map[string]*thread
	pending     map[string]chan *message // the server's own requests by id
	nextID      int
	nextItem    int
	granted     map[string]bool // commands accepted for the session
	commands    []*command
	deaf        bool
	running     sync.WaitGroup // turns
}

// run serves until the client closes its end or the process is told to end.
func (s *server) run(in io.Reader) int {
	// This keeps SIGTERM from ending the process; a deaf server does not look at ctx either.
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
		if err := lines.Err(); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			s.log("codex_app_server: " + err.Error())
		}
	}()
	select {
	case <-s.crashed:
		return 1
	case <-gone:
	case <-ctx.Done():
	}
	s.mu.Lock()
	deaf := s.deaf
	s.mu.Unlock()
	if deaf {
		select {
		case <-s.crashed:
			return 1
		case <-time.After(s.deafFor):
		}
	}
	s.end()
	return 0
}

// end ends turns and commands. After a crash commands stay, as after the kill of a codex.
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
		_ = t.lock.Close() // releases it; a thread without a home has none
	}
}

func (s *server) log(text string) {
	fmt.Fprintf(s.errw, "%s ERROR %s\n", time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"), text)
}

// object is a JSON object to send.
type object map[string]any

// send writes one message. A client that stopped reading does not stop the server.
func (s *server) send(message object) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(message); err != nil {
		s.log("codex_app_server: " + err.Error())
		return
	}
	s.write(b.Bytes())
}

func (s *server) write(line []byte) {
	s.outMu.Lock()
	defer s.outMu.Unlock()
	if s.out == nil {
		return
	}
	if _, err := s.out.Write(line); err != nil {
		s.out = nil
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

// take handles one line from the client.
func (s *server) take(line []byte) {
	var m message
	if err := json.Unmarshal(line, &m); err != nil || bytes.Equal(m.ID, []byte("null")) {
		s.log("codex_app_server_transport::transport: Failed to deserialize JSONRPCMessage")
		return
	}
	switch {
	case m.Method != "" && m.ID != nil:
		s.serve(&m)
	case m.Method == "initialized":
	case m.Method != "":
		s.log("codex_app_server: unknown notification " + m.Method)
	default:
		s.mu.Lock()
		waiting := s.pending[string(m.ID)]
		delete(s.pending, string(m.ID))
		s.mu.Unlock()
		if waiting != nil {
			waiting <- &m // buffered
		}
	}
}

// params are the members of all requests that the server reads.
type params struct {
	ClientInfo struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"clientInfo"`
	id             json.RawMessage         // of the request
	ThreadID       string                  `json:"threadId"`
	TurnID         string                  `json:"turnId"`
	Cwd            string                  `json:"cwd"`
	ApprovalPolicy json.RawMessage         `json:"approvalPolicy"`
	Sandbox        json.RawMessage         `json:"sandbox"`
	SandboxPolicy  json.RawMessage         `json:"sandboxPolicy"`
	Config         *threadConfig           `json:"config"`
	Input          []struct{ Text string } `json:"input"`
}

// reply is the answer to a request: a result with what follows it, an error, or neither.
type reply struct {
	result object
	after  func()
	err    string
}

// handlers serve the client's requests.
var handlers = map[string]func(*server, *params) reply{
	"initialize": (*server).initialize, "thread/start": (*server).startThread, "thread/resume": (*server).resumeThread,
	"turn/start": (*server).startTurn, "turn/interrupt": (*server).interrupt, "command/exec": (*server).exec,
	"thread/name/set": func(*server, *params) reply { return reply{result: object{}} },
	"config/read": func(*server, *params) reply {
		return reply{result: object{"config": object{"model_provider": "scripted", "mcp_servers": object{}}, "origins": object{}}}
	},
	"account/read": func(s *server, _ *params) reply {
		_, needed := s.faults["logged-out"]
		return reply{result: object{"account": nil, "requiresOpenaiAuth": needed}}
	},
}

func (s *server) serve(m *message) {
	var r reply
	p := params{id: m.ID}
	handle := handlers[m.Method]
	switch {
	case len(m.Params) == 0:
		r.err = "Invalid request: missing field `params`"
	case handle == nil:
		r.err = unknownVariant(m.Method, slices.Sorted(maps.Keys(handlers)))
	case !s.initialized && m.Method != "initialize": // only the reader writes it
		r.err = "Not initialized"
	default:
		if err := json.Unmarshal(m.Params, &p); err != nil {
			r.err = "Invalid request: " + err.Error()
		} else if r.err = p.check(); r.err == "" {
			r = handle(s, &p)
		}
	}
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

// check is codex's error message for policies that it refuses, "" for valid ones.
func (p *params) check() string {
	var policy struct{ Type string }
	var word string
	switch {
	case json.Unmarshal(p.ApprovalPolicy, &word) == nil && !slices.Contains(approvalPolicies, word):
		return unknownVariant(word, approvalPolicies)
	case json.Unmarshal(p.Sandbox, &word) == nil && !slices.Contains(sandboxModes, word):
		return unknownVariant(word, sandboxModes)
	case len(p.SandboxPolicy) == 0:
		return ""
	case json.Unmarshal(p.SandboxPolicy, &policy) != nil:
		return "Invalid request: invalid type: expected internally tagged enum SandboxPolicyDeserialize"
	case policy.Type == "":
		return "Invalid request: missing field `type`"
	case !slices.Contains(sandboxPolicies, policy.Type):
		return unknownVariant(policy.Type, sandboxPolicies)
	}
	return ""
}

var (
	approvalPolicies = []string{"untrusted", "on-request", "granular", "never"}
	sandboxModes     = []string{"read-only", "workspace-write", "danger-full-access"}
	sandboxPolicies  = []string{"dangerFullAccess", "readOnly", "externalSandbox", "workspaceWrite"}
)

func unknownVariant(word string, known []string) string {
	return fmt.Sprintf("Invalid request: unknown variant `%s`, expected one of `%s`", word, strings.Join(known, "`, `"))
}

func (s *server) initialize(p *params) reply {
	if p.ClientInfo.Name == "" || p.ClientInfo.Version == "" {
		return reply{err: "Invalid request: missing field `clientInfo`"}
	}
	if s.initialized {
		return reply{err: "Already initialized"}
	}
	s.initialized = true
	if _, silent := s.faults["silent-initialize"]; silent {
		return reply{}
	}
	version := cmp.Or(s.faults["version"], Version)
	return reply{
		err: s.faults["initialize-error"],
		result: object{
			"userAgent": fmt.Sprintf("%s/%s (Scripted; x86_64) dumb (%[1]s; %s)", p.ClientInfo.Name, version, p.ClientInfo.Version),
			"codexHome": s.home, "platformFamily": "unix", "platformOs": "linux",
		},
	}
}

// exec serves the probe of the sandbox. It runs nothing: a fault stands for a machine that cannot sandbox.
func (s *server) exec(p *params) reply {
	free := bytes.Contains(p.SandboxPolicy, []byte(`"dangerFullAccess"`)) || bytes.Contains(p.SandboxPolicy, []byte(`"externalSandbox"`))
	if text := s.faults["sandbox"]; text != "" && !free {
		return reply{result: object{"exitCode": 1, "stdout": "", "stderr": text + "\n"}}
	}
	return reply{result: object{"exitCode": 0, "stdout": "", "stderr": ""}}
}
