package reconcile

import "time"

// Comment is what somebody wrote below an issue in the tracker.
type Comment struct {
	ID string
	// Author is the writer's name, a person's or an integration's; empty where the tracker names none.
	Author    string
	Body      string
	CreatedAt time.Time
}

// Told is what a thread knows of its issue.
type Told struct {
	// CommentAt is when the newest comment was made that the thread was told of, or that was there when it began.
	CommentAt time.Time
	// Description is the hash of the description it was told last, never empty.
	Description string
	// Prompt is the hash of the prompt it was given last, empty for threads of earlier versions.
	Prompt string
}

// Thread is a codex thread that worked on an issue.
type Thread struct {
	ID string // empty: there is none
	// WorkspaceID is the random id of the workspace record that it worked under.
	WorkspaceID string
	// CodexHome is where codex keeps it, with links resolved; empty where nobody knows.
	CodexHome string
	// Failed is how many of its latest runs have failed in a row.
	Failed int
}
