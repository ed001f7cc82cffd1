package reconcile

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Snapshot is everything that a plan depends on: the same Snapshot gives the same Plan.
type Snapshot struct {
	Options
	// State is what is stored. In a pass HostBlock is what the pass itself has found, nil where it has not checked.
	State
	Now        time.Time
	Boot       string        // boot id of this machine
	Mono       time.Duration // CLOCK_MONOTONIC
	Policy     Policy
	Account    Account             // the state that the projects of one codex home share
	Liveness   map[string]Liveness // of every unsettled run, by its id
	Tracker    *Tracked            // the answer of the tracker; nil in the local half of a pass, or without an answer
	Workspaces []Workspace         // the recorded ones under the present root
	SweepDue   bool                // the issues of unclaimed workspaces are refreshed in this pass
	TrashDue   bool                // removed workspaces are deleted
	FreeBytes  int64               // of the workspace volume; negative where unknown
}

// State is the stored half of a Snapshot.
type State struct {
	Claims                              []Claim
	Runs                                []Run // unsettled
	Commands                            []Command
	Paused                              bool
	AgentBlock, TrackerBlock, HostBlock *Block           // faults of the machine, nil where there is none
	Tokens                              map[string]int64 // used by each claimed issue over all of its runs
	LastSweep                           time.Time
	ReadOnly                            bool // a newer program owns the database: this one settles and refreshes but dispatches nothing
}

// Options says what kind of pass it is.
type Options struct {
	DryRun bool
	// DispatchOff: this pass may settle, stop and release but start no agent, because the workflow is
	// invalid, the schedule is dead, or a newer program owns the database.
	DispatchOff bool
	// Only confines the pass to one issue (its id); AnySlot lets that issue start although the slots are taken.
	Only    string
	AnySlot bool
	// TrackerLow: at the last answer less than a tenth of the tracker's allowance was left, and it has not filled up
	// since. The pass asks for running claims alone.
	TrackerLow bool
}

// concerns reports whether the pass may touch the issue.
func (o Options) concerns(issueID string) bool { return o.Only == "" || o.Only == issueID }

// Liveness is what a probe found of a run's processes.
type Liveness struct {
	Alive bool // the worker holds its alive file
	// Beats is the counter in the alive file, BeatAt the monotonic clock of the last beat; before the first, Beats is zero and
	// BeatAt the time at which the run was prepared. BeatAt is zero where it is not known.
	Beats   int64
	BeatAt  time.Duration
	Frozen  bool      // it holds the file, and its heartbeat stands still
	Unknown bool      // the probe failed, so that the run is left alone
	Left    []Process // processes of the run that live although its worker is dead
	Refused string    // the code for which a dead worker did not begin, or did not record its outcome; empty if none is known
}

// dead reports that no worker writes the run's row any more.
func (l Liveness) dead() bool { return !l.Alive && !l.Unknown }

// Process is one process that belongs to a run.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
	Name  string `json:"name"`
}

// Tracked is a full answer of the tracker.
type Tracked struct {
	Asked      map[string]bool // every id that was asked for; ByID those that came back
	ByID       map[string]Issue
	Candidates []Issue // in the tracker's order
	Fetched    bool    // the candidates were asked for; they are not where nothing could start
	Low        bool    // less than a tenth of the tracker's allowance is left, so nothing but claims was asked for
}

// Workspace is a recorded workspace of an issue.
type Workspace struct {
	IssueID, Identifier      string
	Key, Root, Path, Project string
	Unsaved                  string    // the work for which the last cleanup run left the workspace alone; empty for none
	UnsavedAt                time.Time // when it did
}

// Policy is the part of the configuration that decisions depend on (specification 5.3 and 6.4).
type Policy struct {
	Project        string // endpoint and slug of the tracker's project; claims of another are released
	ActiveStates   []string
	TerminalStates []string
	RequiredLabels []string
	Assignee       string // an email, an id, "me", or empty for any issue

	MaxConcurrent   int
	MaxByState      map[string]int // by normalised state
	MaxRetryBackoff time.Duration

	// The caps hold an issue when they are reached; 0 switches one off.
	MaxFailures int
	MaxIdleRuns int
	MaxRuns     int
	MaxTokens   int64

	WorkspaceRoot string        // the resolved root that new claims are made with
	StopGrace     time.Duration // how long a worker may take to end after it was asked to; at least 10 s
	MinFreeBytes  int64         // of the workspace volume below which nothing is dispatched
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

// Account is the state that all projects with the same codex home share, as a pass read it.
type Account struct {
	Home  string // the codex home, by which messages name the account
	Limit *Limit // a part of the account's allowance that is used up; nil where none is known
	// Block is a fault of login or allowance that a run of any project met; nil for none. Probing: a run that tests whether
	// the fault is over is alive.
	Block   *Block
	Probing bool
	// Over is when a limit or a block last ended, zero where that is not known. Faults of runs that began before are outdated.
	Over  time.Time
	Slots *Slots // nil where the live runs are not bounded, or where this pass has not asked for slots
}

// Limit is a window of the account's allowance that is used up.
type Limit struct {
	Window       string // codex's word: primary, secondary
	Since, Until time.Time
}

// Slots are the runs that SYMPHONY_MAX_AGENTS allows an account.
type Slots struct {
	Free  int // for this pass to use
	Taken int // by live runs, and by passes that are about to start runs
	Max   int
}

// MaxAgentsVar bounds the live runs of an account over all projects.
const MaxAgentsVar = "SYMPHONY_MAX_AGENTS"

// Text says what is used up and until when, in the time zone of now.
func (l Limit) Text(home string, now time.Time) string {
	until, layout := l.Until.In(now.Location()), "15:04"
	if y, m, d := now.Date(); !until.Before(time.Date(y, m, d+1, 0, 0, 0, 0, now.Location())) {
		layout = "2 Jan 15:04"
	}
	return fmt.Sprintf("codex's %s limit of %s is used up until %s", l.Window, home, until.Format(layout))
}

// ActionKind names what a pass does.
type ActionKind string

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

	Change       *Change // what is stored for the action; nil for stop and reap
	Probe        *Block  // the block of the account that this dispatch tests, nil for none
	Outcome      Outcome // to record for a dead run that recorded none
	Kill, GiveUp bool    // Kill: its worker lives and is killed first; GiveUp: it is settled although processes remain
}

// Gone is why a claim was released: a reason to stop, or to skip.
type Gone struct {
	Reason string
	State  string // of the issue; empty if the tracker was not asked or no longer returns it
}

// Change is one transaction of a pass: the claim, and everything that must be stored together with it.
type Change struct {
	Claim                               *Claim  // the new content, with the Version that it replaces (0 inserts); nil leaves claims alone
	Delete                              bool    // the claim is removed instead
	Gone                                *Gone   // why it was released
	Insert                              *Run    // the run that the claim now waits for
	Settle                              string  // the run that this change settles; its totals are added in the same transaction
	Commands                            []int64 // are deleted by the change
	AgentBlock, TrackerBlock, HostBlock *Block  // nil leaves a block alone; one without a code clears it
	Paused                              *bool   // nil where it stays as it is
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
	Skips   []Skip // nil where no candidates were fetched
	Waits   []Skip // due retries that can't start, with the reasons of skips
}

// starts reports whether the action starts a process that must outlive the pass.
func (a Action) starts() bool { return a.Kind == ActDispatch || a.Kind == ActRemoveWorkspace }
