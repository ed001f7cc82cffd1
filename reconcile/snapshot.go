package reconcile

import "time"

// Snapshot is everything that a plan depends on: the same Snapshot gives the same Plan.
type Snapshot struct {
	Options
	// State is what is stored. In a pass HostBlock is what the pass itself has found, nil where it has not checked.
	State
	Now    time.Time
	Boot   string        // boot id of this machine
	Mono   time.Duration // CLOCK_MONOTONIC
	Policy Policy
	// Account is the state that the projects of one codex home share.
	Account Account
	// Liveness says of every unsettled run what its worker is.
	Liveness map[string]Liveness
	// Tracker is the answer of the tracker; nil in the local half of a pass, or without an answer.
	Tracker *Tracked
	// Workspaces are the recorded ones under the present root.
	Workspaces []Workspace
	// SweepDue: the issues of unclaimed workspaces are refreshed in this pass. TrashDue: removed workspaces are deleted.
	SweepDue, TrashDue bool
	// FreeBytes of the workspace volume; negative where unknown.
	FreeBytes int64
}

// State is the stored half of a Snapshot.
type State struct {
	Claims   []Claim
	Runs     []Run // unsettled
	Commands []Command
	Paused   bool
	// The blocks are faults of the machine, nil when there is none.
	AgentBlock, TrackerBlock, HostBlock *Block
	// Tokens used by each claimed issue over all of its runs.
	Tokens    map[string]int64
	LastSweep time.Time
	// ReadOnly: the schema belongs to a newer program. This one settles and refreshes but dispatches nothing.
	ReadOnly bool
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
	// Alive: the worker holds its alive file.
	Alive bool
	// Beats is the counter in the alive file, BeatAt the monotonic clock of the last beat; before the first, Beats is zero and
	// BeatAt the time at which the run was prepared. BeatAt is zero where it is not known.
	Beats  int64
	BeatAt time.Duration
	// Frozen: it holds the file, and its heartbeat stands still.
	Frozen bool
	// Unknown: the probe failed. Such a run is left alone.
	Unknown bool
	// Pending: the row exists but its worker may still be starting.
	Pending bool
	// Left are processes of the run that live although its worker is dead.
	Left []Process
	// Refused is the code of the fault for which a dead worker did not begin its run or did not record its outcome; empty
	// if none is known.
	Refused string
}

// dead reports that no worker writes the run's row any more.
func (l Liveness) dead() bool { return !l.Alive && !l.Unknown && !l.Pending }

// Process is one process that belongs to a run.
type Process struct {
	PID   int
	Start uint64
	Name  string
}

// Tracked is a full answer of the tracker.
type Tracked struct {
	// Asked holds every id that was asked for, ByID those that came back.
	Asked map[string]bool
	ByID  map[string]Issue
	// Candidates in the tracker's order; Fetched is false where they were left out because nothing could start.
	Candidates []Issue
	Fetched    bool
	// Low: less than a tenth of the tracker's allowance is left, so nothing but claims was asked for.
	Low bool
}

// Workspace is a recorded workspace of an issue.
type Workspace struct {
	IssueID, Identifier      string
	Key, Root, Path, Project string
	// Unsaved is the work for which the last cleanup run left the workspace alone, at UnsavedAt; empty for none.
	Unsaved   string
	UnsavedAt time.Time
}
