package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrConflict: the row has changed since the pass read it. Nothing was written.
var ErrConflict = errors.New("changed meanwhile")

// Deps are the values and interfaces that a pass works with.
type Deps struct {
	Policy   Policy
	Store    Store
	Tracker  *TrackerAdapter // nil where the configuration gives no way to ask
	Runners  Runners
	Accounts Accounts // nil where the project shares nothing with others
	Now      func() time.Time
	Mono     func() time.Duration // CLOCK_MONOTONIC
	Sleep    func(time.Duration)
	Boot     string // boot id of this machine
	// CheckHost says why a worker started now would end together with the pass; nil where that can't happen. Only a pass
	// that has something to start calls it.
	CheckHost func(ctx context.Context) error
	NewRunID  func() string // gives ids that sort by time
}

// Store is the interface of a pass to the database. All times are UTC, stored to the millisecond.
type Store interface {
	// State reads everything that a plan needs in one consistent view.
	State(ctx context.Context) (State, error)
	// Commit makes the changes, in order, in one durable transaction, or returns an error and changes nothing; it wraps
	// ErrConflict where another process was first.
	Commit(ctx context.Context, now time.Time, changes ...Change) error
	// RequestStop sets the stop reason of a run without outcome and stop reason; others are left as they are.
	RequestStop(ctx context.Context, runID, reason string, at Instant) error
	// ReapFailed counts a pass that could not end the remaining processes of a dead run.
	ReapFailed(ctx context.Context, runID string) error
	// EndDead records the outcome of a run whose worker is dead. The caller holds the run's alive file
	// exclusively. A run that has an outcome already, or changed its phase, gives ErrConflict.
	EndDead(ctx context.Context, now time.Time, run Run, outcome Outcome, code, message string) error
	// SaveSkips replaces the skips by those of this pass.
	SaveSkips(ctx context.Context, now time.Time, skips []Skip) error
	// SaveSweep stores when workspaces of unclaimed issues were last refreshed.
	SaveSweep(ctx context.Context, now time.Time) error
}

// Tracker reads issues (specification 11.1). Its errors are *Error of ClassTracker.
type Tracker interface {
	// Candidates returns the project's issues in the given states, in the tracker's order. A record that is no issue
	// has the reason in Malformed.
	Candidates(ctx context.Context, states []string) ([]Issue, error)
	// ByIDs returns full records of the issues that are still visible, archived ones included, with the
	// time of their newest comment. A malformed record fails the call. No request for no ids.
	ByIDs(ctx context.Context, ids []string) (map[string]Issue, error)
}

// TrackerAdapter is a tracker and what else it offers. A field is nil or empty where a tracker has nothing of the kind.
type TrackerAdapter struct {
	Tracker
	Name string // what people call the tracker, for messages
	// Find returns the issue with an identifier or id. The error has the code issue_not_found where there is none.
	Find     func(ctx context.Context, identifier string) (*Issue, error)
	Comments func(ctx context.Context, issueID string, since time.Time) ([]Comment, error) // those made after since, the newest first
	// Verify checks that the names of a workflow exist. An error that wraps ErrRejected says no more than that the tracker
	// does not answer this question.
	Verify  func(ctx context.Context, names TrackerNames) (TrackerFindings, error)
	Budget  func() Budget // the allowance of requests after the last answer
	Tool    *AgentTool    // the agent's access to the tracker
	Secrets []string      // the values that no log, event or message may contain
}

// ErrRejected is in the chain of an error where the tracker accepted the key but not the request.
var ErrRejected = errors.New("the tracker rejected the request")

// Limited is implemented by errors of a tracker that say when the next request may be made.
type Limited interface{ ResetAt() time.Time }

// Low reports whether less than a tenth of the allowance was left at the last answer and has not been renewed since.
func (t *TrackerAdapter) Low(now time.Time) bool {
	return t.Budget != nil && now.Before(t.Budget().LowUntil())
}

// Budget is what a tracker said with its last answer about the requests that it still accepts.
type Budget struct {
	Left           float64   // the share that is left of the scarcest allowance, 0 to 1; 1 where the tracker does not say
	Reset          time.Time // when that allowance is renewed; zero where the tracker does not say
	At, ServerTime time.Time // of the answer, by this machine and by the tracker; zero before the first
}

// LowUntil is when a budget of less than a tenth will be renewed, an hour after the answer where the tracker does not
// say; zero where more is left.
func (b Budget) LowUntil() time.Time {
	if b.At.IsZero() || b.Left >= 0.1 {
		return time.Time{}
	}
	return cmp.Or(b.Reset, b.At.Add(time.Hour))
}

// TrackerNames are the names in a workflow that a tracker can look up. Empty ones are not looked up.
type TrackerNames struct {
	States, Labels []string
	Assignee       string
}

// TrackerFindings are the names that do not exist, and where they were looked for.
type TrackerFindings struct {
	Project        TrackerProject
	User           string        // the name of the user whose key is used
	States, Labels []UnknownName // states that the project lacks, labels that exist nowhere
	Assignee       *UnknownName  // nil where the assignee exists or none was looked up
}

// TrackerProject names a project. Slug is its value of tracker.project_slug.
type TrackerProject struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Slug string `json:"slugId"`
	URL  string `json:"url"`
}

// UnknownName is a name that does not exist, with up to three similar ones that do.
type UnknownName struct {
	Name    string
	Nearest []string
}

// String is the name in quotes, with a suggestion: `"Tood" (did you mean "Todo"?)`.
func (u UnknownName) String() string {
	if len(u.Nearest) == 0 {
		return fmt.Sprintf("%q", u.Name)
	}
	return fmt.Sprintf("%q (did you mean %q?)", u.Name, u.Nearest[0])
}

// AgentTool is a tool that the agent may call in the worker (specification 10.5).
type AgentTool struct {
	Name         string
	Description  string
	InputSchema  json.RawMessage
	Call         func(ctx context.Context, args json.RawMessage) ToolAnswer
	ChangesIssue func(args json.RawMessage) bool // not only reads or comments
}

// ToolAnswer is what the agent reads as the result of a call, and what the run records of it.
type ToolAnswer struct {
	Text     string
	Success  bool
	Mutation *Mutation // nil where nothing was to be changed
}

// TrackerSetup is how init connects a project to a tracker before there is a workflow.
type TrackerSetup struct {
	Name        string // of the tracker
	Endpoint    string // the default of tracker.endpoint
	KeyQuestion string // asks for the key, and says where to find it
	// Connect returns what the key sees. The error is for messages; RefusedKey tells whether another key may help.
	Connect    func(ctx context.Context, endpoint, key string) (TrackerAccount, error)
	RefusedKey func(error) bool
}

// TrackerAccount is what a key has access to.
type TrackerAccount struct {
	User     string           // the name of the key's user
	Projects []TrackerProject // the one that changed last first; 500 at most
	// Project reads one project, by its slug or URL, and whether a label exists.
	Project func(ctx context.Context, slug, label string) (TrackerBoard, error)
}

// TrackerBoard is what init has to know of a project.
type TrackerBoard struct {
	TrackerProject
	Setting     string         // what to write as tracker.project_slug: the URL if it says more to a reader, else the slug
	IssuePrefix string         // what the identifiers of its issues begin with, such as ABC in ABC-1; empty if unknown
	States      []TrackerState // in the order in which an issue passes through them, each name once
	HasLabel    bool
}

// TrackerState is a state of issues.
type TrackerState struct {
	Name string
	Kind StateKind // waiting, started or ended; empty for states before work is planned
}

// StateKind is the part that a state plays in the life of an issue.
type StateKind string

const (
	StateWaiting StateKind = "waiting"
	StateStarted StateKind = "started"
	StateEnded   StateKind = "ended"
)

// State finds a state by its name, without regard to case.
func (b TrackerBoard) State(name string) (TrackerState, bool) {
	i := slices.IndexFunc(b.States, func(s TrackerState) bool { return NormalizeState(s.Name) == NormalizeState(name) })
	if i < 0 {
		return TrackerState{}, false
	}
	return b.States[i], true
}

// Runners is the interface of a pass to processes and workspaces.
type Runners interface {
	// Probe finds the worker and the remaining processes of a run. It never creates anything.
	Probe(ctx context.Context, run Run) Liveness
	// Prepare writes the run's directory and syncs it. It comes before the run's row.
	Prepare(ctx context.Context, run Run) error
	// Start starts the run's worker detached. It returns within 5 s, when the worker has taken the run or refused it.
	Start(ctx context.Context, run Run) error
	// Stop asks the run's worker to end and waits for that until ctx ends. A worker that takes longer is no error.
	Stop(ctx context.Context, run Run) error
	// Kill ends a worker that lives but no longer reacts, with all its processes.
	Kill(ctx context.Context, run Run) error
	// Reap ends the remaining processes of a dead worker. Then it calls record, while it holds the run's alive file
	// exclusively, with the processes that it could not end, and returns them too.
	Reap(ctx context.Context, run Run, record func(left []Process) error) (left []Process, err error)
	// Workspaces lists the recorded workspaces, FreeBytes of their volume (negative: unknown).
	Workspaces(ctx context.Context) ([]Workspace, error)
	// TrashDue reports whether removed workspaces have been kept for their time, or must go earlier because space is short.
	TrashDue(now time.Time, free, wanted int64) (bool, error)
	FreeBytes() int64
}

// Accounts is the interface of a pass to the account.
type Accounts interface {
	// Look reads the state. An account whose state can't be read counts as one without faults.
	Look(ctx context.Context, now time.Time) Account
	// TakeSlots reserves free slots for the workers that this pass starts, at most want in all, and returns what the pass
	// has; a dry run only counts. Nil: the number of runs is not bounded.
	TakeSlots(ctx context.Context, want int, dryRun bool) (*Slots, error)
	Release() // gives back the slots that were not used
	// Probe records that the run, which is stored next, tests whether the block is over. If another project was first, or
	// the block is over, the error wraps ErrConflict and nothing was written. The record has the time of the run's start,
	// so that the run counts as started under the block.
	Probe(ctx context.Context, b Block, run Run) error
}
