package reconcile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
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

	Assignee      *Assignee  `json:"assignee"`            // nil for an unassigned issue
	Project       string     `json:"project"`             // the slug id of the issue's project, empty where it has none
	Elsewhere     bool       `json:"elsewhere,omitempty"` // the issue is no longer in the project of the workflow
	Archived      bool       `json:"archived"`            // still returned when asked for by id
	LastCommentAt *time.Time `json:"last_comment_at"`     // of the newest comment; nil where there is none or it was not asked for
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

// Fingerprint changes with the state or the description of the issue, the two changes that count as progress. Comments do not.
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
	ID        string
	Author    string // the name of a person or an integration; empty where the tracker names none
	Body      string
	CreatedAt time.Time
}

// ClaimStatus says what symphony does with an issue. An issue without a claim is unclaimed (specification 7.1).
type ClaimStatus string

const (
	Running ClaimStatus = "running" // a run owns the issue
	Waiting ClaimStatus = "retry"   // the next run is due at DueAt
	Held    ClaimStatus = "held"    // no further run until something outside changes
)

// RetryKind says why a claim waits.
type RetryKind string

const (
	Continuation RetryKind = "continuation" // the last run succeeded, the issue may want another
	Backoff      RetryKind = "backoff"      // the last run failed
	Interrupted  RetryKind = "interrupted"  // the last run was ended from outside
	Blocked      RetryKind = "blocked"      // the last run met a fault of the machine, not of the issue
	NoSlot       RetryKind = "no_slot"      // due, but every slot is taken
	Requested    RetryKind = "requested"    // an operator asked for it
)

// The reasons of a hold.
const (
	HoldOperator    = "operator"
	HoldMaxFailures = "max_failures"
	HoldMaxIdleRuns = "max_idle_runs"
	HoldMaxRuns     = "max_runs"
	HoldMaxTokens   = "max_tokens"
	HoldInterrupted = "interrupted"
	HoldLeftover    = "leftover_process"
)

// Claim is symphony's record of an issue that it works on. Only a pass writes it, under the project lock and only if
// Version is still the one that it read.
type Claim struct {
	IssueID, Identifier string
	Status              ClaimStatus
	Version             int64  // 0 for a claim that is not stored yet and grows by one with every write
	RunID               string // the run that owns a running claim, or the last one

	Attempt                 int // the attempt that the next run is told: 0 for the first (specification 5.4: null)
	Kind                    RetryKind
	DueAt                   time.Time
	ErrorCode, ErrorMessage string

	HoldReason, HoldMessage string
	HeldAt                  time.Time
	HoldCommentAt           time.Time // of the newest comment that the holding pass saw; a later one ends the hold
	HoldNext                bool      // when the present run has ended, the claim is held for the operator

	Failures      int   // in a row
	IdleRuns      int   // in a row, succeeded without progress
	Runs          int   // since the last change of state or description
	Interruptions int   // in a row without a completed turn
	TokenBase     int64 // the use of the issue when an operator last cleared its counters

	Issue                Issue  // as last seen
	Project              string // Policy.Project when the issue was claimed
	WorkspaceRoot        string // resolved, as it was when the claim was made
	ClaimedAt, UpdatedAt time.Time
}

// HoldEnds says what ends the hold of a claim.
func (c Claim) HoldEnds() string {
	retry := "symphony retry " + c.Identifier
	switch c.HoldReason {
	case HoldOperator:
		return retry + " ends the hold"
	case HoldLeftover:
		return "end the process, then " + retry
	}
	return retry + ", a comment, or moving it away and back ends the hold"
}

// HoldText says why a claim is held and what ends the hold.
func (c Claim) HoldText() string {
	if c.HoldMessage == "" {
		return c.HoldEnds()
	}
	return c.HoldMessage + "; " + c.HoldEnds()
}

// Verb is an operator's command.
type Verb string

const (
	VerbStop    Verb = "stop"
	VerbStopAll Verb = "stop_all"
	VerbHold    Verb = "hold"
	VerbRetry   Verb = "retry"
	VerbPause   Verb = "pause"
	VerbResume  Verb = "resume"
)

// Command is a request of an operator, stored until a pass carries it out.
type Command struct {
	ID                  int64
	Verb                Verb
	IssueID, Identifier string
	CreatedAt           time.Time
}

// Block is a fault of the machine for which no run is started for now.
type Block struct {
	Code    string    `json:"code"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
	NextTry time.Time `json:"next_try"`
	Tries   int       `json:"tries"`
}

// After is the block after a run ended by its fault at the given time; b is the block before, nil for none.
func (b *Block) After(code, message string, ended time.Time) Block {
	next := Block{Since: ended}
	if b != nil {
		next = *b
	}
	next.Code, next.Message = code, message
	if at := ended.Add(Delay(next.Tries+1, longestProbe)); at.After(next.NextTry) {
		next.NextTry = at
	}
	return next
}

// Tried is the block after a probe was started.
func (b Block) Tried(now time.Time) Block {
	b.Tries++
	b.NextTry = now.Add(Delay(b.Tries+1, longestProbe))
	return b
}

// Unstepped corrects times that only a step of the clock can have set so far ahead. The next try is due now then.
func (b Block) Unstepped(now time.Time) Block {
	if b.Since.After(now) {
		b.Since = now
	}
	if b.NextTry.After(now.Add(longestProbe)) {
		b.NextTry = now
	}
	return b
}

// startedUnder reports whether the run was started while the block was set.
func (b Block) startedUnder(r Run) bool { return r.Kind == AgentRun && !r.StartedAt.Before(b.Since) }

// overBy reports whether the run shows that the fault is over: it completed a turn although it was started under the block.
func (b Block) overBy(r Run) bool { return b.startedUnder(r) && r.TurnsDone > 0 }

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
	Issue                Issue  // as dispatched
	Fingerprint          string // of the issue then
	Worker               Handle // the process that owns the run, zero until it has taken the run
	Host                 string

	WorkspacePath, WorkspaceRoot string
	WorkspaceID                  string // the random id of the workspace's record that the thread worked in
	ThreadID, TurnID             string
	// Model is the model of the thread, empty where codex did not report it. If codex changed it during the run, the names
	// are joined by a plus.
	Model                  string
	Turns                  int    // started
	TurnsDone              int    // completed
	AfterRunError          string // why after_run failed, which does not change the outcome; empty where it did not
	Progress               bool   // the run changed HEAD, the index or the work tree
	Tokens                 Tokens
	RateLimits             []byte // the agent's latest rate-limit record as JSON, nil if none came (specification 13.5)
	LastEvent, LastMessage string
	LastEventAt            time.Time
	Links                  []Link // addresses at which the agent's work can be seen, in the order in which it named them

	HandoffAt    time.Time // when the agent last changed its issue with the tracker tool
	HandoffState string    // what the worker read after that change, empty until then

	Beats              int64     // heartbeats of the worker
	HeartbeatAt        time.Time // of the last one, by the wall clock
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
	CommentAt   time.Time // the time of the newest comment that the thread was told of, or that existed when it began
	Description string    // the hash of the description, never empty
	Prompt      string    // the hash of the prompt, empty for threads of earlier versions
}

// Thread is a codex thread that worked on an issue.
type Thread struct {
	ID          string // empty: there is none
	WorkspaceID string // the random id of the workspace record that it worked under
	CodexHome   string // the directory in which codex keeps it, with links resolved; empty where it is not known
	Failed      int    // how many of its latest runs have failed in a row
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
