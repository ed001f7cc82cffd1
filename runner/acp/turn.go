package acp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/wire"
)

// Statuses of turns.
const (
	turnCompleted   = "completed"
	turnFailed      = "failed"
	turnInterrupted = "interrupted"
)

// turn is a prompt and everything until its answer. Session.mu guards the fields after the
// channels.
type turn struct {
	*wire.TurnClock
	ctx       context.Context // for requests and tools during the turn
	cancel    context.CancelFunc
	id        string
	cancelled atomic.Bool // session/cancel was sent: requests get no other answer

	failed chan struct{} // closed when failure is set
	ended  chan struct{} // closed when status is set

	started  bool             // its first sign was told
	failure  *agent.Error     // why the turn fails, whatever the agent answers
	status   string           // at its end, "" before
	err      *agent.Error     // at its end
	calls    map[string]*call // that have not ended, by id
	ofCalls  int              // bytes in calls
	said     chunks           // the message or thought that is being said
	lastText string           // the agent's last complete message
	denied   []string         // what the next turn says about denied permissions
	cost     *agent.Cost
}

// chunks are the pieces of a message or of a thought.
type chunks struct {
	kind agent.ItemKind
	id   string // messageId, "" if the agent names none
	text strings.Builder
}

// RunTurn implements agent.Session.
func (s *Session) RunTurn(ctx context.Context, p agent.TurnParams) (agent.Turn, error) {
	if len(p.Items) > 0 {
		return agent.Turn{}, s.unsupported("input that is not a text")
	}
	if strings.TrimSpace(p.Input) == "" {
		return agent.Turn{}, errors.New("session/prompt: the text is empty") // some agents would hang
	}
	t, input, err := s.beginTurn(p.Input)
	if err != nil {
		return agent.Turn{}, err
	}
	err = s.conn.Start(&wire.Call{
		Method:   "session/prompt",
		Answered: func(m *wire.Message) { s.turnAnswered(t, m) },
		Params: wire.Object{
			"sessionId": s.ThreadID(),
			"prompt":    []wire.Object{{"type": "text", "text": input}},
		},
	})
	if err == nil {
		err = s.awaitEnd(ctx, t)
	}
	return s.result(t, err)
}

// beginTurn makes a turn and sets it as the running turn. It adds to the prompt what the
// previous turn left to say.
func (s *Session) beginTurn(prompt string) (*turn, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.id == "":
		return nil, "", errors.New("session/prompt: no session was opened")
	case s.turn != nil:
		return nil, "", errors.New("session/prompt: a turn is still running")
	}
	if err := s.changedSetting(); err != nil {
		return nil, "", err
	}
	s.turns++
	t := &turn{
		TurnClock: wire.NewTurnClock(&s.o),
		id:        fmt.Sprintf("%s-%d", s.prefix, s.turns),
		failed:    make(chan struct{}),
		ended:     make(chan struct{}),
		calls:     make(map[string]*call),
	}
	t.ctx, t.cancel = context.WithCancel(s.life)
	s.turn = t
	denied := s.denied
	s.denied = nil
	if len(denied) > 0 {
		prompt = "In your last turn these requests were not permitted. Go on without them, or find another way.\n\n- " +
			strings.Join(denied, "\n- ") + "\n\n" + prompt
	}
	return t, prompt, nil
}

// result returns how a turn ended. err is the reason why nobody waits for its end any more.
func (s *Session) result(t *turn, err error) (agent.Turn, error) {
	s.mu.Lock()
	out := agent.Turn{ID: t.id, Status: t.status, LastMessage: t.lastText, Cost: t.cost}
	failure := t.failure
	ended := t.err
	s.mu.Unlock()
	if out.Status == "" { // the turn stays s.turn, so that Interrupt finds it
		t.cancel()
		s.emit(agent.Event{Name: agent.EventTurnEndedWithError, TurnID: t.id, Message: err.Error()})
	}
	s.conn.Flush()
	switch {
	case failure != nil:
		return out, failure
	case out.Status == "":
		return out, err
	case ended != nil:
		return out, ended
	}
	return out, nil
}

// current returns the running turn, nil if there is none.
func (s *Session) current() *turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turn
}

// heard resets the clock of silence after a line of the agent.
func (s *Session) heard() {
	if t := s.current(); t != nil {
		t.SawLine()
	}
}

// progressed resets both clocks of the turn after a line that shows progress.
func (s *Session) progressed() {
	if t := s.current(); t != nil {
		t.SawProgress()
	}
}

// fail makes a turn end with an error, whatever the agent answers. Only the first error is
// kept.
func (s *Session) fail(t *turn, code agent.Code, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.failure == nil && t.status == "" {
		t.failure = &agent.Error{Code: code, Message: wire.Short(message, wire.ErrorLength)}
		close(t.failed)
	}
}

// awaitEnd waits for the end of a turn. An error is the reason why it stopped waiting.
func (s *Session) awaitEnd(ctx context.Context, t *turn) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next, late := s.check(t)
		if late != nil {
			return late
		}
		timer.Reset(next)
		select {
		case <-t.ended:
			return nil
		case <-t.failed:
			return s.Interrupt(ctx) // the model would go on
		case <-s.conn.Ended:
			return s.conn.Failure()
		case <-ctx.Done():
			return fmt.Errorf("turn: %w", ctx.Err())
		case <-timer.C:
		}
	}
}

// check checks the clock of a turn, which is paused while an operator is asked or the agent
// can't be heard. It returns the error of a limit that was reached, or else when to check
// again.
func (s *Session) check(t *turn) (next time.Duration, err *agent.Error) {
	s.mu.Lock()
	if len(s.open) > 0 || s.o.Unheard != nil && s.o.Unheard() {
		t.SawProgress()
	}
	works := false
	for _, c := range t.calls {
		works = works || c.item.Kind == agent.ItemCommand || c.item.Kind == agent.ItemTool
	}
	s.mu.Unlock()
	next, err = t.Check(func() bool { return works || s.o.Busy != nil && s.o.Busy() })
	if err != nil && err.Code == agent.CodeStalled {
		err.Message += ": the agent may be retrying its model, of which it says nothing"
	}
	return next, err
}

// cancelBound is how long an agent gets to end a turn after session/cancel. The slowest needed
// half a second.
const cancelBound = 5 * time.Second

// Interrupt implements agent.Session.
func (s *Session) Interrupt(ctx context.Context) error {
	const method = "session/cancel"
	t := s.current()
	if t == nil {
		return nil
	}
	t.cancelled.Store(true)
	s.withdraw()
	params := wire.Object{"sessionId": s.ThreadID()}
	if err := s.conn.Send(wire.Object{"method": method, "params": params}, nil); err != nil {
		return err
	}
	bound := max(s.o.ReadTimeout, cancelBound)
	select {
	case <-t.ended:
		s.conn.Flush()
		return nil
	case <-s.conn.Ended:
		return s.conn.Failure()
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	case <-time.After(bound):
		said := fmt.Sprintf("the turn did not end within %v of %s", bound, method)
		return &agent.Error{Code: agent.CodeResponseTimeout, Message: said}
	}
}

// sawStart tells that a turn has started, at its first sign from the agent.
func (s *Session) sawStart(t *turn) {
	s.mu.Lock()
	first := !t.started
	t.started = true
	s.mu.Unlock()
	if first {
		s.emit(agent.Event{
			Name:    agent.EventSessionStarted,
			TurnID:  t.id,
			Message: "session " + s.ThreadID() + "-" + t.id,
		})
	}
}

// turnAnswered handles the answer to session/prompt: the turn has ended. The reader calls it.
// The events are delivered before RunTurn returns.
func (s *Session) turnAnswered(t *turn, m *wire.Message) {
	answer := wire.Read[promptAnswer](m.Result)
	status, failure := s.ending(m.Error, answer.StopReason)
	if m.Error == nil {
		s.sawStart(t)
	}
	s.endChunks(t)
	if status == turnCompleted && s.toolServer().isMissing() {
		s.fail(t, agent.CodeAgentIncompatible, "the agent has not loaded symphony's tools")
	}
	used, countErr := s.count(s.kind.usage(answer))
	names := map[string]string{
		turnCompleted:   agent.EventTurnCompleted,
		turnFailed:      agent.EventTurnFailed,
		turnInterrupted: agent.EventTurnCancelled,
	}
	message := "turn " + status
	if failure != nil {
		message = wire.Join(message, failure.Message)
	}
	if countErr != nil {
		message += "; " + countErr.Error()
	}
	paid := s.paid()
	if paid != nil {
		message += ", " + paid.String()
	}
	s.emit(agent.Event{Name: names[status], TurnID: t.id, Message: message, Usage: used, Raw: short(m.Raw)})
	s.withdraw() // nobody waits for the answers, but Gemini would keep them open
	s.mu.Lock()
	defer s.mu.Unlock()
	t.status = status
	t.err = failure
	t.cost = paid
	s.turn = nil
	s.denied = append(s.denied, t.denied...)
	t.cancel()
	close(t.ended)
}

// ending returns how a turn ended.
func (s *Session) ending(refusal *wire.Error, reason string) (status string, failure *agent.Error) {
	switch {
	case refusal != nil:
		return turnFailed, &agent.Error{
			Code:    cmp.Or(s.kind.classify(refusal), agent.CodeTurnFailed),
			Message: cmp.Or(errorText(refusal), "the agent gives no reason"),
		}
	case reason == stopEndTurn:
		return turnCompleted, nil
	case reason == stopCancelled:
		return turnInterrupted, &agent.Error{Code: agent.CodeTurnCancelled, Message: "the turn was interrupted"}
	case reason == stopRefusal:
		return turnFailed, &agent.Error{Code: agent.CodePolicy, Message: "the model refuses to go on"}
	}
	said := cmp.Or(strings.ReplaceAll(wire.Short(reason, 40), "_", " "), "no reason")
	return turnFailed, &agent.Error{Code: agent.CodeTurnFailed, Message: "the turn stopped: " + said}
}

// Steer implements agent.Session. No agent of the protocol takes input in a turn without
// ending it; the next turn gets it.
func (s *Session) Steer(context.Context, []agent.Input) error {
	if s.current() == nil {
		return agent.ErrNoTurn
	}
	return s.unsupported("input during a turn")
}

// unsupported is the error of something that the protocol does not have.
func (s *Session) unsupported(what string) error {
	return &agent.Error{
		Code:    agent.CodeResponseError,
		Message: text.OneLine("agent.kind " + s.kind.name + " has no " + what),
	}
}
