package codex

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Server is what initialize told of the agent.
type Server struct {
	UserAgent string
	CodexHome string
	// Version is read from UserAgent ("symphony/0.169.0 (…)"), "" where that
	// has another form.
	Version string
}

// ThreadParams are what thread/start and thread/resume carry (10.2).
type ThreadParams struct {
	Cwd string
	// ApprovalPolicy is a string or an object, passed through; nil: left out.
	ApprovalPolicy json.RawMessage
	// Sandbox is the word of thread/start, not turn/start's object; nil: left
	// out, which is what keeps codex from trusting the repository.
	Sandbox json.RawMessage
	// Config overrides codex's configuration, by dotted or nested keys.
	Config map[string]any
	// Used is what a thread to be resumed had used when it was last seen: older versions count from zero then.
	Used Usage
}

type threadRequest struct {
	ThreadID       string          `json:"threadId,omitempty"`
	ExcludeTurns   bool            `json:"excludeTurns,omitempty"`
	Cwd            string          `json:"cwd,omitempty"`
	ApprovalPolicy json.RawMessage `json:"approvalPolicy,omitempty"`
	Sandbox        json.RawMessage `json:"sandbox,omitempty"`
	Config         map[string]any  `json:"config,omitempty"`
	DynamicTools   []toolSpec      `json:"dynamicTools,omitempty"`
}

func (p ThreadParams) request() threadRequest {
	return threadRequest{Cwd: p.Cwd, ApprovalPolicy: p.ApprovalPolicy, Sandbox: p.Sandbox, Config: p.Config}
}

type initializeRequest struct {
	ClientInfo struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"clientInfo"`
	Capabilities struct {
		ExperimentalAPI bool `json:"experimentalApi,omitempty"`
	} `json:"capabilities"`
}

// Initialize opens the session: initialize (id 1), its answer, initialized
// (10.2). It must come first and once.
//
// Errors: response_timeout after InitializeTimeout, port_exit,
// codex_incompatible for an answer that can't be used.
func (s *Session) Initialize(ctx context.Context) (server Server, err error) {
	const method = "initialize"
	defer func() { s.startupFailed(method, err) }()
	var req initializeRequest
	req.ClientInfo.Name = "symphony"
	req.ClientInfo.Version = s.o.ClientVersion
	if req.ClientInfo.Version == "" {
		req.ClientInfo.Version = "0" // codex wants one
	}
	req.Capabilities.ExperimentalAPI = len(s.o.Tools) > 0
	m, err := s.call(ctx, idInitialize, method, req, s.o.InitializeTimeout, nil)
	if err != nil {
		return Server{}, err
	}
	if m.Error != nil {
		e := responseError(method, *m.Error, true)
		e.Code = CodeIncompatible // whatever it says: nothing else can be tried
		return Server{}, e
	}
	var answer struct {
		UserAgent string `json:"userAgent"`
		CodexHome string `json:"codexHome"`
	}
	if err := resultOf(method, m, &answer); err != nil {
		return Server{}, incompatible(method, err.Error())
	}
	server = Server{UserAgent: answer.UserAgent, CodexHome: answer.CodexHome, Version: version(answer.UserAgent)}
	if olderThan(server.Version, oldestMinor) {
		return Server{}, incompatible(method, fmt.Sprintf("codex %s is older than %s, the oldest release that symphony works with", server.Version, OldestVersion))
	}
	s.mu.Lock()
	s.version = server.Version
	s.mu.Unlock()
	return server, s.post(initialized{Method: "initialized"})
}

// OldestVersion is the oldest codex release that passes the tests with the real codex.
const (
	OldestVersion = "0.150.0"
	oldestMinor   = 150
)

type initialized struct {
	Method string   `json:"method"`
	Params struct{} `json:"params"`
}

// version reads the codex version from a user agent.
func version(userAgent string) string {
	_, rest, ok := strings.Cut(userAgent, "/")
	if !ok {
		return ""
	}
	word, _, _ := strings.Cut(rest, " ")
	return word
}

// StartThread starts a thread and makes it the session's. The id of the
// request is 2, or 4 and up after a resume that failed.
//
// Errors: response_timeout, port_exit, codex_incompatible, response_error, and
// the classes of faults where codex named one.
func (s *Session) StartThread(ctx context.Context, p ThreadParams) (threadID string, err error) {
	req := p.request()
	req.DynamicTools = toolSpecs(s.o.Tools)
	return s.openThread(ctx, "thread/start", req)
}

// ResumeThread loads a stored thread and makes it the session's; its tools are
// stored with it. Errors are those of StartThread; errors.Is tells
// ErrNoRollout and ErrActiveWriter.
func (s *Session) ResumeThread(ctx context.Context, threadID string, p ThreadParams) error {
	req := p.request()
	req.ThreadID, req.ExcludeTurns = threadID, true
	s.mu.Lock()
	s.resumed = map[string]Usage{threadID: p.Used}
	s.mu.Unlock()
	got, err := s.openThread(ctx, "thread/resume", req)
	if err == nil && got != threadID {
		return incompatible("thread/resume", "answered with another thread: "+oneLine(got, 80))
	}
	return err
}

func (s *Session) openThread(ctx context.Context, method string, req threadRequest) (threadID string, err error) {
	defer func() { s.startupFailed(method, err) }()
	m, err := s.askThread(ctx, method, req)
	// Policy and sandbox are words, and only the first unknown one is told.
	for err == nil && s.learnSpelling(m.Error) {
		m, err = s.askThread(ctx, method, req)
	}
	if err != nil {
		return "", err
	}
	if m.Error != nil {
		return "", responseError(method, *m.Error, true)
	}
	if threadID = cmp.Or(threadOf(m.Result), req.ThreadID); threadID == "" {
		return "", incompatible(method, "the answer has no thread id: "+oneLine(string(m.Result), 120))
	}
	return threadID, nil
}

// askThread sends a request for a thread. The id of the session's first is 2.
func (s *Session) askThread(ctx context.Context, method string, req threadRequest) (*message, error) {
	req.ApprovalPolicy, req.Sandbox = s.spell(req.ApprovalPolicy), s.spell(req.Sandbox)
	s.mu.Lock()
	id := idThread
	if s.starting > 0 {
		id = s.calls.id()
	}
	s.starting++
	s.mu.Unlock()
	return s.call(ctx, id, method, req, s.o.ReadTimeout, func(m *message) {
		// In the reader: what follows on the stream is judged by this id.
		if t := cmp.Or(threadOf(m.Result), req.ThreadID); m.Error == nil && t != "" {
			s.mu.Lock()
			s.thread = t
			s.openedOn(m.Result)
			s.mu.Unlock()
		}
	})
}

// threadOf finds the thread id in an answer, also in shapes of other versions.
func threadOf(result json.RawMessage) string {
	var p params
	p.read(result)
	return p.threadID()
}

// startupFailed emits the event for a handshake that did not succeed.
func (s *Session) startupFailed(method string, err error) {
	if err == nil || errors.Is(err, ErrNoRollout) {
		// Without a rollout the caller starts a new thread: nothing failed.
		return
	}
	s.emit(Event{Name: EventStartupFailed, Method: method, Message: oneLine(err.Error(), messageLength)})
}
