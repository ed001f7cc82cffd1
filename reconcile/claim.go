package reconcile

import "time"

// ClaimStatus says what symphony does with an issue. An issue without a claim is unclaimed (specification 7.1).
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

// Claim is symphony's record of an issue that it works on. Only a pass writes it, under the project lock and only if
// Version is still the one that it read.
type Claim struct {
	IssueID, Identifier string
	Status              ClaimStatus
	// Version is 0 for a claim that is not stored yet and grows by one with every write.
	Version int64
	// RunID is the run that owns a running claim, or the last one.
	RunID string

	// Attempt is the attempt that the next run is told: 0 for the first (specification 5.4: null).
	Attempt                 int
	Kind                    RetryKind
	DueAt                   time.Time
	ErrorCode, ErrorMessage string

	HoldReason, HoldMessage string
	HeldAt                  time.Time
	// HoldCommentAt is the time of the newest comment that the holding pass saw. A later comment ends the hold.
	HoldCommentAt time.Time
	// HoldNext: when the present run has ended, the claim is held for the operator.
	HoldNext bool

	Failures      int // in a row
	IdleRuns      int // in a row, succeeded without progress
	Runs          int // since the last change of state or description
	Interruptions int // in a row without a completed turn
	// TokenBase is the use of the issue when an operator last cleared its counters.
	TokenBase int64

	// Issue is the last known record of the issue, Project what Policy.Project was when it was claimed.
	Issue   Issue
	Project string
	// WorkspaceRoot is the resolved root that the claim was made with.
	WorkspaceRoot        string
	ClaimedAt, UpdatedAt time.Time
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
