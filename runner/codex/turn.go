package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// TurnParams are what turn/start carries (10.2).
type TurnParams struct {
	Input string // the prompt, or the continuation guidance
	Cwd   string
	Title string // "<issue.identifier>: <issue.title>"
	// ApprovalPolicy as in ThreadParams; nil: left out.
	ApprovalPolicy json.RawMessage
	// SandboxPolicy is the object with a camelCase type, needed with every
	// turn: codex forgets it over a resume. nil: left out.
	SandboxPolicy json.RawMessage
}

// Turn is how a turn ended.
type Turn struct {
	ID          string
	Status      string // codex's word: completed, failed, interrupted
	LastMessage string // the agent's last message, "" if none
}

type turnRequest struct {
	ThreadID       string          `json:"threadId"`
	Input          []inputItem     `json:"input"`
	Cwd            string          `json:"cwd,omitempty"`
	Title          string          `json:"title,omitempty"`
	ApprovalPolicy json.RawMessage `json:"approvalPolicy,omitempty"`
	SandboxPolicy  json.RawMessage `json:"sandboxPolicy,omitempty"`
}

type inputItem struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// turn is the turn under way. Its fields are guarded by the session's mu,
// except the channels.
type turn struct {
	id       string
	answered chan struct{} // turn/start is answered: id is known, or it failed
	isKnown  bool          // answered is closed
	started  []string      // turn/started of our thread before the answer
	steered  bool          // the answer named a turn that codex had started itself

	ended   chan struct{}
	end     turnEnd
	refused chan struct{} // cause is set
	cause   *Error        // a request of codex's that fails the turn

	open         map[string]openCommand // command items begun and not ended
	lastMessage  time.Time              // any line
	lastProgress time.Time
	lastBusy     time.Time // last time that work without progress was seen
	lastText     string    // the agent's last whole message
	lastError    *turnError
	lastFinal    bool            // lastError was no notice of a retry
	asking       int             // requests that wait for a person
	stillSince   time.Time       // asking > 0: both clocks stand still since
	wake         chan struct{}   // they go on
	old          *oldEnd         // an end in the shape of another version
	ending       bool            // the event of the turn's end is out
	tools        context.Context // ends with the turn
	stopTools    context.CancelFunc
}

type openCommand struct{ command, cwd string }

type turnEnd struct {
	status string
	err    *turnError
}

func (s *Session) newTurn() *turn {
	now := time.Now()
	t := &turn{
		answered:     make(chan struct{}),
		ended:        make(chan struct{}),
		refused:      make(chan struct{}),
		wake:         make(chan struct{}, 1),
		open:         make(map[string]openCommand),
		lastMessage:  now,
		lastProgress: now,
	}
	t.tools, t.stopTools = context.WithCancel(s.toolCtx)
	return t
}

// startAttempts bounds how often a turn/start is sent again because it hit a
// turn that codex had started by itself.
const startAttempts = 3

var errSteered = errors.New("turn/start joined a turn that codex started by itself")

// RunTurn runs one turn on the session's thread and waits for its end (10.3).
//
// It returns an error unless the turn's status is completed; the Turn holds
// what is known in either case. Errors: turn_failed, turn_cancelled,
// turn_input_required, approval_required, turn_timeout, stalled, port_exit,
// response_timeout and response_error for turn/start itself, and the faults
// agent_auth, agent_quota, network. A cancelled ctx gives its own error; the
// turn then goes on in codex until Interrupt or Close, as it does after
// turn_timeout and stalled.
func (s *Session) RunTurn(ctx context.Context, p TurnParams) (Turn, error) {
	for attempt := 1; ; attempt++ {
		t, err := s.startTurn(ctx, p)
		if errors.Is(err, errSteered) && attempt < startAttempts {
			continue
		}
		if err != nil {
			s.emit(Event{Name: EventTurnEndedWithError, Method: "turn/start", ThreadID: s.ThreadID(), Message: oneLine(err.Error(), messageLength)})
			s.flush()
			return Turn{}, err
		}
		return s.watch(ctx, t)
	}
}

// startTurn sends turn/start and waits for its answer. Turns that codex
// started by itself must have ended before: turn/start would join them.
func (s *Session) startTurn(ctx context.Context, p TurnParams) (*turn, error) {
	if err := s.settleForeign(ctx); err != nil {
		return nil, err
	}
	policy := s.spell(p.ApprovalPolicy)
	s.mu.Lock()
	if s.thread == "" || s.turn != nil {
		defer s.mu.Unlock()
		if s.thread == "" {
			return nil, errors.New("turn/start: no thread was started")
		}
		return nil, errors.New("turn/start: a turn is still under way")
	}
	t := s.newTurn()
	s.turn, s.cwd, s.asksAll = t, p.Cwd, string(p.ApprovalPolicy) == `"untrusted"`
	for _, r := range s.requests {
		if r.asks { // a sub-agent did, between the turns
			s.standStillIn(t, r.ctx)
		}
	}
	req := turnRequest{
		ThreadID: s.thread, Input: []inputItem{{Type: "text", Text: p.Input}}, Cwd: p.Cwd, Title: p.Title,
		ApprovalPolicy: policy, SandboxPolicy: p.SandboxPolicy,
	}
	s.mu.Unlock()
	m, err := s.call(ctx, idTurn, "turn/start", req, s.o.ReadTimeout, func(m *message) { s.turnAnswered(t, m) })
	switch {
	case err != nil:
		return nil, err
	case m.Error != nil:
		return nil, responseError("turn/start", *m.Error, false)
	case t.steered:
		return nil, errSteered
	}
	return t, nil
}

// turnAnswered runs in the reader, so that session_started comes before the
// turn's own events.
func (s *Session) turnAnswered(t *turn, m *message) {
	if thread, id, begun := s.judgeAnswer(t, m); begun {
		// The session id of 10.2: both ids with a hyphen.
		s.emit(Event{Name: EventSessionStarted, ThreadID: thread, TurnID: id, Message: "session " + thread + "-" + id})
	}
	close(t.answered)
}

// judgeAnswer takes the answer to turn/start: from here on the turn's id is
// known, and what came before is judged by it.
func (s *Session) judgeAnswer(t *turn, m *message) (thread, id string, begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.isKnown = true
	if m.Error != nil {
		s.dropTurn(t)
		return "", "", false
	}
	var p params
	p.read(m.Result)
	t.id = p.turnID()
	if s.foreign[t.id] != nil && t.id != "" {
		t.steered = true
		s.dropTurn(t)
		return "", "", false
	}
	for _, id := range t.started {
		if id != t.id {
			s.addForeign(id)
		}
	}
	early := s.early
	s.early = nil
	for _, m := range early {
		var p params
		p.read(m.Params)
		if s.turn == t && s.isEndOf(t, &p) {
			t.keepLast(&p)
			s.finish(t, endOf(m.Method, &p))
		}
	}
	return s.thread, t.id, true
}

// dropTurn ends a turn that never was. mu is held.
func (s *Session) dropTurn(t *turn) {
	if s.turn == t {
		s.turn = nil
	}
	t.stopTools()
}

// isEndOf says whether the end of a turn is that of t: same thread and same
// turn, where the message names them. mu is held.
func (s *Session) isEndOf(t *turn, p *params) bool {
	if thread := p.threadID(); thread != "" && thread != s.thread {
		return false
	}
	id := p.turnID()
	return id == "" || t.id == "" || id == t.id
}

// finish ends the turn under way. mu is held.
func (s *Session) finish(t *turn, end turnEnd) {
	t.end = end
	s.turn = nil
	t.old.stop()
	if t.id != "" {
		s.finished[t.id] = true
	}
	t.stopTools()
	close(t.ended)
}

// Statuses of a turn.
const (
	statusCompleted   = "completed"
	statusFailed      = "failed"
	statusInterrupted = "interrupted"
)

// endOf reads the end of a turn, also in the shapes of other versions: methods
// of their own for failure and cancellation, or no parameters at all.
func endOf(method string, p *params) turnEnd {
	end := turnEnd{status: p.Turn.Status, err: p.Turn.Error}
	if end.err == nil {
		end.err = p.Error
	}
	switch method {
	case "turn/failed":
		end.status = statusFailed
	case "turn/cancelled", "turn/canceled", "turn/interrupted":
		end.status = statusInterrupted
	}
	if end.status == "" {
		end.status = p.statusWord()
	}
	if end.status == "" {
		end.status = statusCompleted
		if end.err != nil {
			end.status = statusFailed
		}
	}
	if end.status == "cancelled" || end.status == "canceled" {
		end.status = statusInterrupted
	}
	if end.err == nil && p.Message != "" && end.status == statusFailed {
		end.err = &turnError{Message: p.Message}
	}
	return end
}

// result is what RunTurn returns for a turn that ended.
func (s *Session) result(t *turn) (Turn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Turn{ID: t.id, Status: t.end.status, LastMessage: t.lastText}
	switch {
	case t.cause != nil:
		return out, t.cause
	case t.end.status == statusCompleted:
		return out, nil
	case t.end.status == statusInterrupted:
		return out, &Error{Code: CodeTurnCancelled, Message: "the turn was interrupted"}
	}
	e := &Error{Code: CodeTurnFailed, Message: "the turn ended as " + oneLine(t.end.status, 40)}
	cause := t.end.err
	if cause == nil {
		cause = t.lastError
	}
	if cause == nil {
		return out, e
	}
	e.Info = cause.Info
	if text := strings.TrimSpace(cause.Message); text != "" {
		e.Message = oneLine(text, errorLength)
	}
	if class, ok := classify(cause.Info, cause.Message+" "+cause.AdditionalDetails); ok {
		e.Code = class
	}
	if e.Code == CodeAgentQuota {
		e.ResetsAt = s.resetsAt()
	}
	return out, e
}

// Interrupt ends the turn under way: turn/interrupt, and its turn/completed.
// Both are waited for, each at most ReadTimeout. Without a turn it does
// nothing. A shell command that runs is not ended by it: codex keeps that in
// the background until it exits.
func (s *Session) Interrupt(ctx context.Context) error {
	s.mu.Lock()
	t := s.turn
	s.mu.Unlock()
	if t == nil {
		return nil
	}
	late := time.NewTimer(s.o.ReadTimeout)
	defer late.Stop()
	select {
	case <-t.answered:
	case <-t.ended:
		return nil
	case <-s.ended:
	case <-late.C:
	case <-ctx.Done():
		return fmt.Errorf("turn/interrupt: %w", ctx.Err())
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // the end of the turn is as good as the answer
		select {
		case <-t.ended:
			stop()
		case <-asking.Done():
		}
	}()
	gone, err := s.interrupt(asking, s.idToInterrupt(t))
	select {
	case <-t.ended:
		s.flush()
		return nil
	default:
	}
	if err != nil {
		return err
	}
	if gone {
		s.mu.Lock()
		if s.turn == t {
			s.finish(t, turnEnd{status: statusInterrupted})
		}
		s.mu.Unlock()
		return nil
	}
	late.Reset(s.o.ReadTimeout)
	select {
	case <-t.ended:
		s.flush()
		return nil
	case <-s.ended:
		return s.failure()
	case <-ctx.Done():
		return fmt.Errorf("turn/interrupt: %w", ctx.Err())
	case <-late.C:
		return &Error{Code: CodeResponseTimeout, Message: fmt.Sprintf("the turn did not end within %v of turn/interrupt", s.o.ReadTimeout)}
	}
}

// idToInterrupt is the turn's id, or the one of its turn/started where
// turn/start was never answered.
func (s *Session) idToInterrupt(t *turn) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.id == "" && len(t.started) > 0 {
		return t.started[len(t.started)-1]
	}
	return t.id
}

// interrupt sends turn/interrupt; gone says that no such turn was active.
func (s *Session) interrupt(ctx context.Context, turnID string) (gone bool, err error) {
	s.mu.Lock()
	id, thread := s.calls.id(), s.thread
	s.mu.Unlock()
	req := struct {
		ThreadID string `json:"threadId"`
		TurnID   string `json:"turnId"`
	}{thread, turnID}
	m, err := s.call(ctx, id, "turn/interrupt", req, s.o.ReadTimeout, nil)
	if err != nil {
		return false, err
	}
	if m.Error == nil {
		return false, nil
	}
	if strings.Contains(m.Error.Message, "no active turn") {
		return true, nil
	}
	return false, responseError("turn/interrupt", *m.Error, false)
}

// failure is why the session ended.
func (s *Session) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		return nil
	}
	return s.err
}
