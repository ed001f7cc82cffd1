package reconcile

import "time"

// Snapshot is everything that a plan depends on: the same Snapshot gives the same Plan.
type Snapshot struct {
	Now    time.Time
	Boot   string        // boot id of this machine
	Mono   time.Duration // CLOCK_MONOTONIC
	Policy Policy

	Claims   []Claim
	Runs     []Run // unsettled
	Commands []Command
	Paused   bool

	// AgentBlock and TrackerBlock are faults of the machine, nil when there is none.
	AgentBlock   *Block
	TrackerBlock *Block
	// Account is the state that the projects of one codex home share.
	Account Account
	// HostBlock says that a worker started now would end with the pass; nil where it would not, or where the pass has not
	// checked it.
	HostBlock *Block

	// Liveness says of every unsettled run what its worker is.
	Liveness map[string]Liveness

	// Tracker is the answer of the tracker; nil in the local half of a pass, or without an answer.
	Tracker *Tracked

	// Workspaces are the recorded ones under the present root.
	Workspaces []Workspace
	// SweepDue: the issues of unclaimed workspaces are refreshed in this pass.
	SweepDue bool
	// TrashDue: removed workspaces are deleted in this pass.
	TrashDue bool
	// FreeBytes of the workspace volume; negative where unknown.
	FreeBytes int64

	// Tokens used by each claimed issue over all of its runs.
	Tokens map[string]int64

	// DispatchOff: this pass may settle, stop and release but start no agent, because the workflow is
	// invalid, the schedule is dead, or a newer program owns the database.
	DispatchOff bool
	// Only confines the pass to one issue (its id); AnySlot lets that issue start although the slots are taken.
	Only    string
	AnySlot bool
}

// Liveness is what a probe found of a run's processes.
type Liveness struct {
	// Alive: the worker holds its alive file.
	Alive bool
	// Beats is the counter in the alive file, BeatAt the monotonic clock of the last beat; zero before the first.
	Beats  int64
	BeatAt time.Duration
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
	IssueID    string
	Identifier string
	Key        string
	Root       string
	Path       string
	Project    string
	// Unsaved is the work for which the last cleanup run left the workspace alone, at UnsavedAt; empty for none.
	Unsaved   string
	UnsavedAt time.Time
}
