package reconcile

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Snapshot is everything that a plan depends on: the same Snapshot gives the same Plan.
type Snapshot struct {
	Options
	// State is the content of the database, except for MachineBlock, which is the fault that
	// this pass found, nil if it did not check.
	State
	Now    time.Time
	Boot   string        // boot id of this machine
	Mono   time.Duration // CLOCK_MONOTONIC
	Policy Policy
	// Accounts are the accounts of the policy's agents, those that are known. Slots are nil if
	// the number of live runs is not bounded, or if this pass did not ask for slots.
	Accounts []Account
	Slots    *Slots
	Claimed  Claimed             // issues that others have
	Refused  map[string]string   // why the remote refused the claims of issues lately, by their ids
	Got      map[string]bool     // the only issues that may start, by their ids; nil for no such limit
	Liveness map[string]Liveness // of every unsettled run, by its id
	// the tracker's answer; nil in the local half of a pass, or if there is none
	Tracker    *Tracked
	Workspaces []Workspace // the recorded workspaces under the current root
	SweepDue   bool        // this pass refreshes the issues of unclaimed workspaces
	ReviewsDue bool        // this pass refreshes the issues that wait for a review
	TrashDue   bool        // this pass deletes removed workspaces
	// the use of runs on this day of UTC; not read without a budget
	Today     []ModelUse
	FreeBytes int64 // free space of the workspace volume; negative if unknown
}

// undelivered reports whether commits of the claim's runs must be pushed or verified, or its
// issue handed over, before a run may start or the claim may be released.
func (s *Snapshot) undelivered(c Claim) bool {
	if !c.Delivery.Due || c.Delivery.WaitsForAgent {
		return false
	}
	return s.Policy.Deliver || c.Delivery.Handover.Waits()
}

// State is the stored half of a Snapshot.
type State struct {
	Claims   []Claim
	Runs     []Run // unsettled
	Commands []Command
	Paused   bool
	// faults of the machine, nil if there is none
	AgentBlock, TrackerBlock, MachineBlock *Block
	RemoteBlocks                           map[string]Block // faults of the hosts of runs
	// on the hosts of runs, oldest first, in the state that a run saw last
	RemoteWorkspaces []Workspace
	// used by each claimed issue over all of its runs
	Tokens    map[string]int64
	LastSweep time.Time
	// Reviews are the issues that wait for a person's review. LastReviews is when a pass last
	// asked the tracker for them.
	Reviews     []InReview
	LastReviews time.Time
	// when an operator or a changed workflow last ended the blocks; zero for never
	Unblocked time.Time
}

// InReview is an issue that was handed over in a state and waits for a person's review.
type InReview struct{ IssueID, State string }

// Options limit a pass.
type Options struct {
	DryRun bool // plan, but change nothing
	// DispatchOff: start no agent, because the workflow is invalid or the schedule is dead.
	// The pass still settles, stops and releases.
	DispatchOff bool
	// Only confines the pass to the issues with these ids; empty for all. AtOnce lets them
	// start even if all slots are taken, they wait for a retry, or a block waits for its next
	// try.
	Only   []string
	AtOnce bool
}

// concerns reports whether the pass may touch the issue.
func (o Options) concerns(issueID string) bool { return o.all() || slices.Contains(o.Only, issueID) }

// all reports whether the pass may touch every issue.
func (o Options) all() bool { return len(o.Only) == 0 }

// atOnce reports whether an operator asked for a run of the issue now.
func (o Options) atOnce(issueID string) bool { return o.AtOnce && slices.Contains(o.Only, issueID) }

// Liveness is the result of a probe of a run's processes.
type Liveness struct {
	Alive bool // the worker holds the lock on its alive file
	// Beats is the number of heartbeats, BeatAt the monotonic time of the last heartbeat.
	// Before the first heartbeat BeatAt is the time at which the run was prepared. BeatAt is
	// zero if unknown.
	Beats   int64
	BeatAt  time.Duration
	Frozen  bool      // the worker is alive but its heartbeat stopped
	Unknown bool      // the probe failed or was not made: nothing is done about the run
	Left    []Process // processes of the run that outlived its worker
	// the error code because of which a dead worker did not begin, or did not record its
	// outcome; empty if unknown
	Fault string
}

// dead reports whether no worker can write the run's row any more.
func (l Liveness) dead() bool { return !l.Alive && !l.Unknown }

// Process is a process that belongs to a run.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
	Name  string `json:"name"`
}

// Tracked is the tracker's answer in this pass.
type Tracked struct {
	Refreshed  map[string]bool  // the ids of the issues for which the refresh asked
	ByID       map[string]Issue // the refreshed issues that the tracker returned
	Candidates []Issue          // in the tracker's order
	Fetched    bool             // the candidates were read; they are not if nothing could start
}

// Workspace is a recorded workspace of an issue.
type Workspace struct {
	IssueID, Identifier      string
	Key, Root, Path, Project string
	Host                     string // the machine where it is; empty for this machine
	Abandoned                bool   // an operator said that the host is gone
	// the unsaved work for which the last cleanup run kept the workspace; empty if there was
	// none
	Unsaved   string
	UnsavedAt time.Time // when that run found it
	KeptSince time.Time // when the first such run since the last agent's found it
	// an operator brought it back from the trash, and no run used it since
	Restored bool
}

// Where is the path of the workspace, after the name of its host if that is another machine.
func (w Workspace) Where() string {
	if w.Host == "" {
		return w.Path
	}
	return w.Host + ":" + w.Path
}

// WorkspaceWhere is the path of the run's workspace, as Workspace.Where writes it.
func (r Run) WorkspaceWhere() string {
	return Workspace{
		Host: r.Host,
		Path: r.WorkspacePath,
	}.Where()
}

// KeptText explains why the workspace is kept, and the next step.
func (w Workspace) KeptText() string {
	if w.Host != "" {
		return fmt.Sprintf("kept: %s, in %s; push or copy it, or remove it there", w.Unsaved, w.Where())
	}
	return fmt.Sprintf(
		"kept: %s, in %s; push or copy it, or discard it with symphony prune --force %s",
		w.Unsaved,
		w.Where(),
		w.Identifier,
	)
}

// Policy is the part of the configuration that decisions depend on (specification 5.3 and
// 6.4).
type Policy struct {
	// endpoint and slug of the tracker's project; claims of other projects are released
	Project        string
	ActiveStates   []string
	TerminalStates []string
	// normalised: an issue in these states is not begun while another blocks it
	WaitingStates  []string
	RequiredLabels []string
	Assignee       string // an email, an id, "me", or empty for any issue

	MaxConcurrent   int
	MaxByState      map[string]int // by normalised state
	MaxRetryBackoff time.Duration

	// An issue that reaches any of these caps is held; 0 disables a cap.
	MaxFailures int
	MaxIdleRuns int
	MaxRuns     int
	MaxTokens   int64

	DailyBudget DailyBudget // nothing is started once the runs of a day have used it up

	WorkspaceRoot string // the resolved root for new claims
	Deliver       bool   // commits of runs are pushed to the repository of the workflow
	// how long a worker may take to end after a stop was requested; 10 s is the minimum
	StopGrace    time.Duration
	MinFreeBytes int64 // nothing is dispatched if less space is free on the workspace volume

	// Agents are the agents that may work on issues, in order: the first is the normal one,
	// each other takes over while the accounts before it can't be used. AgentsByLabel replace
	// them for the issues of a label.
	Agents        []Agent
	AgentsByLabel []LabelAgents

	// Hosts are the machines on which runs work, none for this machine. MaxPerHost is the
	// number of agents that each may run at once, 0 for any. LostAfter is how long a run works
	// without a link to its worker; then its host ends it.
	Hosts      []string
	RemoteRoot string // of the workspaces there; it may begin with ~
	MaxPerHost int
	LostAfter  time.Duration
}

// Active reports whether agents work on issues in this state: it is active and not terminal.
func (p Policy) Active(state string) bool {
	return contains(p.ActiveStates, state) && !p.Terminal(state)
}

// Terminal reports whether an issue in this state is done.
func (p Policy) Terminal(state string) bool { return contains(p.TerminalStates, state) }

// Labelled reports whether the issue carries every required label.
func (p Policy) Labelled(i Issue) bool {
	return len(p.MissingLabels(i)) == 0
}

// MissingLabels are the required labels that an issue does not carry.
func (p Policy) MissingLabels(i Issue) (missing []string) {
	for _, want := range p.RequiredLabels {
		if !slices.Contains(i.Labels, strings.ToLower(strings.TrimSpace(want))) {
			missing = append(missing, want)
		}
	}
	return missing
}

// Ours reports whether the issue is assigned as tracker.assignee requires.
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
	return slices.ContainsFunc(states, func(s string) bool { return SameState(s, state) })
}

// ActionKind is the kind of an action of a pass.
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
	ActDeliver         ActionKind = "deliver"
	ActEnd             ActionKind = "end" // a run whose worker died, on its host
	// stores a change that needs no report, such as an issue's new record
	actUpdate ActionKind = "update"
)

// Action is a step of a plan. It is stored before it takes effect and may be repeated without
// harm.
type Action struct {
	Kind                ActionKind
	IssueID, Identifier string
	// the run concerned; the id of a dispatched run is assigned when the plan is applied
	RunID        string
	Reason       string // a code
	Message      string // for people
	Title, State string // of the issue, as last seen; empty if the record is unknown
	StateMeant   string // Issue.StateMeant, as last seen
	Archived     bool   // the issue, as last seen
	// of the run that RunID names; empty for a run that this action starts
	RunKind RunKind
	// StoppedBy is why a run was stopped, such as StopOperator, if it ended only for that
	// reason: then Message adds nothing. It is empty for other actions than a settle.
	StoppedBy string

	Change *Change // the change to store for the action; nil for a reap and for most stops
	// the block of the account that this dispatch tests, with a zero NextTry if an operator
	// asked for it; nil for none
	Probe   *Block
	Outcome Outcome // the outcome that a reap records for a dead run that recorded none
	Kill    bool    // of a reap: the worker is alive and is killed first
	GiveUp  bool    // of a reap: the run is settled even if processes remain
}

// Release is the reason why a claim was released.
type Release struct {
	Reason string // a reason to stop, or to skip
	// the issue's state; empty if the tracker was not asked or no longer returns the issue
	State    string
	Archived bool // the issue was archived, in whatever state
}

// Change is a transaction of a pass: the claim, and everything that must be stored together
// with it.
type Change struct {
	// the new content, with the Version that it replaces (0 inserts); nil leaves claims alone
	Claim   *Claim
	Delete  bool     // the claim is deleted instead
	Release *Release // why a deleted claim was released
	Insert  *Run     // a new run, which the claim now waits for
	// the id of the run to settle; its totals are added in the same transaction
	Settle   string
	Commands []int64 // the ids of the commands to delete
	// nil keeps a block; a block without a code clears it
	AgentBlock, TrackerBlock, MachineBlock *Block
	Paused                                 *bool     // nil keeps the pause as it is
	Unblocked                              time.Time // the new State.Unblocked; zero keeps it
	// RemoteBlocks are new blocks of hosts. A Block without a code ends the block of its host.
	RemoteBlocks map[string]Block
	HostGone     string // the id of a run that counts as ended on its host
	Abandon      string // the id of an issue whose workspaces on hosts count as abandoned
	Watch        *Watch // the state of a pull request; nil keeps the stored state
	Reviewed     string // the id of an issue that no longer waits for a review
	// ForgetWork is the id of an issue that another machine has: what was delivered for it last, and
	// what its pull request waits for, is known there from now on.
	ForgetWork string
}

// Empty reports whether the change changes nothing.
func (c Change) Empty() bool { return reflect.ValueOf(c).IsZero() }

// String is the line that symphony tick -v prints for the action.
func (a Action) String() string {
	line := string(a.Kind)
	for _, part := range [][2]string{
		{" ", a.Identifier},
		{" run=", a.RunID},
		{" reason=", a.Reason},
		{": ", a.Message},
	} {
		if part[1] != "" {
			line += part[0] + part[1]
		}
	}
	return line
}

func (a Action) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("action", string(a.Kind)), slog.String("issue_id", a.IssueID),
		slog.String("issue_identifier", a.Identifier), slog.String("run_id", a.RunID),
		slog.String("reason", a.Reason))
}

// Skip is the reason why a candidate or a due retry is not started.
type Skip struct {
	IssueID    string   `json:"issue_id"`
	Identifier string   `json:"issue_identifier"`
	Reason     string   `json:"reason"` // a code, see the Skip constants
	Message    string   `json:"message"`
	Title      string   `json:"title"` // of the issue; empty where only its record is known
	URL        string   `json:"url"`   // the same
	Labels     []string `json:"-"`
	// the name of a label, an assignee, a blocker or a pull request; empty for other reasons
	Subject string `json:"-"`
	// what a person has to do first, such as "create WEB-9, or remove it from the dependencies of
	// WEB-1"; empty where the reason may end without that
	Mend string `json:"-"`
	// in the queue for a slot, from 1 on; 0 if the issue does not wait for a slot
	Place int `json:"place"`
}

// The reasons of a skip.
const (
	SkipBlockedBy = "blocked_by"
	SkipMalformed = "malformed"
	// its state is none of the workflow's, and seems to be a misspelt active state
	SkipUnknownState = "unknown_state"
	// the record of an issue that is running or held; its work goes on as before
	SkipUnreadable = "unreadable"
	SkipElsewhere  = "elsewhere"
	// the remote refuses the claim of this issue
	SkipClaimRefused  = "claims_refused"
	SkipNoSlot        = "no_slot"
	SkipNoSlotInState = "no_slot_in_state"
	SkipLabel         = "label"
	SkipAssignee      = "assignee"
	SkipPaused        = "paused"
	SkipBlocked       = "blocked"
	SkipRateLimited   = "rate_limited"
	SkipDiskLow       = "disk_low"
	SkipBudget        = "budget"
	SkipWorkspaceBusy = "workspace_busy"
	SkipUnverified    = "unverified"
	SkipUnsavedWork   = "unsaved_work"
	SkipPullRequest   = "pull_request_open"
	// a person sent the issue back to an agent, and no pass has looked for issues since
	SkipSentBack = "sent_back"
)

// Obstacle is why a pass starts no run, whatever the issue.
type Obstacle struct {
	Reason  string    // a Skip constant, or the code of an error of the pass
	Message string    // for people
	Until   time.Time // when it ends, or is tested again; zero if that is not a matter of time
	Tester  string    // the issue whose run tests whether it is over, empty for none
}

// NothingStarts is the consequence of an obstacle, in all views and notifications.
const NothingStarts = "nothing new starts"

// NothingStartsOn is the consequence of an obstacle on a machine.
func NothingStartsOn(host string) string { return NothingStarts + " on " + host }

// DiskLowText says that too little space is free for workspaces.
func DiskLowText(root string, free, least int64) string {
	return fmt.Sprintf("%s has %s free, less than workspace.min_free_bytes (%s)",
		root, diskSize(free), diskSize(least))
}

// diskSize formats the size of a part of a disk, such as 53.6 GiB.
func diskSize(bytes int64) string {
	size := float64(bytes) / (1 << 20)
	unit := "MiB"
	for _, larger := range []string{"GiB", "TiB"} {
		if size < 1023.95 { // what is printed as 1024.0 is 1.0 of the next unit
			break
		}
		size /= 1024
		unit = larger
	}
	return fmt.Sprintf("%.1f %s", size, unit)
}

// Plan lists the actions of a pass, in order.
type Plan struct {
	Actions  []Action
	Skips    []Skip    // candidates that are not started; nil if the candidates were not read
	Waits    []Skip    // due retries that are not started
	Obstacle *Obstacle // nil if runs are started, or if nothing keeps all issues from starting
}

// starts reports whether the action starts a process that must outlive the pass.
func (a Action) starts() bool {
	return a.Kind == ActDispatch || a.Kind == ActRemoveWorkspace || a.Kind == ActDeliver || a.Kind == ActEnd
}
