package reconcile

import "time"

// ClaimStatus is what symphony intends with an issue. No claim: the issue is unclaimed (specification 7.1).
type ClaimStatus string

// The statuses of a claim.
const (
	Running ClaimStatus = "running" // a run owns the issue
	Waiting ClaimStatus = "retry"   // the next run is due at DueAt
	Held    ClaimStatus = "held"    // no further run until something outside changes
)

// RetryKind says why a claim waits.
type RetryKind string

// The kinds of waiting.
const (
	Continuation RetryKind = "continuation" // the last run succeeded, the issue may want another
	Backoff      RetryKind = "backoff"      // the last run failed
	Interrupted  RetryKind = "interrupted"  // the last run was ended from outside
	Blocked      RetryKind = "blocked"      // the last run met a fault of the machine, not of the issue
	NoSlot       RetryKind = "no_slot"      // due, but every slot is taken
	Requested    RetryKind = "requested"    // an operator asked for it
)

// Claim is symphony's record that an issue is its business. Only a pass writes it, under the project lock
// and only where Version is still the one it read.
type Claim struct {
	IssueID    string
	Identifier string
	Status     ClaimStatus
	// Version is 0 for a claim that is not stored yet and grows by one with every write.
	Version int64
	// RunID is the run that owns a running claim, or the last one.
	RunID string

	// Attempt is what the next run is told: 0 for the first (specification 5.4: null).
	Attempt      int
	Kind         RetryKind
	DueAt        time.Time
	ErrorCode    string
	ErrorMessage string

	HoldReason  string
	HoldMessage string
	HeldAt      time.Time
	// HoldCommentAt is the newest comment that the holding pass saw: a later one ends the hold.
	HoldCommentAt time.Time
	// HoldNext asks that the claim is held for the operator when its present run has ended.
	HoldNext bool

	Failures      int // in a row
	IdleRuns      int // in a row, succeeded without progress
	Runs          int // since the last change of state or description
	Interruptions int // in a row without a completed turn
	// TokenBase is what the issue had used when an operator last cleared its counters.
	TokenBase int64

	// Issue is the last known record of the issue, Project what Policy.Project was when it was claimed.
	Issue   Issue
	Project string
	// WorkspaceRoot is the resolved root that the claim was made with.
	WorkspaceRoot string
	ClaimedAt     time.Time
	UpdatedAt     time.Time
}

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

// The reasons why a pass stops a run. All but StopOperator leave the next step to the tracker's answer.
const (
	StopTerminal = "terminal"       // the issue reached a terminal state
	StopInactive = "inactive"       // the issue left the active states
	StopMissing  = "missing"        // the tracker no longer returns the issue
	StopMoved    = "moved"          // the issue is in another project of the tracker now
	StopLabel    = "label"          // a required label is gone
	StopAssignee = "assignee"       // it is somebody else's now
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

// Since is what was used after base was counted; a count that went back has used nothing.
func (t Tokens) Since(base Tokens) Tokens {
	return Tokens{
		Input: max(t.Input-base.Input, 0), Cached: max(t.Cached-base.Cached, 0), Output: max(t.Output-base.Output, 0),
		Reasoning: max(t.Reasoning-base.Reasoning, 0), Total: max(t.Total-base.Total, 0),
	}
}

// Plus adds up.
func (t Tokens) Plus(o Tokens) Tokens {
	return Tokens{
		Input: t.Input + o.Input, Cached: t.Cached + o.Cached, Output: t.Output + o.Output,
		Reasoning: t.Reasoning + o.Reasoning, Total: t.Total + o.Total,
	}
}

// Run is one worker process for one issue (the specification's run attempt, 4.1.5 and 4.1.6).
type Run struct {
	ID         string
	Kind       RunKind
	IssueID    string
	Identifier string
	Attempt    int
	Phase      Phase
	Outcome    Outcome // empty while it runs
	ErrorCode  string
	ErrorText  string
	StopReason string
	// StopAt is when the stop was asked for, the zero Instant if none was.
	StopAt Instant
	// ReapTries counts the passes that could not end what the dead run left.
	ReapTries int
	// Seen is the heartbeat that a pass has seen last.
	Seen    Pulse
	Settled bool
	// Issue is the record as dispatched, Fingerprint that of the issue then.
	Issue       Issue
	Fingerprint string

	// Worker is the process that owns the run, zero until it has taken it.
	Worker Handle
	Host   string

	WorkspacePath string
	WorkspaceRoot string
	// WorkspaceID is the random id of the workspace's record that the thread worked in.
	WorkspaceID string
	ThreadID    string
	TurnID      string
	// Model is the one that codex gave the thread, empty where it did not say. Several are joined by a plus: codex went
	// on with another one.
	Model     string
	Turns     int // started
	TurnsDone int // completed
	// AfterRunError says why after_run failed, empty where it did not. The outcome is not changed by it.
	AfterRunError string
	// Progress: the run changed HEAD, the index or the work tree.
	Progress bool
	Tokens   Tokens
	// RateLimits is the agent's latest rate-limit record as JSON, nil if none came (specification 13.5).
	RateLimits  []byte
	LastEvent   string
	LastMessage string
	LastEventAt time.Time
	// Links are where the agent's work can be looked at, in the order in which it named them.
	Links []Link

	// HandoffAt is when the agent last changed its issue in the tracker, by the tool in the worker, and
	// HandoffState the state in which the worker then found it; empty while the change is under way.
	HandoffAt    time.Time
	HandoffState string

	// Beats counts the worker's heartbeats. HeartbeatAt is for display only.
	Beats       int64
	HeartbeatAt time.Time
	StartedAt   time.Time
	EndedAt     time.Time
}

// Instant is a moment on the clock that neither a suspend nor a stepped wall clock moves (CLOCK_MONOTONIC).
// It can be compared within one boot only.
type Instant struct {
	Boot string
	Mono time.Duration
}

// Pulse is a heartbeat as a pass saw it: the worker's counter, and when that value was seen first.
type Pulse struct {
	Beats int64
	At    Instant
}

// Handle says which process a worker is, across reuse of its pid and reboots.
type Handle struct {
	Boot  string // boot id of the machine
	PID   int
	Start uint64 // start time in clock ticks since that boot
}

// Verb is an operator's command.
type Verb string

// The operator's commands.
const (
	VerbStop    Verb = "stop"
	VerbStopAll Verb = "stop_all"
	VerbHold    Verb = "hold"
	VerbRetry   Verb = "retry"
	VerbPause   Verb = "pause"
	VerbResume  Verb = "resume"
)

// Command is an operator's request, kept until a pass has taken it up.
type Command struct {
	ID         int64
	Verb       Verb
	IssueID    string
	Identifier string
	CreatedAt  time.Time
}

// Block is a fault of the machine that makes dispatching senseless for now.
type Block struct {
	Code    string    `json:"code"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
	NextTry time.Time `json:"next_try"`
	Tries   int       `json:"tries"`
}
