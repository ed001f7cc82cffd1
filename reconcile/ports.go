package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrConflict means that a row changed since the pass read it. Nothing was written.
var ErrConflict = errors.New("changed by another process")

// Deps are the dependencies of a pass.
type Deps struct {
	Policy   Policy
	Store    Store
	Tracker  *TrackerAdapter // nil if the tracker cannot be asked
	Runners  Runners
	Accounts Accounts // nil if the project shares no account
	// Claims are asked in order before a run starts; empty if nobody else can have the same issues.
	Claims []IssueClaims
	Now    func() time.Time
	Mono   func() time.Duration // CLOCK_MONOTONIC
	Sleep  func(time.Duration)
	Boot   string // boot id of this machine
	// CheckMachine returns an error if a worker started now would end together with the pass.
	// It is called only if there is something to start, and is nil where workers cannot end
	// so.
	CheckMachine func(ctx context.Context) error
	NewRunID     func() string // returns ids that sort by time
}

// Store is the database, as a pass uses it. All times are UTC, stored to the millisecond.
type Store interface {
	// State reads everything that a plan needs in a single consistent view.
	State(ctx context.Context) (State, error)
	// UsedOn returns the use of runs so far, including runs at work, on the day of UTC of a
	// time, by model.
	UsedOn(ctx context.Context, at time.Time) ([]ModelUse, error)
	// Commit makes the changes, in order, in a single durable transaction. After an error
	// nothing was changed; the error wraps ErrConflict if another process changed a row first.
	Commit(ctx context.Context, now time.Time, changes ...Change) error
	// RequestStop sets the stop reason of a run with neither an outcome nor a stop reason;
	// other runs stay as they are.
	RequestStop(ctx context.Context, runID, reason string, at Instant) error
	// ReapFailed counts a pass that could not end the remaining processes of a dead run.
	ReapFailed(ctx context.Context, runID string) error
	// EndDead records the outcome of a run whose worker is dead. The caller holds the lock on
	// the run's alive file. The error is ErrConflict if the run already ended with an outcome,
	// or is in another phase.
	EndDead(ctx context.Context, now time.Time, run Run, outcome Outcome, code, message string) error
	// SaveSkips replaces the stored skips by the skips of this pass, and by the claims that
	// wait for a slot.
	SaveSkips(ctx context.Context, now time.Time, skips []Skip) error
	// SavePullRequests stores the pull requests of issues. Each issue must have a pull
	// request.
	SavePullRequests(ctx context.Context, now time.Time, issues []Issue) error
	// SaveSweep stores when the issues of unclaimed workspaces were last refreshed.
	SaveSweep(ctx context.Context, now time.Time) error
	// SaveReviews stores when the issues that wait for a review were last refreshed.
	SaveReviews(ctx context.Context, now time.Time) error
}

// Tracker reads issues (specification 11.1). Its errors are *Error of ClassTracker.
type Tracker interface {
	// Candidates returns the project's issues in the given states, in the tracker's order.
	// Malformed is the fault of a record that is no issue.
	Candidates(ctx context.Context, states []string) ([]Issue, error)
	// ByIDs returns the full records of the issues that are still visible, including archived
	// issues, with the time of their newest comment. A malformed record fails the call, or is
	// returned with its fault: then the rest of it is not known. Without ids no request is
	// made. The error CodeTrackerEmpty means that no issue is left in the tracker.
	ByIDs(ctx context.Context, ids []string) (map[string]Issue, error)
}

// TrackerAdapter is a tracker with its optional abilities. A field is nil or empty if the
// tracker lacks the ability.
type TrackerAdapter struct {
	Tracker
	Name string // the tracker's usual name, for messages
	// Find returns the issue with an identifier or id. The code of the error is
	// issue_not_found if there is none.
	Find func(ctx context.Context, identifier string) (*Issue, error)
	// Expect names issues whose present state the next Candidates have to know, although the index of
	// the tracker may lag behind: an issue in review that a person has just sent back. Nil: there is
	// no such index.
	Expect func(ids []string)
	// Comments returns the comments made after since, the newest first.
	Comments func(ctx context.Context, issueID string, since time.Time) ([]Comment, error)
	// LastComments returns the times of the newest comments of issues, by id. It is nil for a
	// tracker that reads them with the issues.
	LastComments func(ctx context.Context, ids []string) (map[string]time.Time, error)
	// Post comments on an issue, and Edit replaces the text of such a comment. Both return the
	// text as Comments will return it, because trackers may change it a little. The error
	// wraps ErrGone if the issue or the comment no longer exists.
	Post func(ctx context.Context, issueID, body string) (Comment, error)
	Edit func(ctx context.Context, issueID, commentID, body string) (text string, err error)
	// Whoami returns the names of the key's account, as Comment.AuthorIDs has them. It is nil if
	// Comment.Own says it already, or if the tracker does not tell.
	Whoami func(ctx context.Context) ([]string, error)
	// Move changes the state of an issue to a state of the workflow, as the workflow spells
	// it. It does nothing if the issue is in that state. The error wraps ErrGone if the issue
	// no longer exists, and its code is CodeNoState if the tracker knows no such state.
	Move   func(ctx context.Context, issueID, state string) error
	Create func(ctx context.Context, n NewIssue) (*Issue, error)
	// Verify checks that the names in a workflow exist. If its error wraps ErrRejected, the
	// tracker cannot check them, and nothing is known to be wrong.
	Verify func(ctx context.Context, names TrackerNames) (TrackerFindings, error)

	Budget  func() Budget // the allowance of requests after the last answer
	Tools   []AgentTool   // the agent's access to the tracker
	Secrets []string      // the values that no log, event or message may contain
}

// ErrRejected is wrapped by an error if the tracker accepted the key but not the request.
var ErrRejected = errors.New("the tracker rejected the request")

// ErrGone is wrapped by the error of a write to an issue or comment that no longer exists.
var ErrGone = errors.New("it no longer exists")

// Limited is implemented by a tracker's rate limit errors. ResetAt is when the next request
// may be made.
type Limited interface{ ResetAt() time.Time }

// clocksDiffer is by how much the tracker's clock may differ at most.
const clocksDiffer = 24 * time.Hour

// PostOnce comments on an issue, unless there is a comment with that mark, and returns the
// comment. The mark becomes the last line of the comment. since is the time of this machine
// before which nobody made the comment.
func (t *TrackerAdapter) PostOnce(
	ctx context.Context,
	issueID, body, mark string,
	since time.Time,
) (Comment, error) {
	if t.Comments != nil {
		list, err := t.Comments(ctx, issueID, since.Add(-clocksDiffer))
		if err != nil {
			return Comment{}, err
		}
		for _, c := range list {
			if !strings.Contains(c.Body, mark) {
				continue
			}
			isOurs, err := t.Wrote(ctx, c)
			if isOurs || err != nil {
				return c, err
			}
		}
	}
	return t.Post(ctx, issueID, body+"\n\n"+mark)
}

// Wrote reports whether the key's account wrote a comment of symphony's. Anyone can write its
// marks, and so could keep it from writing a comment of its own.
func (t *TrackerAdapter) Wrote(ctx context.Context, c Comment) (bool, error) {
	if !c.Own || t.Whoami == nil {
		return c.Own, nil
	}
	names, err := t.Whoami(ctx)
	if err != nil {
		return false, err
	}
	isTheirs := func(name string) bool { return SameUser(name, c.AuthorIDs...) }
	return slices.ContainsFunc(names, isTheirs), nil
}

// TimeThere returns a time of this machine by the tracker's clock, as far as the tracker told
// its time: 12:00:30 if it is half a minute ahead at noon. The tracker tells whole seconds,
// and its answer takes a moment: a difference of less than two seconds is none.
func (t *TrackerAdapter) TimeThere(here time.Time) time.Time {
	if t.Budget == nil {
		return here
	}
	b := t.Budget()
	if b.At.IsZero() || b.ServerTime.IsZero() {
		return here
	}
	ahead := b.ServerTime.Sub(b.At)
	if ahead.Abs() < 2*time.Second {
		return here
	}
	return here.Add(ahead)
}

// TrackerMemory stores an adapter's values between processes, in the project's database.
// Passes and workers share it.
type TrackerMemory interface {
	// Meta returns the value of a key; false if there is none.
	Meta(ctx context.Context, key string) (string, bool, error)
	SetMeta(ctx context.Context, key, value string) error
}

// Budget is the allowance of requests that a tracker reported with its last answer.
type Budget struct {
	// the share that is left of the scarcest allowance, 0 to 1; 1 if the tracker does not say
	Left  float64
	Reset time.Time // when that allowance is renewed; zero if the tracker does not say
	// the time of the answer by the clock of this machine and of the tracker; zero before the
	// first
	At, ServerTime time.Time
}

// LowUntil returns when a budget of less than a tenth will be renewed: an hour after the
// answer if the tracker does not say. It is zero if a tenth or more is left.
func (b Budget) LowUntil() time.Time {
	if b.At.IsZero() || b.Left >= 0.1 {
		return time.Time{}
	}
	return cmp.Or(b.Reset, b.At.Add(time.Hour))
}

// TrackerNames are the names in a workflow that a tracker can look up. Empty names are not
// looked up.
type TrackerNames struct {
	States, Labels []string
	Assignee       string
	Operators      []string
}

// TrackerFindings are the names that do not exist, with the project in which they were looked
// up.
type TrackerFindings struct {
	Project        TrackerProject
	User           string        // the name of the user whose key is used
	States, Labels []UnknownName // states that the project lacks, labels that the tracker lacks
	Assignee       *UnknownName  // nil if the assignee exists or none was looked up
	OwnOperators   []string      // the operators whose comments look like comments of agents
	Denied         *Error        // why the key may not change issues; nil if it may, as far as is known
}

// TrackerProject identifies a project, or a team.
type TrackerProject struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// a value of tracker.project_slug; of a team its key, a value of tracker.team
	Slug string `json:"slugId"`
	URL  string `json:"url"`
}

// UnknownName is a name that does not exist, with up to three similar ones that do.
type UnknownName struct {
	Name    string
	Nearest []string
}

// String returns the name in quotes, with a suggestion: `"Tood" (did you mean "Todo"?)`.
func (u UnknownName) String() string {
	if len(u.Nearest) == 0 {
		return fmt.Sprintf("%q", u.Name)
	}
	return fmt.Sprintf("%q (did you mean %q?)", u.Name, u.Nearest[0])
}

// statesShown is how many existing states the error of a missing state names.
const statesShown = 20

// NoState returns the error of a move to a state that does not exist. where names the owner of
// the states, such as "the team".
func NoState(where, state string, states []string) *Error {
	shown := strings.Join(states[:min(len(states), statesShown)], ", ")
	return NewError(CodeNoState, fmt.Sprintf("%s has no state %q; it has %s", where, state, shown),
		"correct the name in WORKFLOW.md, or add the state in the tracker")
}

// AgentTool is a tool that the agent may call in the worker (specification 10.5).
type AgentTool struct {
	Name        string
	Description string
	InputSchema json.RawMessage
	// Call carries out a call for the agent that works on issue.
	Call func(ctx context.Context, issue Issue, args json.RawMessage) ToolAnswer
	// reports whether a call changes an issue, beyond commenting
	ChangesIssue func(args json.RawMessage) bool
	// MovesTo returns the states to which a call moves issues. Nil: no call does.
	MovesTo func(ctx context.Context, issue Issue, args json.RawMessage) ([]string, error)
	// Summary describes a call in a few words, such as "mutation issueUpdate", "" for
	// arguments that it can't read. Nil: the arguments say it.
	Summary func(args json.RawMessage) string
}

// ToolAnswer is the result of a call.
type ToolAnswer struct {
	Text     string // for the agent
	Success  bool
	Mutation *Mutation // for the run's record; nil for a call that only reads
}

// TrackerSetup is how init connects a project to a tracker before there is a workflow.
type TrackerSetup struct {
	Name        string // the tracker's name
	Endpoint    string // the default of tracker.endpoint
	KeyQuestion string // asks for the key, and tells where to find it
	// Connect returns the user and the projects of the key. If the key is refused, the error
	// names source as its origin, unless that is empty. RefusedKey reports whether an error is
	// about the key, so that another key may help.
	Connect    func(ctx context.Context, endpoint, key, source string) (TrackerAccount, error)
	RefusedKey func(error) bool
}

// TrackerAccount is the user of a key, with the projects to which it gives access.
type TrackerAccount struct {
	User     string           // the name of the key's user
	Projects []TrackerProject // the most recently changed first; 500 at most
	// CloudID is the id of a site of Jira, if the key works only with it.
	CloudID string
	// Project reads a project, given its slug or URL, and checks whether a label exists.
	Project func(ctx context.Context, slug, label string) (TrackerBoard, error)
	// Team reads a team, given its key, as Project does. Nil for a tracker without teams.
	Team func(ctx context.Context, key, label string) (TrackerBoard, error)
}

// NewIssue is an issue that is made, in the first active state if State is empty.
type NewIssue struct {
	Title, Body, State string
	Labels             []string
	// Taken reports whether a deleted issue had that identifier: its records must not become
	// the records of the new issue. It is nil where issues leave no records.
	Taken func(identifier string) (bool, error)
}

// TrackerBoard describes a project or team for init.
type TrackerBoard struct {
	TrackerProject
	// Setting is the value to write as tracker.project_slug: the URL if it ends in the slug,
	// otherwise the slug; of a team its key.
	Setting string
	// in the order in which an issue passes through them, without duplicate names
	States   []TrackerState
	HasLabel bool
}

// TrackerState is a state of issues.
type TrackerState struct {
	Name string
	Kind StateKind // empty for states before work is planned
}

// StateKind tells whether work on an issue in a state is waiting, started or ended.
type StateKind string

const (
	StateWaiting StateKind = "waiting"
	StateStarted StateKind = "started"
	StateEnded   StateKind = "ended"
)

// State finds a state by its name, ignoring case.
func (b TrackerBoard) State(name string) (TrackerState, bool) {
	i := slices.IndexFunc(b.States, func(s TrackerState) bool { return SameState(s.Name, name) })
	if i < 0 {
		return TrackerState{}, false
	}
	return b.States[i], true
}

// Runners are the processes and workspaces, as a pass uses them.
type Runners interface {
	// Probe finds the worker and the remaining processes of a run. It never creates anything.
	Probe(ctx context.Context, run Run) Liveness
	// Prepare writes the run's directory and syncs it. It comes before the run's row.
	Prepare(ctx context.Context, run Run) error
	// Start starts the run's worker as a detached process. It returns when the worker took the
	// run or refused it, or after 5 s.
	Start(ctx context.Context, run Run) error
	// Stop asks the run's worker to end, and waits for its end until ctx ends. A worker that
	// takes longer is no error.
	Stop(ctx context.Context, run Run) error
	// Kill ends a worker that is alive but no longer reacts, with all its processes.
	Kill(ctx context.Context, run Run) error
	// Reap ends the remaining processes of a dead worker. Then it calls record with the
	// processes that it could not end, while it holds the lock on the run's alive file. It
	// returns these processes too.
	Reap(ctx context.Context, run Run, record func(left []Process) error) (left []Process, err error)
	// Workspaces lists the recorded workspaces.
	Workspaces(ctx context.Context) ([]Workspace, error)
	// TrashDue reports whether removed workspaces must be deleted: because they are old
	// enough, or because less than minFree bytes are free.
	TrashDue(now time.Time, minFree int64) (bool, error)
	// FreeBytes returns the free space of the workspaces' volume; negative if unknown.
	FreeBytes() int64
}

// IssueClaims decide who works on an issue if several could: the projects of this account, or the
// machines of a team. A pass takes an issue before it stores a run of it.
type IssueClaims interface {
	// Known returns who has issues instead of this project, as far as that is known without a request
	// and without a look at other projects.
	Known(ctx context.Context) (Claimed, error)
	// Take claims the issues that are about to get a run, and returns those that it did not get; it
	// may return more that others have. A dry run only looks. After an error nothing is known.
	Take(ctx context.Context, issues []Issue, dryRun bool) (NotTaken, error)
	// Release is called when the runs of the pass are stored: until then others wait.
	Release()
	// Settle gives back the claims of issues that need no more work here, and keeps the others. It is
	// called at the end of a pass, with what the tracker has answered; nil if it was not asked, or did
	// not answer.
	Settle(ctx context.Context, tracked *Tracked) error
}

// NoClaims implements the methods of IssueClaims other than Take, without claims.
type NoClaims struct{}

// Known implements IssueClaims.
func (NoClaims) Known(context.Context) (Claimed, error) { return Claimed{}, nil }

// Release implements IssueClaims.
func (NoClaims) Release() {}

// Settle implements IssueClaims.
func (NoClaims) Settle(context.Context, *Tracked) error { return nil }

// Claimed are issues that others have, by their ids; Elsewhere also by their origins. Each value is a
// sentence that says who has it and for what: "ann on buildhost-2 works on it, at least until 10:40".
type Claimed struct {
	Elsewhere map[string]string
	// Taken are issues that this project had, and that others have taken since.
	Taken map[string]string
	// Refused are issues whose claims could not be made a few minutes ago although nobody else has
	// them, with the reasons. They are not tried again yet.
	Refused map[string]string
}

// of says who has an issue; empty for nobody.
func (c Claimed) of(i Issue) string { return cmp.Or(c.Elsewhere[i.ID], c.Elsewhere[i.Origin()]) }

// NotTaken are issues that can't start here, by their ids.
type NotTaken struct {
	// Elsewhere is who has an issue, as Claimed says it.
	Elsewhere map[string]string
	// Refused is why the claim of an issue could not be made, although nobody else has it.
	Refused map[string]error
}

// Has reports whether an issue is among them.
func (n NotTaken) Has(issueID string) bool {
	return n.Elsewhere[issueID] != "" || n.Refused[issueID] != nil
}

// Accounts are the accounts of agents, which several projects share, as a pass uses them.
type Accounts interface {
	// Look reads the state of every account. If that fails, it counts as one without faults.
	Look(ctx context.Context, now time.Time) []Account
	// TakeSlots reserves free slots for the workers that this pass starts, up to want in all,
	// and returns the slots that the pass reserved; a dry run only counts. Nil slots: the number
	// of runs is not bounded.
	TakeSlots(ctx context.Context, want int, dryRun bool) (*Slots, error)
	// Release gives back the slots that were not used.
	Release()
	// Probe records that the run, which is stored next, tests whether the block of its agent's
	// account is over. If another project was first, or the block is over, the error wraps
	// ErrConflict and nothing was written. The record's time is the time of the run's start, so
	// that the run counts as started under the block.
	Probe(ctx context.Context, b Block, run Run) error
}
