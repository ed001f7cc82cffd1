package reconcile

import "time"

// Snapshot is all that a plan depends on. Nothing outside it may matter: the same Snapshot gives the same Plan.
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
	// Account is what the projects of one codex home share.
	Account Account
	// HostBlock says that a worker started now would end with the pass; nil where it would not, and where nobody
	// has asked in this pass.
	HostBlock *Block

	// Liveness says of every unsettled run what its worker is.
	Liveness map[string]Liveness

	// Tracker is what the tracker said; nil in the local half of a pass, or when it did not answer.
	Tracker *Tracked

	// Workspaces are the recorded ones under the present root.
	Workspaces []Workspace
	// SweepDue says that workspaces of unclaimed issues were refreshed in this pass.
	SweepDue bool
	// TrashDue says that removed workspaces are to be deleted now.
	TrashDue bool
	// FreeBytes of the workspace volume; negative where unknown.
	FreeBytes int64

	// Tokens used by each claimed issue over all of its runs.
	Tokens map[string]int64

	// DispatchOff says that this pass may settle, stop and release but start no agent: the workflow is
	// invalid, the schedule is dead, or a newer program owns the database.
	DispatchOff bool
	// Only confines the pass to one issue (its id); AnySlot lets that issue start although the slots are taken.
	Only    string
	AnySlot bool
}

// Liveness is what is left of a run's processes.
type Liveness struct {
	// Alive: the worker holds its alive file.
	Alive bool
	// Beats is the counter in the alive file, BeatAt the monotonic clock of the last beat; zero before the first.
	Beats  int64
	BeatAt time.Duration
	// Unknown: it could not be found out; such a run is left alone.
	Unknown bool
	// Pending: the row exists but its worker may still be starting.
	Pending bool
	// Left lists processes of the run that live although its worker is dead.
	Left []Process
	// Refused is the code of the machine's fault for which a dead worker did not begin its run, or did not record its
	// outcome; empty if none is known.
	Refused string
}

// dead: no worker writes the run's row any more.
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
