package codex

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/runner/agent"
)

// OldestVersion is the oldest codex release that passes the tests with the real codex. Up to 0.166, codex does not name the
// MCP tool that it asks approval for.
const OldestVersion = "0.169.0"

// Session is one conversation with one app-server. It implements agent.Session.
type Session struct {
	o    agent.Options
	conn *conn

	// life ends with the session: tool calls and questions run within it.
	life context.Context
	end  context.CancelFunc

	requests requests // of codex's, being answered
	inspector
	account
	threads
	conversation
}

// conversation is the state of the thread and its turns, as the lines so far tell it.
type conversation struct {
	mu       sync.Mutex
	thread   string
	opened   bool // the fixed id of a request for a thread is used up
	turn     *turn
	lastTurn agent.TurnParams    // of the latest turn/start
	foreign  map[string]*foreign // turns of our thread that codex started by itself
	finished map[string]bool     // turns that ended
	patches  patches             // file changes under way
}

var _ agent.Session = (*Session)(nil)

// Start is New as an agent.Starter.
func Start(streams agent.Streams, o agent.Options) agent.Session { return New(streams, o) }

// New takes over the streams and starts to read. The caller must Close the session and end the process: the session's
// goroutines end with its stdout.
func New(streams agent.Streams, o agent.Options) *Session {
	o.ReadTimeout = cmp.Or(max(0, o.ReadTimeout), agent.DefaultReadTimeout)
	o.InitializeTimeout = cmp.Or(max(0, o.InitializeTimeout), o.ReadTimeout)
	c := newConn(streams, o.ReadTimeout, o.OnEvent)
	s := &Session{
		o: o, conn: c, inspector: inspector{c}, requests: requests{open: make(map[string]*request)},
		account: newAccount(), threads: newThreads(),
		conversation: conversation{foreign: make(map[string]*foreign), finished: make(map[string]bool)},
	}
	s.life, s.end = context.WithCancel(context.Background())
	go func() {
		s.conn.read(s.handle)
		s.end()
		close(s.conn.ended)
	}()
	return s
}

// Close implements agent.Session.
func (s *Session) Close() error {
	s.end()
	return s.conn.close()
}

// Done implements agent.Session.
func (s *Session) Done() <-chan struct{} { return s.conn.events.drained }

// handle takes one line, in the reader.
func (s *Session) handle(m *message) {
	switch {
	case m.Method != "" && m.hasID():
		s.sawLine(true)
		s.serve(m)
	case m.Method != "":
		s.notice(m)
	case m.hasID() && (m.Result != nil || m.Error != nil):
		s.sawLine(false)
		if !s.conn.answer(m) {
			s.emit(agent.Event{Name: agent.EventOtherMessage, Message: "answer to no request of ours, id " + oneLine(string(m.ID), 40), Raw: m.raw})
		}
	case json.Valid(m.raw) && m.raw[0] == '{':
		s.sawLine(false)
		s.emit(agent.Event{Name: agent.EventOtherMessage, Message: oneLine(string(m.raw), messageLength), Raw: m.raw})
	default:
		s.sawLine(false)
		e := agent.Event{Name: agent.EventMalformed, Message: oneLine(string(m.raw), messageLength)}
		if json.Valid(m.raw) {
			e.Raw = m.raw
		}
		s.emit(e)
	}
}

func (s *conversation) sawLine(progress bool) {
	if t := s.currentTurn(); t != nil {
		t.clock.sawLine(progress)
	}
}

func (s *conversation) currentTurn() *turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turn
}

func (s *Session) emit(e agent.Event) {
	e.PID = s.o.PID
	s.conn.events.emit(e)
}

// ThreadID is the thread that was started or resumed, "" before that.
func (s *conversation) ThreadID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.thread
}

// isOurs reports whether a message belongs to the session's thread: it names that, or none.
func (s *conversation) isOurs(thread string) bool { return thread == "" || thread == s.ThreadID() }

// Initialize implements agent.Session.
func (s *Session) Initialize(ctx context.Context) (server agent.Server, err error) {
	const method = "initialize"
	defer func() { s.emitStartupFailed(err) }()
	m, err := s.conn.request(ctx, idInitialize, method, object{
		"clientInfo":   object{"name": "symphony", "version": cmp.Or(s.o.ClientVersion, "0")},
		"capabilities": object{"experimentalApi": len(s.o.Tools) > 0}, // dynamic tools need it
	}, s.o.InitializeTimeout, nil)
	if err != nil {
		return agent.Server{}, err
	}
	if m.Error != nil {
		e := responseError(method, *m.Error, true)
		e.Code = agent.CodeIncompatible // whatever it says: nothing else can be tried
		return agent.Server{}, e
	}
	var answer struct {
		UserAgent string `json:"userAgent"`
		CodexHome string `json:"codexHome"`
	}
	if err := json.Unmarshal(m.Result, &answer); err != nil {
		return agent.Server{}, incompatible(method, err.Error())
	}
	server = agent.Server{UserAgent: answer.UserAgent, Home: answer.CodexHome, Version: versionOf(answer.UserAgent)}
	if minor(server.Version) < minor(OldestVersion) {
		return agent.Server{}, incompatible(method, fmt.Sprintf("codex %s is older than %s, the oldest release that symphony works with", server.Version, OldestVersion))
	}
	return server, s.conn.send(object{"method": "initialized", "params": object{}})
}

// versionOf reads "0.169.0" from a user agent such as "symphony/0.169.0 (Debian 12)".
func versionOf(userAgent string) string {
	_, rest, _ := strings.Cut(userAgent, "/")
	version, _, _ := strings.Cut(rest, " ")
	return version
}

// minor is the number that counts codex's releases. A version of another form counts as a new one.
func minor(version string) int {
	major, rest, _ := strings.Cut(version, ".")
	number, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	if err != nil || major != "0" {
		return 1 << 30
	}
	return n
}

// threadRequest are the parameters of thread/start and thread/resume.
type threadRequest struct {
	ThreadID       string          `json:"threadId,omitempty"`
	ExcludeTurns   bool            `json:"excludeTurns,omitempty"`
	Cwd            string          `json:"cwd,omitempty"`
	ApprovalPolicy json.RawMessage `json:"approvalPolicy,omitempty"`
	Sandbox        json.RawMessage `json:"sandbox,omitempty"`
	Config         map[string]any  `json:"config,omitempty"`
	DynamicTools   []toolSpec      `json:"dynamicTools,omitempty"`
}

type toolSpec struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

func newThreadRequest(p agent.ThreadParams) threadRequest {
	return threadRequest{Cwd: p.Cwd, ApprovalPolicy: p.ApprovalPolicy, Sandbox: p.Sandbox, Config: p.Config}
}

// StartThread implements agent.Session.
func (s *Session) StartThread(ctx context.Context, p agent.ThreadParams) (string, error) {
	req := newThreadRequest(p)
	for _, t := range s.o.Tools {
		schema := t.InputSchema
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		req.DynamicTools = append(req.DynamicTools, toolSpec{Type: "function", Name: t.Name, Description: t.Description, InputSchema: schema})
	}
	id, err := s.openThread(ctx, "thread/start", req)
	if err == nil && p.Name != "" {
		err = s.nameThread(id, p.Name)
	}
	return id, err
}

// nameThread names the thread in codex's own lists. The answer is not waited for: a release that refuses works as well.
func (s *Session) nameThread(thread, name string) error {
	id := s.conn.otherID()
	if _, err := s.conn.register(id, nil); err != nil {
		return err
	}
	return s.conn.send(object{"id": id, "method": "thread/name/set", "params": object{"threadId": thread, "name": name}})
}

// ResumeThread implements agent.Session. The thread's tools are stored with it.
func (s *Session) ResumeThread(ctx context.Context, thread string, p agent.ThreadParams) error {
	req := newThreadRequest(p)
	req.ThreadID, req.ExcludeTurns = thread, true
	got, err := s.openThread(ctx, "thread/resume", req)
	if err == nil && got != thread {
		return incompatible("thread/resume", "answered with another thread: "+got)
	}
	return err
}

func (s *Session) openThread(ctx context.Context, method string, req threadRequest) (id string, err error) {
	defer func() { s.emitStartupFailed(err) }()
	s.mu.Lock()
	requestID := idThread
	if s.opened {
		s.mu.Unlock()
		requestID = s.conn.otherID()
		s.mu.Lock()
	}
	s.opened = true
	s.mu.Unlock()
	m, err := s.conn.request(ctx, requestID, method, req, s.o.ReadTimeout, func(m *message) {
		// In the reader: the following lines are judged by this id.
		if p := readParams(m.Result); m.Error == nil && p.Thread.ID != "" {
			s.mu.Lock()
			s.thread = p.Thread.ID
			s.mu.Unlock()
			s.openedOn(p.Model)
		}
	})
	if err != nil {
		return "", err
	}
	if m.Error != nil {
		return "", responseError(method, *m.Error, true)
	}
	if id = readParams(m.Result).Thread.ID; id == "" {
		return "", incompatible(method, "the answer has no thread id: "+oneLine(string(m.Result), 120))
	}
	return id, nil
}

// emitStartupFailed emits the event of a handshake that failed. Without a stored thread the caller starts a new one, and
// nothing has failed.
func (s *Session) emitStartupFailed(err error) {
	if err != nil && !errors.Is(err, agent.ErrNoThread) {
		s.emit(agent.Event{Name: agent.EventStartupFailed, Message: oneLine(err.Error(), messageLength)})
	}
}
