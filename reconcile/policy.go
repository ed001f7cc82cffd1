package reconcile

import (
	"slices"
	"strings"
	"time"
)

// Policy is the part of the configuration that decisions depend on (specification 5.3 and 6.4).
type Policy struct {
	// Project identifies the tracker's project: endpoint and slug. Claims of another are released.
	Project        string   `json:"project"`
	ActiveStates   []string `json:"active_states"`
	TerminalStates []string `json:"terminal_states"`
	RequiredLabels []string `json:"required_labels"`
	// Assignee is an email, an id, "me", or empty for any issue.
	Assignee string `json:"assignee"`

	MaxConcurrent int `json:"max_concurrent"`
	// MaxByState has normalised states as keys.
	MaxByState      map[string]int `json:"max_by_state"`
	MaxRetryBackoff time.Duration  `json:"max_retry_backoff"`

	// The caps hold an issue when they are reached; 0 switches one off.
	MaxFailures int   `json:"max_failures"`
	MaxIdleRuns int   `json:"max_idle_runs"`
	MaxRuns     int   `json:"max_runs"`
	MaxTokens   int64 `json:"max_tokens"`

	// WorkspaceRoot is the resolved root that new claims are made with.
	WorkspaceRoot string `json:"workspace_root"`
	// StopGrace is how long a worker may take to end after it was asked to; at least 10 s.
	StopGrace time.Duration `json:"stop_grace"`
	// MinFreeBytes of the workspace volume below which nothing is dispatched.
	MinFreeBytes int64 `json:"min_free_bytes"`
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
