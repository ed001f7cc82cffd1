package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/runner/agent"
)

// turn is a turn that RunTurn waits for. Session.mu guards its fields.
type turn struct {
	clock  *clock
	ctx    context.Context // of what runs during the turn: tool calls and questions
	cancel context.CancelFunc

	answered chan struct{} // turn/start was answered
	ended    chan struct{} // end is set
	refused  chan struct{} // cause is set

	id       string
	known    bool      // answered is closed: id is the turn's, where codex named one
	started  []string  // turns that began on our thread before the answer
	early    []turnEnd // turns that ended before the answer
	steered  bool      // the answer named a turn that codex had started by itself
	ending   bool      // the event of the end is out
	end      turnEnd
	cause    *agent.Error    // why the turn fails, whatever codex says of its end
	commands map[string]bool // command items that have begun and not ended
	lastText string          // the agent's last whole message
}

// turnEnd is the end of a turn.
type turnEnd struct {
	thread, turn string // "" where the message named none
	status       string
	err          *turnError
	lastText     string
}

// Statuses of a turn that has ended.
const (
	statusCompleted   = "completed"
	statusFailed      = "failed"
	statusInterrupted = "interrupted"
)

// readEnd reads the end of a turn. Specification 10.3 also names methods for failure and cancellation.
func readEnd(method string, p *params) turnEnd {
	end := turnEnd{thread: p.threadID(), turn: p.turnID(), status: p.Turn.Status, err: p.Turn.Error}
	if end.err == nil {
		end.err = p.Error
	}
	if end.err == nil && p.reason() != "" {
		end.err = &turnError{Message: p.reason()}
	}
	switch method {
	case "turn/failed":
		end.status = statusFailed
	case "turn/cancelled":
		end.status = statusInterrupted
	}
	if end.status == "" {
		end.status = statusCompleted
		if end.err != nil {
			end.status = statusFailed
		}
	}
	for _, item := range p.Turn.Items {
		if item.Type == "agentMessage" && item.Text != "" {
			end.lastText = item.Text
		}
	}
	return end
}

// maxStarts bounds how often turn/start is sent again because it steered a turn that codex had started by itself.
const maxStarts = 3

var errSteered = errors.New("turn/start joined a turn that codex started by itself")

// RunTurn implements agent.Session.
func (s *Session) RunTurn(ctx context.Context, p agent.TurnParams) (agent.Turn, error) {
	for attempt := 1; ; attempt++ {
		t, err := s.startTurn(ctx, p)
		if errors.Is(err, errSteered) && attempt < maxStarts {
			continue
		}
		if err != nil {
			s.emit(agent.Event{Name: agent.EventTurnEndedWithError, ThreadID: s.ThreadID(), Message: oneLine(err.Error(), messageLength)})
			s.conn.events.flush()
			return agent.Turn{}, err
		}
		return s.awaitTurn(ctx, t)
	}
}

type turnRequest struct {
	ThreadID       string          `json:"threadId"`
	Input          []inputItem     `json:"input"`
	Cwd            string          `json:"cwd,omitempty"`
	ApprovalPolicy json.RawMessage `json:"approvalPolicy,omitempty"`
	SandboxPolicy  json.RawMessage `json:"sandboxPolicy,omitempty"`
}

type inputItem struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// startTurn sends turn/start and waits for its answer.
func (s *Session) startTurn(ctx context.Context, p agent.TurnParams) (*turn, error) {
	if err := s.awaitForeign(ctx); err != nil {
		return nil, err
	}
	t := &turn{
		answered: make(chan struct{}), ended: make(chan struct{}), refused: make(chan struct{}), commands: make(map[string]bool),
	}
	t.ctx, t.cancel = context.WithCancel(s.life)
	t.clock = newClock(&s.o, func() bool { return s.isBusy(t) })
	s.mu.Lock()
	if s.thread == "" || s.turn != nil {
		defer s.mu.Unlock()
		t.cancel()
		if s.thread == "" {
			return nil, errors.New("turn/start: no thread was started")
		}
		return nil, errors.New("turn/start: a turn is still under way")
	}
	s.turn, s.lastTurn = t, p
	req := turnRequest{
		ThreadID: s.thread, Input: []inputItem{{Type: "text", Text: p.Input}}, Cwd: p.Cwd,
		ApprovalPolicy: p.ApprovalPolicy, SandboxPolicy: p.SandboxPolicy,
	}
	s.mu.Unlock()
	for _, asking := range s.requests.asking() { // of a sub-agent, since the last turn
		t.clock.stop(asking)
	}
	m, err := s.conn.request(ctx, idTurn, "turn/start", req, s.o.ReadTimeout, func(m *message) { s.turnAnswered(t, m) })
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

func (s *Session) isBusy(t *turn) bool {
	s.mu.Lock()
	open := len(t.commands)
	s.mu.Unlock()
	return open > 0 || s.requests.any() || s.o.Busy != nil && s.o.Busy()
}

// turnAnswered takes the answer to turn/start, in the reader: from here on the turn's id is known, and the lines before
// are judged by it.
func (s *Session) turnAnswered(t *turn, m *message) {
	defer close(t.answered)
	s.mu.Lock()
	t.known = true
	t.id = readParams(m.Result).turnID()
	t.steered = m.Error == nil && t.id != "" && s.foreign[t.id] != nil
	if m.Error != nil || t.steered {
		s.dropTurn(t)
		s.mu.Unlock()
		return
	}
	for _, id := range t.started {
		if id != t.id {
			s.addForeign(id)
		}
	}
	for _, end := range t.early {
		if s.isEndOf(t, end) {
			s.finishTurn(t, end)
		}
	}
	thread := s.thread
	s.mu.Unlock()
	// The session id of specification 4.2: both ids with a hyphen.
	s.emit(agent.Event{Name: agent.EventSessionStarted, ThreadID: thread, TurnID: t.id, Message: "session " + thread + "-" + t.id})
}

// isEndOf reports whether the end is that of t: same thread and same turn, where the message names them. mu is held.
func (s *conversation) isEndOf(t *turn, end turnEnd) bool {
	return (end.thread == "" || end.thread == s.thread) && (end.turn == "" || t.id == "" || end.turn == t.id)
}

// dropTurn forgets a turn that is not under way any more. mu is held.
func (s *conversation) dropTurn(t *turn) {
	if s.turn == t {
		s.turn = nil
	}
	t.cancel()
}

// finishTurn ends the turn. mu is held.
func (s *conversation) finishTurn(t *turn, end turnEnd) {
	if s.turn != t {
		return
	}
	t.end = end
	if end.lastText != "" {
		t.lastText = end.lastText
	}
	if t.id != "" {
		s.finished[t.id] = true
	}
	s.dropTurn(t)
	close(t.ended)
}

// failTurn makes the turn under way end with e, whatever codex says of its end. The first reason stays.
func (s *conversation) failTurn(e *agent.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.turn; t != nil && t.cause == nil {
		t.cause = e
		close(t.refused)
	}
}

// awaitTurn waits for the end of a turn.
func (s *Session) awaitTurn(ctx context.Context, t *turn) (agent.Turn, error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next, late := t.clock.check()
		if late != nil {
			return s.abandonTurn(t, late)
		}
		timer.Reset(next)
		select {
		case <-t.ended:
			return s.turnResult(t)
		case <-t.refused:
			return s.endRefused(ctx, t)
		case <-s.conn.broken:
			return s.awaitLastLines(t)
		case <-s.conn.ended:
			return s.awaitLastLines(t)
		case <-ctx.Done():
			return s.abandonTurn(t, fmt.Errorf("turn: %w", ctx.Err()))
		case <-t.clock.wake:
		case <-timer.C:
		}
	}
}

// awaitLastLines ends a turn whose agent has ended or can't be written to. The reader may still have lines, the end of the
// turn among them.
func (s *Session) awaitLastLines(t *turn) (agent.Turn, error) {
	late := time.NewTimer(s.o.ReadTimeout)
	defer late.Stop()
	select {
	case <-t.ended:
	case <-s.conn.ended:
	case <-late.C:
	}
	return s.abandonTurn(t, s.conn.failure())
}

// endRefused ends a turn that asked for what it can't have. codex has its answer; the turn is interrupted all the same,
// because the model would go on.
func (s *Session) endRefused(ctx context.Context, t *turn) (agent.Turn, error) {
	err := s.Interrupt(ctx)
	s.mu.Lock()
	out := agent.Turn{ID: t.id, Status: t.end.status, LastMessage: t.lastText}
	s.mu.Unlock()
	if err != nil { // the turn may still run: the caller ends the agent after any error
		s.emit(agent.Event{Name: agent.EventTurnEndedWithError, ThreadID: s.ThreadID(), TurnID: out.ID, Message: oneLine(err.Error(), messageLength)})
	}
	s.conn.events.flush()
	return out, t.cause
}

// abandonTurn leaves a turn that did not end. It stays under way, so that Interrupt finds it. A turn that ended at this
// very moment has ended.
func (s *Session) abandonTurn(t *turn, err error) (agent.Turn, error) {
	select {
	case <-t.ended:
		return s.turnResult(t)
	default:
	}
	s.mu.Lock()
	out := agent.Turn{ID: t.id, LastMessage: t.lastText}
	thread := s.thread
	s.mu.Unlock()
	t.cancel()
	s.emit(agent.Event{Name: agent.EventTurnEndedWithError, ThreadID: thread, TurnID: out.ID, Message: oneLine(err.Error(), messageLength)})
	s.conn.events.flush()
	return out, err
}

// turnResult is what RunTurn returns for a turn that ended.
func (s *Session) turnResult(t *turn) (agent.Turn, error) {
	s.conn.events.flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := agent.Turn{ID: t.id, Status: t.end.status, LastMessage: t.lastText}
	if t.cause != nil {
		return out, t.cause
	}
	cause := t.end.err
	if cause == nil {
		cause = t.clock.lastError()
	}
	e := &agent.Error{Code: agent.CodeTurnFailed, Message: "the turn ended as " + oneLine(t.end.status, 40)}
	switch t.end.status {
	case statusCompleted:
		return out, nil
	case statusInterrupted:
		e.Code, e.Message = agent.CodeTurnCancelled, "the turn was interrupted"
		if cause != nil {
			e.Message = oneLine(join(e.Message, cause.Message), errorLength)
		}
		return out, e
	}
	if cause == nil {
		return out, e
	}
	e.Info = cause.Info
	if text := strings.TrimSpace(cause.Message); text != "" {
		e.Message = oneLine(text, errorLength)
	}
	if class := cause.class(); class != "" {
		e.Code = class
	}
	if e.Code == agent.CodeAgentQuota {
		e.ResetsAt = s.resetsAt()
	}
	return out, e
}

// Interrupt implements agent.Session. A shell command that runs goes on until codex exits.
func (s *Session) Interrupt(ctx context.Context) error {
	t := s.currentTurn()
	if t == nil {
		return nil
	}
	late := time.NewTimer(s.o.ReadTimeout)
	defer late.Stop()
	select {
	case <-t.answered:
	case <-t.ended:
		return nil
	case <-s.conn.ended:
	case <-late.C:
	case <-ctx.Done():
		return fmt.Errorf("turn/interrupt: %w", ctx.Err())
	}
	s.mu.Lock()
	id := t.id
	if id == "" && len(t.started) > 0 { // turn/start was not answered
		id = t.started[len(t.started)-1]
	}
	s.mu.Unlock()
	asking, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // the end of the turn is as good as an answer
		select {
		case <-t.ended:
			stop()
		case <-asking.Done():
		}
	}()
	gone, err := s.interrupt(asking, id)
	if gone {
		s.mu.Lock()
		s.finishTurn(t, turnEnd{status: statusInterrupted})
		s.mu.Unlock()
	}
	if err == nil {
		late.Reset(s.o.ReadTimeout)
		err = s.awaitEnd(ctx, t, late.C)
	}
	select {
	case <-t.ended:
		s.conn.events.flush()
		return nil
	default:
		return err
	}
}

func (s *Session) awaitEnd(ctx context.Context, t *turn, late <-chan time.Time) error {
	select {
	case <-t.ended:
		return nil
	case <-s.conn.ended:
		return s.conn.failure()
	case <-ctx.Done():
		return fmt.Errorf("turn/interrupt: %w", ctx.Err())
	case <-late:
		return &agent.Error{Code: agent.CodeResponseTimeout, Message: fmt.Sprintf("the turn did not end within %v of turn/interrupt", s.o.ReadTimeout)}
	}
}

// interrupt sends turn/interrupt; gone: no such turn was active.
func (s *Session) interrupt(ctx context.Context, turn string) (gone bool, err error) {
	const method = "turn/interrupt"
	m, err := s.conn.request(ctx, s.conn.otherID(), method, object{"threadId": s.ThreadID(), "turnId": turn}, s.o.ReadTimeout, nil)
	switch {
	case err != nil:
		return false, err
	case m.Error == nil:
		return false, nil
	case strings.Contains(m.Error.Message, "no active turn"):
		return true, nil
	}
	return false, responseError(method, *m.Error, false)
}

// foreign is a turn of our thread that codex started by itself.
type foreign struct {
	ended chan struct{}
	over  bool
}

// addForeign notes a foreign turn and interrupts it. mu is held.
func (s *Session) addForeign(id string) {
	if id == "" || s.foreign[id] != nil || s.finished[id] {
		return
	}
	s.foreign[id] = &foreign{ended: make(chan struct{})}
	go func() { // the reader must read the answer
		gone, err := s.interrupt(s.life, id)
		switch {
		case gone:
			s.mu.Lock()
			s.endForeign(id)
			s.mu.Unlock()
		case err != nil && !errors.Is(err, context.Canceled):
			s.emit(agent.Event{Name: agent.EventOtherMessage, TurnID: id, Message: oneLine("interrupt of a turn that codex started by itself: "+err.Error(), messageLength)})
		}
	}()
}

// endForeign notes the end of a foreign turn; false if id is none. mu is held.
func (s *conversation) endForeign(id string) bool {
	f := s.foreign[id]
	if f != nil && !f.over {
		f.over = true
		close(f.ended)
	}
	return f != nil
}

// awaitForeign waits until all foreign turns have ended.
func (s *Session) awaitForeign(ctx context.Context) error {
	s.mu.Lock()
	var open []*foreign
	for _, f := range s.foreign {
		if !f.over {
			open = append(open, f)
		}
	}
	s.mu.Unlock()
	late := time.NewTimer(s.o.ReadTimeout)
	defer late.Stop()
	for _, f := range open {
		select {
		case <-f.ended:
		case <-s.conn.ended:
			return s.conn.failure()
		case <-ctx.Done():
			return fmt.Errorf("turn/start: %w", ctx.Err())
		case <-late.C:
			return &agent.Error{Code: agent.CodeResponseTimeout, Message: "a turn that codex started by itself did not end"}
		}
	}
	return nil
}
