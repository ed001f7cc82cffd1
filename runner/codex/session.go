package codex

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"
)

// Transport is the app-server's two ends. The session owns both: nobody else
// may write to Stdin, and closing it is what makes codex exit (PROTOCOL: stdin
// EOF ends the process within a tenth of a second).
type Transport struct {
	Stdin  io.WriteCloser
	Stdout io.Reader
}

// Options say how a session behaves. The zero value of a duration turns its
// clock off, except that requests without ReadTimeout get DefaultReadTimeout:
// a request must never wait for ever.
type Options struct {
	// ClientVersion is sent as clientInfo.version; the name is "symphony".
	ClientVersion string
	// ReadTimeout bounds one request and its response, and one blocked write
	// (codex.read_timeout_ms).
	ReadTimeout time.Duration
	// InitializeTimeout bounds initialize instead of ReadTimeout; a fresh codex
	// home needs longer for its first answer.
	InitializeTimeout time.Duration
	// TurnTimeout bounds the silence of the stream during a turn
	// (codex.turn_timeout_ms); zero or less: off.
	TurnTimeout time.Duration
	// StallTimeout bounds the time without progress during a turn
	// (codex.stall_timeout_ms); zero or less: off.
	StallTimeout time.Duration
	// Busy is asked when StallTimeout has passed without progress: does a
	// process live that the agent started during this turn? Then, as while a
	// command item is open, the stall clock is lengthened to TurnTimeout.
	// It is called from the goroutine of RunTurn and may read /proc.
	Busy func() bool
	// OnApproval is the answer to requests for approval, OnQuestion that to
	// questions and forms.
	OnApproval Approval
	OnQuestion QuestionPolicy
	// Ask is needed by ApprovalAsk and QuestionAsk; nil: nobody can be asked, and
	// all of it is declined. It runs in a goroutine of its own for each request,
	// and both clocks stand still while one is open. What it returns after its
	// ctx has ended is not sent.
	Ask AskPerson
	// Tools are offered to the model as dynamic tools (10.5); not empty, they
	// need codex's experimental API, which is then asked for.
	Tools []Tool
	// CallTool runs one tool call. Calls run beside each other and beside the
	// reading; ctx ends with the turn, with the request (codex withdrew it) and
	// with the session. Nil: every call is answered as unsupported.
	CallTool func(ctx context.Context, name string, args json.RawMessage) ToolResult
	// OnEvent gets every event, in order, from one goroutine of the session's.
	// It may block: reading goes on until the queue of events is full.
	OnEvent func(Event)
}

// DefaultReadTimeout is used where Options.ReadTimeout is not set.
const DefaultReadTimeout = 5 * time.Second

// Session is one conversation with one app-server process. Its methods may be
// called from several goroutines; only one turn may be under way.
type Session struct {
	o      Options
	in     io.Reader
	out    *writer
	events chan any // Event or func(), in the order of the stream

	closing   chan struct{} // Close was called
	broken    chan struct{} // the agent can't be written to; err says why
	ended     chan struct{} // the reader is through; err says why
	done      chan struct{} // and what had been emitted by then is delivered
	silent    chan struct{} // no further event will be delivered
	toolCtx   context.Context
	stopTools context.CancelFunc

	mu       sync.Mutex
	err      *Error // why the session can't be used any more
	calls    calls
	starting int // thread/start and thread/resume sent so far
	thread   string
	turn     *turn
	early    []*message           // ends of turns that came before their turn was known
	foreign  map[string]*foreign  // turns of our thread that codex started by itself
	finished map[string]bool      // turns that ended; late repetitions are ignored
	requests map[string]*served   // server requests being answered, by raw id
	patches  patches              // file changes under way
	cwd      string               // of the last turn
	asksAll  bool                 // the last turn's approval policy asks about everything
	models   []string             // of the thread, in the order of their use
	usage    map[string]Usage     // highest totals, by thread
	resumed  map[string]Usage     // what threads had used when they were resumed
	limits   map[string]rateLimit // by limit id
	limitID  string               // the latest one updated
	version  string               // of the agent, "" where it does not say
	spelled  map[string]string    // words that this agent writes otherwise
}

// New takes over the transport and starts reading. The caller must Close the
// session, and must see to it that stdout ends (by ending the process): only
// then do the session's goroutines end.
func New(t Transport, o Options) *Session {
	if o.ReadTimeout <= 0 {
		o.ReadTimeout = DefaultReadTimeout
	}
	if o.InitializeTimeout <= 0 {
		o.InitializeTimeout = o.ReadTimeout
	}
	s := &Session{
		o:        o,
		in:       t.Stdout,
		events:   make(chan any, eventQueue),
		closing:  make(chan struct{}),
		broken:   make(chan struct{}),
		ended:    make(chan struct{}),
		done:     make(chan struct{}),
		silent:   make(chan struct{}),
		calls:    newCalls(),
		foreign:  make(map[string]*foreign),
		finished: make(map[string]bool),
		requests: make(map[string]*served),
		usage:    make(map[string]Usage),
		limits:   make(map[string]rateLimit),
	}
	s.toolCtx, s.stopTools = context.WithCancel(context.Background())
	s.out = newWriter(t.Stdin, o.ReadTimeout, s.writeFailed)
	go s.deliver()
	go s.read()
	return s
}

// Close closes the agent's stdin, which makes codex exit, and ends what waits
// on the session. It does not wait for the agent: Done does. It may be called
// more than once.
func (s *Session) Close() error {
	s.mu.Lock()
	select {
	case <-s.closing:
	default:
		close(s.closing)
	}
	s.mu.Unlock()
	s.stopTools()
	return s.out.close()
}

// Done is closed when the agent's stdout has ended and every event of it has
// been delivered. Events of the session's own may follow until Close.
func (s *Session) Done() <-chan struct{} { return s.done }

// ThreadID is the thread started or resumed, "" before that.
func (s *Session) ThreadID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.thread
}

// writeFailed is told by the writer, once, that the agent can't be written to.
// The reader goes on: a broken pipe mostly means that the agent ended, and the
// reader then has its last words.
func (s *Session) writeFailed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(s.broken)
	if s.err != nil {
		return
	}
	if errors.Is(err, errWriteBlocked) {
		s.err = &Error{Code: CodeResponseTimeout, Message: err.Error()}
	} else {
		s.err = &Error{Code: CodePortExit, Message: "agent's stdin: " + err.Error()}
	}
	s.calls.failAll(s.err)
}

// end marks the session as over after the reader came to its end.
func (s *Session) end(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = portExit(err)
	}
	s.calls.failAll(s.err)
	t := s.turn
	s.mu.Unlock()
	if t != nil {
		s.endByOld(t) // nothing better comes any more
	}
	s.stopTools()
	close(s.ended)
}
