package reconcile

import (
	"encoding/json"
	"time"
)

// Call is something that a client asks of an agent without an issue, such as a turn. A client
// may choose its ID; a call with an ID that is stored already is not carried out again.
type Call struct {
	ID           string
	RunID, Agent string
	Conversation string // the ID of the call that opened it; empty for a call of the agent itself
	Verb         CallVerb
	Params       json.RawMessage // JSON of the verb: see package runner
	Status       CallStatus
	ThreadID     string          // of a conversation, as soon as it is known
	Result       json.RawMessage // JSON of the verb, nil before the end and after an error
	// ErrorCode and ErrorText explain why the call failed.
	ErrorCode, ErrorText          string
	CreatedAt, StartedAt, EndedAt time.Time
	// EndedNo is the call's place in the order in which the calls of the run ended, from 1; 0
	// before its end.
	EndedNo int64
}

// CallVerb is the kind of a call.
type CallVerb string

const (
	CallConversation CallVerb = "conversation" // open a conversation
	CallTurn         CallVerb = "turn"         // carry out a turn in it, after the earlier ones
	CallSteer        CallVerb = "steer"        // add input to its running turn
	CallInterrupt    CallVerb = "interrupt"    // end its running turn, and drop its waiting turns
)

// CallStatus is how far a call is.
type CallStatus string

const (
	CallQueued      CallStatus = "queued"
	CallRunning     CallStatus = "running"
	CallCompleted   CallStatus = "completed"
	CallFailed      CallStatus = "failed"
	CallInterrupted CallStatus = "interrupted" // the turn was ended before it was done
)

// Ended reports whether the call ended, with a result or an error.
func (c Call) Ended() bool { return c.Status != CallQueued && c.Status != CallRunning }

// Message is an operator's message to the agent of an issue.
type Message struct {
	ID         string    `json:"id"`
	IssueID    string    `json:"issue_id"`
	Identifier string    `json:"issue_identifier"` // not stored
	At         time.Time `json:"at"`
	Words
	// the last run that began to tell its agent; empty before that
	RunID  string    `json:"run_id"`
	ToldAt time.Time `json:"told_at,omitzero"` // when that run's agent got it
}

// Words are a text with the account of the operator who wrote it.
type Words struct {
	By   string `json:"by"`
	Text string `json:"text"`
}

// MoveOrder is an operator's order to move an issue: back to an agent, with a text for it, or to
// the state of issues that are done. A pass comments on the issue, and moves it. Each step is
// stored, so that a pass that was killed is continued by the next one.
type MoveOrder struct {
	ID         string    `json:"-"`
	IssueID    string    `json:"-"`
	Identifier string    `json:"identifier"`
	At         time.Time `json:"-"`
	Words                // the text is empty if the issue is done
	From       string    `json:"from"` // its state as the operator saw it
	To         string    `json:"to"`   // the same if a hold keeps agents from it, and not its state
	// Hold is the reason for which it was held then; empty if it was not. Since is when that hold
	// began, or when its agent handed it over.
	Hold  string    `json:"hold,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// NoComment: the tracker takes no comments, and the text is a message to the next agent.
	NoComment bool `json:"no_comment,omitempty"`
	// Tried: a pass has begun to comment. Commented: the comment is known to be there. Moved:
	// all is done.
	Tried     bool      `json:"tried,omitempty"`
	Commented bool      `json:"commented,omitempty"`
	Moved     bool      `json:"moved,omitempty"`
	EndedAt   time.Time `json:"-"` // zero while a pass has to carry it out
}

// GoesBack reports whether an agent is to go on with the issue.
func (m MoveOrder) GoesBack() bool { return m.Text != "" }

// Comment is the text as a comment: with the name of its author, because the account of the
// tracker is that of symphony.
func (m MoveOrder) Comment() string { return "From " + m.By + ":\n\n" + m.Text }

// The limits of messages.
const (
	MaxMessage  = 8 << 10 // bytes per message
	MaxMessages = 20      // that wait for the agent of an issue
)
