package reconcile

import (
	"slices"
	"strings"
	"time"
)

// Policy is the part of the configuration that decisions depend on (specification 5.3 and 6.4).
type Policy struct {
	// Project identifies the tracker's project: endpoint and slug. Claims of another are released.
	Project        string
	ActiveStates   []string
	TerminalStates []string
	RequiredLabels []string
	// Assignee is an email, an id, "me", or empty for any issue.
	Assignee string

	MaxConcurrent int
	// MaxByState has normalised states as keys.
	MaxByState      map[string]int
	MaxRetryBackoff time.Duration

	// The caps hold an issue when they are reached; 0 switches one off.
	MaxFailures int
	MaxIdleRuns int
	MaxRuns     int
	MaxTokens   int64

	// WorkspaceRoot is the resolved root that new claims are made with.
	WorkspaceRoot string
	// StopGrace is how long a worker may take to end after it was asked to; at least 10 s.
	StopGrace time.Duration
	// MinFreeBytes of the workspace volume below which nothing is dispatched.
	MinFreeBytes int64
}

// Active reports whether work is done in a state: it is active and not terminal.
func (p Policy) Active(state string) bool {
	return contains(p.ActiveStates, state) && !p.Terminal(state)
}

// Terminal reports whether state ends an issue.
func (p Policy) Terminal(state string) bool { return contains(p.TerminalStates, state) }

// Labelled reports whether the issue carries every required label.
func (p Policy) Labelled(i Issue) bool {
	for _, want := range p.RequiredLabels {
		if !slices.Contains(i.Labels, strings.ToLower(strings.TrimSpace(want))) {
			return false
		}
	}
	return true
}

// Ours reports whether the issue is assigned as the policy asks.
func (p Policy) Ours(i Issue) bool {
	switch {
	case p.Assignee == "":
		return true
	case i.Assignee == nil:
		return false
	case strings.EqualFold(p.Assignee, "me"):
		return i.Assignee.IsMe
	}
	return strings.EqualFold(p.Assignee, i.Assignee.Email) || p.Assignee == i.Assignee.ID
}

func contains(states []string, state string) bool {
	return slices.ContainsFunc(states, func(s string) bool { return NormalizeState(s) == NormalizeState(state) })
}
