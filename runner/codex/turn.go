package codex

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
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
	end      turnEnd
	cause    *agent.Error    // why the turn fails, whatever codex says of its end
	commands map[string]bool // command items that have begun and not ended
	lastText string          // the agent's last whole message
}

func (t *turn) hasEnded() bool {
	select {
	case <-t.ended:
		return true
	default:
		return false
	}
}

// turnEnd is the end of a turn.
type turnEnd struct {
	status string
	err    *turnError
}

// Statuses of a turn that has ended.
const (
	statusCompleted   = "completed"
	statusFailed      = "failed"
	statusInterrupted = "interrupted"
)

// RunTurn implements agent.Session.
func (s *Session) RunTurn(ctx context.Context, p agent.TurnParams) (agent.Turn, error) {
	t, err := s.startTurn(ctx, p)
	if err == nil {
		err = s.awaitTurn(ctx, t)
	}
	ended := t.hasEnded()
	s.mu.Lock()
	out, cause := agent.Turn{ID: t.id, Status: t.end.status, LastMessage: t.lastText}, t.cause
	s.mu.Unlock()
	if !ended { // it stays under way, so that Interrupt finds it
		t.cancel()
		s.emit(agent.Event{Name: agent.EventTurnEndedWithError, ThreadID: s.ThreadID(), TurnID: out.ID, Message: err.Error()})
	}
	s.conn.events.flush()
	switch {
	case cause != nil:
		return out, cause
	case !ended:
		return out, err
	case out.Status != statusCompleted:
		return out, s.endError(t)
	}
	return out, nil
}

type turnRequest struct {
	ThreadID       string          `json:"threadId"`
	Input          []object        `json:"input"`
	Cwd            string          `json:"cwd,omitempty"`
	ApprovalPolicy json.RawMessage `json:"approvalPolicy,omitempty"`
	SandboxPolicy  json.RawMessage `json:"sandboxPolicy,omitempty"`
}

// startTurn sends turn/start and waits for its answer.
func (s *Session) startTurn(ctx context.Context, p agent.TurnParams) (*turn, error) {
	t := &turn{answered: make(chan struct{}), ended: make(chan struct{}), refused: make(chan struct{}), commands: make(map[string]bool)}
	t.ctx, t.cancel = context.WithCancel(s.life)
	t.clock = newClock(&s.o, func() bool { return s.isBusy(t) }, s.asksPerson)
	s.mu.Lock()
	thread, earlier := s.thread, s.turn
	if thread != "" && earlier == nil {
		s.turn, s.lastTurn, s.patches = t, p, make(map[string][]agent.FileChange)
	}
	s.mu.Unlock()
	switch {
	case thread == "":
		return t, errors.New("turn/start: no thread was started")
	case earlier != nil:
		return t, errors.New("turn/start: a turn is still under way")
	}
	const method = "turn/start"
	_, err := s.conn.request(ctx, &call{id: idTurn, method: method, answered: func(m *message) { s.turnAnswered(t, m) }, params: turnRequest{
		ThreadID: thread, Input: []object{{"type": "text", "text": p.Input}},
		Cwd: p.Cwd, ApprovalPolicy: p.ApprovalPolicy, SandboxPolicy: p.SandboxPolicy,
	}})
	return t, responseError(method, err, false)
}

func (s *Session) asksPerson() bool {
	_, asking := s.openRequests()
	return asking > 0
}

func (s *Session) isBusy(t *turn) bool {
	s.mu.Lock()
	running := len(t.commands)
	s.mu.Unlock()
	open, _ := s.openRequests()
	return running+open > 0 || s.o.Busy != nil && s.o.Busy()
}

// turnAnswered takes the answer to turn/start, in the reader: from here on the turn's id is known.
func (s *Session) turnAnswered(t *turn, m *message) {
	defer close(t.answered)
	s.mu.Lock()
	if m.Error != nil {
		s.turn = nil
		s.mu.Unlock()
		return
	}
	t.id = readParams(m.Result).turnID()
	thread, id := s.thread, t.id
	s.mu.Unlock()
	// The session id of specification 4.2: both ids with a hyphen.
	s.emit(agent.Event{Name: agent.EventSessionStarted, ThreadID: thread, TurnID: id, Message: "session " + thread + "-" + id})
}

// failTurn makes the turn under way end with an error, whatever codex says of its end. The first reason stays.
func (s *Session) failTurn(code agent.Code, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.turn; t != nil && t.cause == nil {
		t.cause = &agent.Error{Code: code, Message: oneLine(text, errorLength)}
		close(t.refused)
	}
}

// awaitTurn waits for the end of a turn; an error says why it goes on without being waited for.
func (s *Session) awaitTurn(ctx context.Context, t *turn) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next, late := t.clock.check()
		if late != nil {
			return late
		}
		timer.Reset(next)
		select {
		case <-t.ended:
			return nil
		case <-t.refused:
			// codex has its answer; the turn is interrupted all the same, because the model would go on.
			return s.Interrupt(ctx)
		case <-s.conn.broken:
			// The reader may still have lines, the end of the turn among them.
			select {
			case <-t.ended:
			case <-s.conn.ended:
			case <-time.After(s.o.ReadTimeout):
			}
			return s.conn.failure()
		case <-s.conn.ended:
			return s.conn.failure()
		case <-ctx.Done():
			return fmt.Errorf("turn: %w", ctx.Err())
		case <-timer.C:
		}
	}
}

// endError is the error of a turn that ended without success.
func (s *Session) endError(t *turn) error {
	cause := t.end.err
	if cause == nil {
		cause = t.clock.lastError()
	}
	if cause == nil {
		cause = &turnError{}
	}
	text := oneLine(cause.Message, errorLength)
	if t.end.status == statusInterrupted {
		return &agent.Error{Code: agent.CodeTurnCancelled, Message: oneLine(join("the turn was interrupted", text), errorLength)}
	}
	e := &agent.Error{Code: cmp.Or(cause.class(), agent.CodeTurnFailed), Message: text, Info: cause.Info}
	if text == "" {
		e.Message = "the turn ended as " + oneLine(t.end.status, 40)
	}
	if e.Code == agent.CodeAgentQuota {
		e.ResetsAt = s.resetsAt()
	}
	return e
}

// Interrupt implements agent.Session. A shell command that runs goes on until codex exits.
func (s *Session) Interrupt(ctx context.Context) error {
	const method = "turn/interrupt"
	t := s.currentTurn()
	if t == nil {
		return nil
	}
	_ = s.await(ctx, t, t.answered) // without an answer turn/started has the id
	s.mu.Lock()
	params := object{"threadId": s.thread, "turnId": t.id}
	s.mu.Unlock()
	_, err := s.conn.request(ctx, &call{method: method, params: params})
	if err = responseError(method, err, false); err == nil {
		err = s.await(ctx, t, t.ended)
	}
	if t.hasEnded() {
		s.conn.events.flush()
		return nil
	}
	return err
}

// await waits for something that an interrupt needs, or the end of the turn.
func (s *Session) await(ctx context.Context, t *turn, what <-chan struct{}) error {
	select {
	case <-what:
		return nil
	case <-t.ended:
		return nil
	case <-s.conn.ended:
		return s.conn.failure()
	case <-ctx.Done():
		return fmt.Errorf("turn/interrupt: %w", ctx.Err())
	case <-time.After(s.o.ReadTimeout):
		text := fmt.Sprintf("the turn did not end within %v of turn/interrupt", s.o.ReadTimeout)
		return &agent.Error{Code: agent.CodeResponseTimeout, Message: text}
	}
}

// clock finds a turn that is silent for too long, or makes no progress.
type clock struct {
	silence, stall time.Duration // zero or less: off
	busy           func() bool   // reports work that shows no progress on the stream; it may take a while
	asking         func() bool   // reports that a person is asked, which stops the clock

	mu           sync.Mutex
	lastLine     time.Time
	lastProgress time.Time
	lastBusy     time.Time
	retry        *turnError // the latest error since the last progress: why a turn stalls
}

func newClock(o *agent.Options, busy, asking func() bool) *clock {
	now := time.Now()
	return &clock{silence: o.TurnTimeout, stall: o.StallTimeout, busy: busy, asking: asking, lastLine: now, lastProgress: now}
}

// sawLine notes a line of the agent's, or a person's decision.
func (c *clock) sawLine(progress bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastLine = time.Now()
	if progress {
		c.lastProgress, c.retry = c.lastLine, nil // a retry that worked explains no later stall
	}
}

func (c *clock) sawError(e *turnError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retry = e
}

func (c *clock) lastError() *turnError {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.retry
}

// check returns the error of a limit that is reached, or when to check again.
//
// The item of a command may come only when the command has ended, so that open items alone do not show work: busy is asked
// too. Between the end of a process and the item that tells of it neither would show anything; so each check that sees
// work starts the stall limit anew, within the limit of silence after the last progress.
func (c *clock) check() (next time.Duration, err *agent.Error) {
	if c.asking() {
		c.sawLine(true)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	next = time.Hour
	if c.silence > 0 {
		silent := time.Since(c.lastLine)
		if silent >= c.silence {
			return 0, &agent.Error{Code: agent.CodeTurnTimeout, Message: fmt.Sprintf("nothing came from the agent for %v", round(silent))}
		}
		next = min(next, c.silence-silent)
	}
	if c.stall <= 0 {
		return next, nil
	}
	if c.idle() >= c.stall {
		c.mu.Unlock()
		busy := c.busy()
		c.mu.Lock()
		if busy {
			c.lastBusy = time.Now()
		}
	}
	left := c.stall - c.idle()
	since := time.Since(c.lastProgress)
	if c.lastBusy.After(c.lastProgress) && c.silence > 0 {
		left = min(left, max(c.silence, c.stall)-since)
	}
	if left > 0 {
		return min(next, left), nil
	}
	e := &agent.Error{Code: agent.CodeStalled, Message: fmt.Sprintf("stalled for %v", round(since))}
	if c.retry != nil {
		e.Info, e.Cause = c.retry.Info, c.retry.class()
		e.Message = oneLine(e.Message+": "+c.retry.Message, errorLength)
	}
	return 0, e
}

// idle is the time since the last progress or the last check that saw work. mu is held.
func (c *clock) idle() time.Duration {
	return min(time.Since(c.lastProgress), time.Since(c.lastBusy))
}

// round makes a duration readable.
func round(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}
