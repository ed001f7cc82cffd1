package reconcile

import "log/slog"

// ActionKind names what a pass does.
type ActionKind string

// The kinds of action.
const (
	ActDispatch        ActionKind = "dispatch"
	ActStop            ActionKind = "stop"
	ActReap            ActionKind = "reap"
	ActSettle          ActionKind = "settle"
	ActRetry           ActionKind = "retry"
	ActHold            ActionKind = "hold"
	ActRelease         ActionKind = "release"
	ActRemoveWorkspace ActionKind = "remove_workspace"
	actUpdate          ActionKind = "update" // stores what is known of an issue, and decides nothing; it is not reported
)

// Action is one step of a plan. It is stored before it takes effect and may be repeated without harm.
type Action struct {
	Kind                ActionKind
	IssueID, Identifier string
	RunID               string // the run concerned; for a dispatch empty until it is applied
	Reason              string // a code
	Message             string // for people

	// Change is what is stored for the action; nil for stop and reap.
	Change *Change
	// Issue and Attempt of a dispatch.
	Issue   *Issue
	Attempt int
	// Probe is the block of the account that this dispatch tests, nil for none.
	Probe *Block
	// Outcome to record for a dead run that recorded none.
	Outcome Outcome
	// Kill: its worker lives and is killed first. GiveUp: the run is settled although processes remain.
	Kill, GiveUp bool
}

// Gone is why a claim was released: a reason to stop, or to skip.
type Gone struct {
	Reason string
	State  string // of the issue; empty if the tracker was not asked or no longer returns it
}

// Change is one transaction of a pass: the claim, and everything that must be stored together with it.
type Change struct {
	// Claim is the new content. Its Version is the one it replaces: 0 inserts. Nil leaves claims alone.
	Claim *Claim
	// Delete removes the claim instead. Gone says why it was released.
	Delete bool
	Gone   *Gone
	// Insert is the run that the claim now waits for.
	Insert *Run
	// Settle is the run that this change settles. Its totals are added in the same transaction.
	Settle string
	// Commands are deleted by the change.
	Commands []int64
	// Of the blocks nil leaves one alone; one without a code clears it.
	AgentBlock, TrackerBlock, HostBlock *Block
	// Paused is nil where it stays as it is.
	Paused *bool
}

// Empty reports whether the change changes nothing.
func (c Change) Empty() bool {
	return c.Claim == nil && !c.Delete && c.Insert == nil && c.Settle == "" && len(c.Commands) == 0 &&
		c.AgentBlock == nil && c.TrackerBlock == nil && c.HostBlock == nil && c.Paused == nil
}

// String is the line that symphony tick prints for the action.
func (a Action) String() string {
	line := string(a.Kind)
	for _, part := range [][2]string{{" ", a.Identifier}, {" run=", a.RunID}, {" reason=", a.Reason}, {": ", a.Message}} {
		if part[1] != "" {
			line += part[0] + part[1]
		}
	}
	return line
}

// LogValue implements slog.LogValuer.
func (a Action) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("action", string(a.Kind)), slog.String("issue_id", a.IssueID),
		slog.String("issue_identifier", a.Identifier), slog.String("run_id", a.RunID),
		slog.String("reason", a.Reason))
}

// Skip is a candidate that gets no action, and why.
type Skip struct {
	IssueID    string `json:"issue_id"`
	Identifier string `json:"issue_identifier"`
	Reason     string `json:"reason"` // a code, see the Skip constants
	Message    string `json:"message"`
}

// The reasons of a skip.
const (
	SkipBlockedBy     = "blocked_by"
	SkipMalformed     = "malformed"
	SkipNoSlot        = "no_slot"
	SkipNoSlotInState = "no_slot_in_state"
	SkipLabel         = "label"
	SkipAssignee      = "assignee"
	SkipPaused        = "paused"
	SkipBlocked       = "blocked"
	SkipRateLimited   = "rate_limited"
	SkipDiskLow       = "disk_low"
	SkipWorkspaceBusy = "workspace_busy"
	SkipUnsavedWork   = "unsaved_work"
)

// Plan is what a pass will do, in order.
type Plan struct {
	Actions []Action
	// Skips is nil where no candidates were fetched.
	Skips []Skip
	// Waits are due retries that can't start, with the reasons of skips.
	Waits []Skip
}

// starts reports whether the action starts a process that must outlive the pass.
func (a Action) starts() bool { return a.Kind == ActDispatch || a.Kind == ActRemoveWorkspace }
