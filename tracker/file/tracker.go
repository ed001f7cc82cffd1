package file

import (
	"context"
	"time"
)

// Options configure the adapter.
type Options struct {
	Path string // the folder, absolute
	// Active and Terminal are the states of the workflow. Others are further states to which
	// agents may move their issues.
	Active   []string
	Terminal []string
	Others   []string
	// Handoff are the states to which symphony itself moves issues; with them, agents do not
	// leave the active ones.
	Handoff []string
	// Assignee is tracker.assignee. If an issue is assigned to several people, this name
	// counts.
	Assignee string
	ReadOnly bool // the agent's tools change nothing
	Now      func() time.Time
	// Warn receives a message about each value that the adapter ignores; nil discards them.
	Warn func(string)
}

// tracker is a folder.
type tracker struct {
	Options
	settings settings
}

var (
	// patience is how long ByIDs looks for an issue that is missing.
	patience = 200 * time.Millisecond
	// pause is the time between two looks or attempts.
	pause = 20 * time.Millisecond
)

// sleep waits for a pause; false if ctx ends.
func sleep(ctx context.Context) bool {
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}
