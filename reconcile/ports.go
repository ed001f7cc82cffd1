package reconcile

import (
	"context"
	"errors"
	"time"
)

// ErrConflict: the row is no longer what the pass read. Nothing was written.
var ErrConflict = errors.New("changed meanwhile")

// State is the stored half of a Snapshot.
type State struct {
	Claims       []Claim
	Runs         []Run // unsettled
	Commands     []Command
	Paused       bool
	AgentBlock   *Block
	TrackerBlock *Block
	HostBlock    *Block
	Tokens       map[string]int64 // by issue id, of claimed issues
	LastSweep    time.Time
	// ReadOnly: a newer program owns the schema; this one settles and refreshes but dispatches nothing.
	ReadOnly bool
	// Others are the claims that a pass confined to one issue need not know: they are not among Claims, and do not run.
	Others OtherCounts
}

// OtherCounts counts claims.
type OtherCounts struct {
	Waiting, Held int
	NextDue       time.Time // the earliest due time of those that wait, zero if none does
}

// Store is what a pass needs of the database. All times are UTC, stored to the millisecond.
type Store interface {
	// State reads everything a plan needs in one consistent view; for a pass that is confined to one issue it may leave
	// others out and count them.
	State(ctx context.Context) (State, error)
	// Commit makes the changes, in order, in one durable transaction, or returns an error and changes nothing; it wraps
	// ErrConflict where somebody else was first.
	Commit(ctx context.Context, now time.Time, changes ...Change) error
	// RequestStop sets the stop reason of a run without outcome and stop reason; others are left as they are.
	RequestStop(ctx context.Context, runID, reason string, at Instant) error
	// RecordHeartbeat remembers a counter that a pass has seen for the first time. It need not be durable.
	RecordHeartbeat(ctx context.Context, runID string, beats int64, at Instant) error
	// ReapFailed counts a pass that could not end what a dead run left.
	ReapFailed(ctx context.Context, runID string) error
	// EndDead records the outcome of a run whose worker is dead. The caller holds the run's alive file
	// exclusively. A run that has an outcome already, or changed its phase, gives ErrConflict.
	EndDead(ctx context.Context, now time.Time, run Run, outcome Outcome, code, message string) error
	// SaveSkips replaces the skips by those of this pass.
	SaveSkips(ctx context.Context, now time.Time, skips []Skip) error
	// SaveSweep remembers when workspaces of unclaimed issues were last refreshed.
	SaveSweep(ctx context.Context, now time.Time) error
}

// Tracker reads issues (specification 11.1). Its errors are *Error.
type Tracker interface {
	// ByIDs returns full records of the issues that are still visible, archived ones included, with the
	// time of their newest comment. A malformed record fails the call. No request for no ids.
	ByIDs(ctx context.Context, ids []string) (map[string]Issue, error)
	// Candidates returns the project's issues in the given states, in the tracker's order. Malformed
	// records are left out and logged.
	Candidates(ctx context.Context, states []string) ([]Issue, error)
	// Low reports whether less than a tenth of the allowance was left at the last answer.
	Low() bool
}

// Runners is what a pass needs of processes and workspaces.
type Runners interface {
	// Probe says what is left of a run. It never creates anything.
	Probe(ctx context.Context, run Run) Liveness
	// Prepare writes the run's directory and syncs it. It comes before the run's row.
	Prepare(ctx context.Context, run Run) error
	// Start starts the run's worker detached; it returns when the worker has taken the run or refused it,
	// within 5 s. The run's row exists already.
	Start(ctx context.Context, run Run) error
	// Stop asks the run's worker to end and waits for that, at most for the time that ctx leaves. A worker
	// that takes longer is no error.
	Stop(ctx context.Context, run Run) error
	// Kill ends a worker that lives but can't be asked any more, with its whole tree.
	Kill(ctx context.Context, run Run) error
	// Reap ends what is left of a dead worker's tree, then, holding the run's alive file exclusively, calls
	// record with what could not be ended, and returns that too.
	Reap(ctx context.Context, run Run, record func(left []Process) error) (left []Process, err error)
	// Workspaces lists the recorded workspaces, FreeBytes of their volume (negative: unknown).
	Workspaces(ctx context.Context) ([]Workspace, error)
	// TrashDue reports whether removed workspaces have been kept for their time, or must go earlier because
	// space is short.
	TrashDue(now time.Time, free, wanted int64) (bool, error)
	FreeBytes() int64
}
