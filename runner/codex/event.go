package codex

import (
	"encoding/json"
	"time"
)

// Names of events: those of 10.4, and a few for what it does not name.
const (
	EventSessionStarted       = "session_started" // a turn began; thread and turn are known
	EventStartupFailed        = "startup_failed"
	EventTurnCompleted        = "turn_completed"
	EventTurnFailed           = "turn_failed"
	EventTurnCancelled        = "turn_cancelled"
	EventTurnEndedWithError   = "turn_ended_with_error" // by a clock, the agent's end, or the caller
	EventTurnInputRequired    = "turn_input_required"
	EventApprovalAutoApproved = "approval_auto_approved"
	EventApprovalDenied       = "approval_denied"
	EventApprovalRequired     = "approval_required"
	EventApprovalRequested    = "approval_requested" // a person is asked
	EventApprovalGranted      = "approval_granted"   // by a person
	EventQuestionAsked        = "question_asked"
	EventQuestionAnswered     = "question_answered"
	EventQuestionDeclined     = "question_declined"
	EventRequestExpired       = "request_expired"   // nobody decided in time
	EventRequestWithdrawn     = "request_withdrawn" // it ended before anybody decided
	EventRequestRefused       = "request_refused"   // of a kind that is not served
	EventUnsupportedToolCall  = "unsupported_tool_call"
	EventToolCallCompleted    = "tool_call_completed"
	EventToolCallFailed       = "tool_call_failed"
	EventNotification         = "notification"
	EventOtherMessage         = "other_message"
	EventMalformed            = "malformed"
)

// Event is one thing that happened on the stream (10.4).
type Event struct {
	Name     string
	At       time.Time // when it was read, UTC
	Method   string    // the message's method, "" where it had none
	ThreadID string    // as the message had it; may be a sub-agent's
	TurnID   string
	Message  string // one short line for people; never contains the whole payload
	// Progress: the event counts for the stall clock (an item, a delta, token
	// usage, a tool call).
	Progress bool
	// Raw is the line as it came, without its end; nil for events of the
	// session's own.
	Raw json.RawMessage
}

// eventQueue is how many events may wait for OnEvent before reading waits for
// it as well.
const eventQueue = 1024

// emit queues an event. It blocks while the queue is full; after Close for at
// most ReadTimeout, so that a callback that hangs can't keep the reader.
func (s *Session) emit(e Event) {
	if s.o.OnEvent == nil {
		return
	}
	if e.At.IsZero() {
		e.At = time.Now()
	}
	e.At = e.At.UTC()
	s.enqueue(e)
}

func (s *Session) enqueue(entry any) {
	select {
	case s.events <- entry:
		return
	default:
	}
	select {
	case s.events <- entry:
		return
	case <-s.silent:
		return
	case <-s.closing:
	}
	late := time.NewTimer(s.o.ReadTimeout)
	defer late.Stop()
	select {
	case s.events <- entry:
	case <-s.silent:
	case <-late.C:
	}
}

// deliver calls OnEvent until the reader is through and the session is closed:
// after the agent's end it is still told how that ended the turn.
func (s *Session) deliver() {
	defer close(s.silent)
	s.deliverUntil(s.ended)
	close(s.done)
	s.deliverUntil(s.closing)
}

// deliverUntil delivers until then, and what is in the queue then.
func (s *Session) deliverUntil(over <-chan struct{}) {
	for {
		select {
		case e := <-s.events:
			s.deliverOne(e)
			continue
		case <-over:
		}
		for {
			select {
			case e := <-s.events:
				s.deliverOne(e)
			default:
				return
			}
		}
	}
}

func (s *Session) deliverOne(entry any) {
	switch e := entry.(type) {
	case Event:
		s.o.OnEvent(e)
	case func():
		e()
	}
}

// flush waits until what was emitted so far has been delivered, so that a
// caller who has RunTurn's answer also has its events; at most ReadTimeout.
func (s *Session) flush() {
	if s.o.OnEvent == nil {
		return
	}
	reached := make(chan struct{})
	s.enqueue(func() { close(reached) })
	late := time.NewTimer(s.o.ReadTimeout)
	defer late.Stop()
	select {
	case <-reached:
	case <-s.silent:
	case <-late.C:
	}
}
