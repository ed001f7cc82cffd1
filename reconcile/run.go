package reconcile

import (
	"encoding/json"
	"slices"
	"time"
)

// Phase is where a run stands (specification 7.2).
type Phase string

// The phases of a run, in their order.
const (
	Starting            Phase = "starting" // the row exists, no worker has taken it yet
	PreparingWorkspace  Phase = "preparing_workspace"
	BuildingPrompt      Phase = "building_prompt"
	LaunchingAgent      Phase = "launching_agent"
	InitializingSession Phase = "initializing_session"
	StreamingTurn       Phase = "streaming_turn"
	Finishing           Phase = "finishing"
)

// Outcome is how a run ended. Every run gets exactly one.
type Outcome string

// The outcomes of a run.
const (
	Succeeded      Outcome = "succeeded"
	Failed         Outcome = "failed"
	TimedOut       Outcome = "timed_out"
	Stalled        Outcome = "stalled"
	Canceled       Outcome = "canceled"
	InterruptedRun Outcome = "interrupted"
	Lost           Outcome = "lost"
)

// RunKind tells agents' runs from those that remove a workspace.
type RunKind string

// The kinds of run.
const (
	AgentRun   RunKind = "agent"
	CleanupRun RunKind = "cleanup"
)

// The reasons for which a pass stops a run. After all but StopOperator the tracker's answer decides what follows.
const (
	StopTerminal = "terminal"       // the issue reached a terminal state
	StopInactive = "inactive"       // the issue left the active states
	StopMissing  = "missing"        // the tracker no longer returns the issue
	StopMoved    = "moved"          // the issue is in another project of the tracker now
	StopLabel    = "label"          // a required label is gone
	StopAssignee = "assignee"       // it is assigned to another person now
	StopOperator = "operator"       // symphony stop ISSUE: end and hold
	StopAll      = "operator_all"   // symphony stop --all: end, go on after resume
	StopProject  = "project_change" // the workflow names another project now
)

// Tokens are cumulative counts (specification 13.5).
type Tokens struct {
	Input     int64 `json:"input"`
	Cached    int64 `json:"cached"` // part of Input
	Output    int64 `json:"output"`
	Reasoning int64 `json:"reasoning"` // part of Output
	Total     int64 `json:"total"`
}

// Since is the use after base was counted. A count that went back is no use.
func (t Tokens) Since(base Tokens) Tokens {
	return t.with(base, func(n, before int64) int64 { return max(n-before, 0) })
}

// Plus is the sum of both.
func (t Tokens) Plus(o Tokens) Tokens { return t.with(o, func(n, m int64) int64 { return n + m }) }

func (t Tokens) with(o Tokens, f func(n, m int64) int64) Tokens {
	return Tokens{f(t.Input, o.Input), f(t.Cached, o.Cached), f(t.Output, o.Output), f(t.Reasoning, o.Reasoning), f(t.Total, o.Total)}
}

// Run is one worker process for one issue (the specification's run attempt, 4.1.5 and 4.1.6).
type Run struct {
	ID                   string
	Kind                 RunKind
	IssueID, Identifier  string
	Attempt              int
	Phase                Phase
	Outcome              Outcome // empty while it runs
	ErrorCode, ErrorText string
	StopReason           string
	StopAt               Instant // when the stop was asked for, zero if none was
	ReapTries            int     // counts the passes that could not end what the dead run left
	Settled              bool
	// Issue is the record as dispatched, Fingerprint that of the issue then.
	Issue       Issue
	Fingerprint string
	// Worker is the process that owns the run, zero until it has taken the run.
	Worker Handle
	Host   string

	WorkspacePath, WorkspaceRoot string
	WorkspaceID                  string // the random id of the workspace's record that the thread worked in
	ThreadID, TurnID             string
	// Model is the model of the thread, empty where codex did not report it. If codex changed it during the run, the names
	// are joined by a plus.
	Model     string
	Turns     int // started
	TurnsDone int // completed
	// AfterRunError says why after_run failed, empty where it did not. The outcome is not changed by it.
	AfterRunError string
	// Progress: the run changed HEAD, the index or the work tree.
	Progress bool
	Tokens   Tokens
	// RateLimits is the agent's latest rate-limit record as JSON, nil if none came (specification 13.5).
	RateLimits             []byte
	LastEvent, LastMessage string
	LastEventAt            time.Time
	// Links are addresses at which the agent's work can be seen, in the order in which it named them.
	Links []Link

	// HandoffAt is when the agent last changed its issue with the tracker tool. HandoffState is the state that the worker
	// read after the change, empty until then.
	HandoffAt    time.Time
	HandoffState string

	// Beats counts the worker's heartbeats. HeartbeatAt is for display only.
	Beats              int64
	HeartbeatAt        time.Time
	StartedAt, EndedAt time.Time
}

// Instant is a moment on the monotonic clock, which neither a suspend nor a step of the wall clock moves. Instants can be
// compared within one boot only.
type Instant struct {
	Boot string
	Mono time.Duration
}

// Handle identifies the process of a worker, also after its pid was reused or the machine rebooted.
type Handle struct {
	Boot  string // boot id of the machine
	PID   int
	Start uint64 // start time in clock ticks since that boot
}

// LastSeen is what a thread was told of its issue last.
type LastSeen struct {
	// CommentAt is the time of the newest comment that the thread was told of, or that existed when it began.
	CommentAt time.Time
	// Description is the hash of the description, never empty.
	Description string
	// Prompt is the hash of the prompt, empty for threads of earlier versions.
	Prompt string
}

// Thread is a codex thread that worked on an issue.
type Thread struct {
	ID string // empty: there is none
	// WorkspaceID is the random id of the workspace record that it worked under.
	WorkspaceID string
	// CodexHome is the directory in which codex keeps it, with links resolved; empty where it is not known.
	CodexHome string
	// Failed is how many of its latest runs have failed in a row.
	Failed int
}

// Mutation is a change that an agent made in the tracker with its tool, or tried to make.
type Mutation struct {
	Fields    []string        `json:"fields"` // the root fields by the tracker's names
	Query     string          `json:"query"`  // as the agent sent it
	Variables json.RawMessage `json:"variables,omitempty"`
	Success   bool            `json:"success"`
	Created   []Created       `json:"created,omitempty"`
}

// Link is an address at which the work of an agent can be seen.
type Link struct {
	Kind string `json:"kind"` // pull_request, attachment
	URL  string `json:"url"`
}

// mostLinks bounds the links that are kept of a run or an issue.
const mostLinks = 20

// MergeLinks adds the links that are not in the list yet.
func MergeLinks(links, more []Link) []Link {
	for _, l := range more {
		if len(links) < mostLinks && !slices.ContainsFunc(links, func(k Link) bool { return k.URL == l.URL }) {
			links = append(links, l)
		}
	}
	return links
}

// Created is an entity that an agent created in the tracker.
type Created struct {
	Kind string `json:"kind"` // in the words of the tracker: comment, issue, attachment, …
	ID   string `json:"id"`
}
