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

// ServeOptions configure Serve. With the zero value threads end with the process, and directives run without a pause.
type ServeOptions struct {
	// Home is an existing folder that stores threads, so that thread/resume finds them in a new process. "" stores none.
	Home string
	// Pace is the pause before each directive, for demos.
	Pace time.Duration
	// Faults are faults that no prompt can ask for.
	Faults Faults
	// OnDeaf is called by the directive deaf, so that a program can ignore termination signals too.
	OnDeaf func()
	// DeafFor is how long a deaf server outlives its client; 0 means ten minutes.
	DeafFor time.Duration
}

// Faults are ways in which the server fails, of the handshake above all.
type Faults struct {
	SilentInitialize bool   // initialize is never answered
	InitializeError  string // initialize is answered with this error
	ThreadError      string // thread/start and thread/resume are answered with this error
	Exit             bool   // exit 1 before anything is answered
	Sandbox          string // command/exec fails with this text, as on a machine that cannot sandbox
	NoExec           bool   // command/exec is unknown
	Version          string // reported in place of Version
	LoggedOut        bool   // account/read reports that a login is needed and missing
}

// Codes of error answers.
const (
	invalidRequest = -32600
	internalError  = -32603
)

// maxLine bounds a line from the client; codex accepts prompts of one mebibyte.
const maxLine = 16 << 20

// Serve is the app-server. It reads requests until in ends or ctx is done, kills the commands that still run, and returns
// the exit status of the process.
func Serve(ctx context.Context, in io.Reader, out, errw io.Writer, o ServeOptions) int {
	if o.Home != "" {
		if info, err := os.Stat(o.Home); err != nil || !info.IsDir() {
			fmt.Fprintf(errw, "Error: CODEX_HOME points to %q, but that path does not exist\n", o.Home)
			return 1
		}
	}
	if o.Faults.Exit {
		fmt.Fprintln(errw, "Error: told to fail")
		return 1
	}
	if o.DeafFor <= 0 {
		o.DeafFor = 10 * time.Minute
	}
	s := &server{
		o: o, out: out, errw: errw, exit: make(chan int, 1), quit: make(chan struct{}),
		threads: make(map[string]*thread), pending: make(map[string]chan *message), granted: make(map[string]bool),
	}
	defer s.close()
	lines := make(chan []byte)
	go s.readLines(in, lines)
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				return s.gone()
			}
			s.take(line)
		case code := <-s.exit:
			return code
		case <-ctx.Done():
			return s.gone()
		}
	}
}

type server struct {
	o    ServeOptions
	errw io.Writer
	exit chan int      // crash
	quit chan struct{} // closed when Serve returns

	outMu sync.Mutex
	out   io.Writer

	mu          sync.Mutex
	initialized bool
	client      string
	threads     map[string]*thread
	pending     map[string]chan *message // the server's own requests by id
	nextID      int
	nextItem    int
	granted     map[string]bool // commands accepted for the session
	commands    []*command
	deaf        bool
	crashed     bool
	running     sync.WaitGroup // turns
}

// message is a line from the client.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func (s *server) readLines(in io.Reader, lines chan<- []byte) {
	defer close(lines)
	r := bufio.NewScanner(in)
	r.Buffer(make([]byte, 0, 64<<10), maxLine)
	for r.Scan() {
		select {
		case lines <- bytes.Clone(r.Bytes()):
		case <-s.quit:
			return
		}
	}
	if err := r.Err(); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		s.log("codex_app_server: " + err.Error())
	}
}

// gone handles EOF and termination: a deaf server stays for a while.
func (s *server) gone() int {
	s.mu.Lock()
	deaf := s.deaf
	s.mu.Unlock()
	if deaf {
		timer := time.NewTimer(s.o.DeafFor)
		defer timer.Stop()
		select {
		case <-timer.C:
		case code := <-s.exit:
			return code
		}
	}
	return 0
}

// close ends turns and commands. After a crash commands stay, as after the kill of a codex.
func (s *server) close() {
	close(s.quit)
	s.mu.Lock()
	for _, t := range s.threads {
		if t.turn != nil {
			t.turn.stop()
		}
	}
	commands, crashed := s.commands, s.crashed
	s.mu.Unlock()
	if !crashed {
		for _, c := range commands {
			c.kill()
		}
	}
	s.running.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.threads {
		t.unlock()
	}
}

func (s *server) log(text string) {
	fmt.Fprintf(s.errw, "%s ERROR %s\n", time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"), text)
}

// send writes one line. A client that stopped reading does not stop the server.
func (s *server) send(v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
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

func (s *server) result(id json.RawMessage, result any) {
	s.send(object{"id": id, "result": result})
}

func (s *server) refuse(id json.RawMessage, code int, text string) {
	s.send(object{"error": object{"code": code, "message": text}, "id": id})
}

// take handles one line from the client.
func (s *server) take(line []byte) {
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
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

func (s *server) serve(m *message) {
	s.mu.Lock()
	ready := s.initialized
	s.mu.Unlock()
	switch {
	case len(m.Params) == 0:
		s.refuse(m.ID, invalidRequest, "Invalid request: missing field `params`")
	case m.Method == "initialize":
		s.initialize(m)
	case !ready:
		s.refuse(m.ID, invalidRequest, "Not initialized")
	case m.Method == "thread/start":
		s.startThread(m)
	case m.Method == "thread/resume":
		s.resumeThread(m)
	case m.Method == "thread/name/set":
		s.result(m.ID, object{})
	case m.Method == "turn/start":
		s.startTurn(m)
	case m.Method == "turn/interrupt":
		s.interrupt(m)
	case m.Method == "command/exec":
		s.exec(m)
	case slices.Contains(inspected, m.Method):
		s.inspect(m)
	default:
		s.refuse(m.ID, invalidRequest, unknownVariant(m.Method, methods...))
	}
}

// methods are what the server names in its refusal of an unknown method.
var methods = []string{"initialize", "thread/start", "thread/resume", "thread/name/set", "turn/start", "turn/interrupt"}

func (s *server) initialize(m *message) {
	var p struct {
		ClientInfo struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"clientInfo"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil || p.ClientInfo.Name == "" || p.ClientInfo.Version == "" {
		s.refuse(m.ID, invalidRequest, "Invalid request: missing field `clientInfo`")
		return
	}
	s.mu.Lock()
	again := s.initialized
	s.initialized, s.client = true, p.ClientInfo.Name
	s.mu.Unlock()
	switch {
	case again:
		s.refuse(m.ID, invalidRequest, "Already initialized")
		return
	case s.o.Faults.SilentInitialize:
		return
	case s.o.Faults.InitializeError != "":
		s.refuse(m.ID, invalidRequest, s.o.Faults.InitializeError)
		return
	}
	s.result(m.ID, object{
		"userAgent":      fmt.Sprintf("%s/%s (Scripted; x86_64) dumb (%s; %s)", p.ClientInfo.Name, cmp.Or(s.o.Faults.Version, Version), p.ClientInfo.Name, p.ClientInfo.Version),
		"codexHome":      s.o.Home,
		"platformFamily": "unix",
		"platformOs":     "linux",
	})
	s.notify("remoteControl/status/changed", object{
		"status": "disabled", "serverName": "scripted", "installationId": "00000000-0000-0000-0000-000000000000", "environmentId": nil,
	})
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
	o, err := parseFlags(args[1:], errw)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	// NotifyContext keeps SIGTERM from ending the process; a deaf Serve does not look at ctx either.
	o.OnDeaf = func() { signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP) }
	return Serve(ctx, in, out, errw, o)
}

func parseFlags(args []string, errw io.Writer) (ServeOptions, error) {
	o := ServeOptions{Home: os.Getenv("CODEX_HOME")}
	flags := flag.NewFlagSet("app-server", flag.ContinueOnError)
	flags.SetOutput(errw)
	flags.StringVar(&o.Home, "home", o.Home, "folder for threads; must exist")
	flags.DurationVar(&o.Pace, "pace", 0, "wait before each directive")
	flags.DurationVar(&o.DeafFor, "deaf-for", 10*time.Minute, "how long a deaf server outlives its client")
	flags.Func("fault", "silent-initialize, initialize-error=TEXT, thread-error=TEXT, sandbox=TEXT, no-exec, logged-out, version=TEXT or exit", o.Faults.set)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(errw, "app-server takes no %q\n", flags.Arg(0))
		return o, errors.New("too many arguments")
	}
	return o, nil
}

// set parses one --fault.
func (f *Faults) set(text string) error {
	name, value, _ := strings.Cut(text, "=")
	switch name {
	case "silent-initialize":
		f.SilentInitialize = true
	case "initialize-error":
		f.InitializeError = value
	case "thread-error":
		f.ThreadError = value
	case "sandbox":
		f.Sandbox = value
	case "no-exec":
		f.NoExec = true
	case "logged-out":
		f.LoggedOut = true
	case "version":
		f.Version = value
	case "exit":
		f.Exit = true
	default:
		return fmt.Errorf("unknown fault %q", name)
	}
	return nil
}

// inspected are requests about account and configuration, which need no thread.
var inspected = []string{"account/read", "config/read", "experimentalFeature/list", "hooks/list"}

// inspect answers one of them like a codex with an empty configuration and a provider that needs no login.
func (s *server) inspect(m *message) {
	switch m.Method {
	case "account/read":
		s.result(m.ID, object{"account": nil, "requiresOpenaiAuth": s.o.Faults.LoggedOut})
	case "config/read":
		s.result(m.ID, object{"config": object{"model_provider": "scripted", "mcp_servers": object{}}, "origins": object{}})
	default:
		s.result(m.ID, object{"data": []any{}, "nextCursor": nil})
	}
}
