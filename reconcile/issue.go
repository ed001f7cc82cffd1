package reconcile

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// Issue is the tracker's record of one piece of work, normalised (specification 4.1.1 and 11.3).
// Pointers are nil where the tracker has no value.
type Issue struct {
	ID          string       `json:"id"`
	Identifier  string       `json:"identifier"`
	Title       string       `json:"title"`
	Description *string      `json:"description"`
	Priority    *int         `json:"priority"`
	State       string       `json:"state"`
	BranchName  *string      `json:"branch_name"`
	URL         *string      `json:"url"`
	Labels      []string     `json:"labels"`
	BlockedBy   []BlockerRef `json:"blocked_by"`
	CreatedAt   *time.Time   `json:"created_at"`
	UpdatedAt   *time.Time   `json:"updated_at"`

	// Assignee is nil for an unassigned issue.
	Assignee *Assignee `json:"assignee"`
	// Project is the slug id of the issue's project, empty where it has none.
	Project string `json:"project"`
	// Elsewhere: the issue is no longer in the project of the workflow.
	Elsewhere bool `json:"elsewhere,omitempty"`
	// Archived issues are still returned when asked for by id.
	Archived bool `json:"archived"`
	// LastCommentAt is the time of the newest comment; nil if there is none or the request did not ask for it.
	LastCommentAt *time.Time `json:"last_comment_at"`
	// Malformed is why a candidate cannot be worked on: its record lacks a required field. Then only ID and Identifier
	// are set, as far as they could be read.
	Malformed string `json:"-"`
}

// BlockerRef names an issue that blocks another. A blocker without a state counts as open.
type BlockerRef struct {
	ID         *string `json:"id"`
	Identifier *string `json:"identifier"`
	State      *string `json:"state"`
}

// Assignee is the person that an issue is assigned to. IsMe: the tracker's key belongs to this person.
type Assignee struct {
	ID    string `json:"id"`
	Email string `json:"email"`
	IsMe  bool   `json:"is_me"`
}

// NormalizeState makes tracker states comparable (specification 4.2).
func NormalizeState(s string) string { return strings.ToLower(strings.TrimSpace(s)) }

// Fingerprint changes with the state or the description of the issue, the two changes that count as progress. Comments do
// not.
func (i Issue) Fingerprint() string {
	h := sha256.New()
	h.Write([]byte(NormalizeState(i.State)))
	h.Write([]byte{0})
	if i.Description != nil {
		h.Write([]byte(*i.Description))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Comment is a comment on an issue in the tracker.
type Comment struct {
	ID string
	// Author is the name of a person or an integration; empty where the tracker names none.
	Author    string
	Body      string
	CreatedAt time.Time
}
