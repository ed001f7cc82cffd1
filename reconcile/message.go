package reconcile

import "time"

// Message is what an operator tells the agent of an issue.
type Message struct {
	ID         string    `json:"id"`
	IssueID    string    `json:"issue_id"`
	Identifier string    `json:"issue_identifier"` // not stored
	At         time.Time `json:"at"`
	Words
	RunID  string    `json:"run_id"`           // the last run that has begun to tell its agent; empty before that
	ToldAt time.Time `json:"told_at,omitzero"` // when that run's agent has got it
}

// Words are a text with the account of the operator who wrote it.
type Words struct {
	By   string `json:"by"`
	Text string `json:"text"`
}

// The limits of messages.
const (
	MaxMessage  = 8 << 10 // bytes of one
	MaxMessages = 20      // that wait for the agent of an issue
)
