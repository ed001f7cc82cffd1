package reconcile

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
)

// Issue is the tracker's record of a piece of work, normalised (specification 4.1.1 and 11.3).
// A pointer is nil if the tracker stores no value.
type Issue struct {
	ID          string       `json:"id"`
	Identifier  string       `json:"identifier"`
	Title       string       `json:"title"`
	Description *string      `json:"description"`
	Priority    *int         `json:"priority"`
	State       string       `json:"state"`
	BranchName  *string      `json:"branch_name"`
	URL         *string      `json:"url"`
	Labels      []string     `json:"labels"`
	BlockedBy   []BlockerRef `json:"blocked_by"`
	CreatedAt   *time.Time   `json:"created_at"`
	UpdatedAt   *time.Time   `json:"updated_at"`

	Assignee *Assignee `json:"assignee"` // nil for an unassigned issue
	Project  string    `json:"project"`  // the slug id of the issue's project, empty without a project
	// ProjectDescription is the short description of that project; nil if it is empty in the
	// tracker or was not requested.
	ProjectDescription *string `json:"project_description,omitempty"`

	// the issue is no longer in the project or team of the workflow
	Elsewhere bool `json:"elsewhere,omitempty"`
	Archived  bool `json:"archived"` // ByIDs returns archived issues, too
	// the time of the newest comment; nil if there is none or it was not read
	LastCommentAt *time.Time `json:"last_comment_at"`
	// NativeRef are the tracker's own references to the issue, for prompts.
	NativeRef map[string]any `json:"native_ref,omitempty"`
	// PullRequest is the newest of the issue's branch; nil if there is none or the tracker
	// does not know it.
	PullRequest *PullRequest `json:"-"`
	// OtherPull is an open pull request of another account that closes the issue; nil if there
	// is none or the tracker does not know it.
	OtherPull *OtherPull `json:"-"`
	// PullsUnread: the list of candidates does not tell whether there is a pull request. ByIDs
	// does.
	PullsUnread bool `json:"-"`
	// Malformed is the reason why a candidate cannot be worked on: its record lacks a required
	// field. Then only ID, Identifier and State are set, as far as they could be read.
	Malformed string `json:"-"`
	// StateMeant is the active state that a person seems to have meant with State, such as To Do
	// for To-Do. It is set only where the tracker knows that no setting names State.
	StateMeant string `json:"-"`
	// Remarks are what the tracker noticed in the record and does not obey, each with what to
	// write instead: "TASK-1.md:5: depends_on is not read: write dependencies".
	Remarks []string `json:"-"`
	// Unreadable is set in the stored record of an issue at work: why the tracker's record
	// could not be read at the last look, such as "TASK-1.md:3: a quote is not closed".
	// The other fields come from the last readable record.
	Unreadable string `json:"unreadable,omitempty"`
}

// PullRequest is the newest pull request of an issue's branch, as the tracker describes it.
type PullRequest struct {
	URL   string `json:"url"`
	State string `json:"state"` // open, draft, merged or closed
	// of its newest commit: pending, passed or failed; empty if there are none
	Checks string `json:"checks"`
	// required, approved or changes_requested; empty if none was asked for or given
	Review string `json:"review"`
	// how symphony merges or has merged it: "merged by symphony, approved by ann"; empty if it
	// does not
	Merge string `json:"merge"`
}

// OtherPull is a pull request that neither symphony nor an agent opened.
type OtherPull struct {
	URL    string
	Author string // the login, for an app followed by [bot]; ghost for a deleted account
}

// BlockerRef names an issue that blocks another. A blocker without a state counts as open.
type BlockerRef struct {
	ID         *string `json:"id"`
	Identifier *string `json:"identifier"`
	State      *string `json:"state"`
	// Ended: the tracker says that work on it has ended, whatever the workflow calls terminal.
	Ended bool `json:"ended,omitempty"`
	// Mend is what to do about a blocker without a state, such as "write TASK-1 instead of 1"; empty
	// if the tracker knows nothing like it.
	Mend string `json:"-"`
}

// Assignee is the person that an issue is assigned to.
type Assignee struct {
	ID    string `json:"id"`
	Email string `json:"email"`
	IsMe  bool   `json:"is_me"` // the tracker's key belongs to this person
}

// File returns the issue's file in a folder of issues; empty for other trackers.
func (i Issue) File() string {
	file, _ := i.NativeRef["file"].(string)
	return file
}

// Origin names the issue on every machine, whatever its settings are: the host of its address, and the
// tracker's own id, such as "github.com 3180742215" for acme/shop#12.
func (i Issue) Origin() string {
	id := i.ID
	native, _ := i.NativeRef["id"].(int64)
	if number, isFloat := i.NativeRef["id"].(float64); isFloat { // as it is stored
		native = int64(number)
	}
	if native > 0 {
		id = strconv.FormatInt(native, 10)
	}
	address, err := url.Parse(text.OrEmpty(i.URL))
	if err != nil {
		return id
	}
	return strings.ToLower(address.Host) + " " + id
}

// NormalizeState makes tracker states comparable (specification 4.2).
func NormalizeState(s string) string { return strings.ToLower(strings.TrimSpace(s)) }

// SameState reports whether two names are of the same state.
func SameState(a, b string) bool { return NormalizeState(a) == NormalizeState(b) }

// Fingerprint is a hash of the issue's state and description. Only changes of these two count
// as progress.
func (i Issue) Fingerprint() string {
	h := sha256.New()
	h.Write([]byte(NormalizeState(i.State)))
	h.Write([]byte{0})
	h.Write([]byte(i.description()))
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// sameTask reports whether two versions of an issue have the same fingerprint.
func (i Issue) sameTask(other Issue) bool {
	return SameState(i.State, other.State) && i.description() == other.description()
}

// description returns the issue's description, empty if it has none.
func (i Issue) description() string {
	if i.Description == nil {
		return ""
	}
	return *i.Description
}

// UnknownState says which state was probably meant with a state that the workflow does not
// name, such as To Do with To-Do.
func UnknownState(state, meant string) string {
	return fmt.Sprintf("the workflow names no state %q; did you mean %q?", state, meant)
}

// CommentedAfter reports whether the newest comment is later than t. The time of a hold's
// comment is stored in whole milliseconds, while a tracker may count microseconds.
func (i Issue) CommentedAfter(t time.Time) bool {
	return i.LastCommentAt != nil && i.LastCommentAt.Truncate(time.Millisecond).After(t)
}

// Comment is a comment on an issue in the tracker.
type Comment struct {
	ID     string
	Author string // the name of a person or an integration; empty if the tracker names none
	// the names of the author that tracker.operators may contain: id, login, email; unique in
	// the tracker
	AuthorIDs []string
	// symphony or an agent may have written it: it is never the answer of an operator
	Own       bool
	Edited    bool // its text was changed later, perhaps by another person
	Body      string
	CreatedAt time.Time
}

// UserNames returns the names of a user that tracker.operators may contain, where a tracker has
// logins and numbers: the login, and the number as id:5, because a login may consist of digits.
func UserNames(login string, id int64) []string {
	return []string{login, "id:" + strconv.FormatInt(id, 10)}
}

// SameUser reports whether a name in tracker.operators is among a user's ids. Only the case of
// ASCII letters is ignored: letters of other alphabets can look like these.
func SameUser(name string, ids ...string) bool {
	lower := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r >= 'A' && r <= 'Z' {
				r += 'a' - 'A'
			}
			return r
		}, s)
	}
	name = strings.TrimPrefix(name, "@")
	return name != "" && slices.ContainsFunc(ids, func(id string) bool { return lower(id) == lower(name) })
}

// ClaimStatus says how far symphony is with an issue. An issue without a claim is unclaimed
// (specification 7.1).
type ClaimStatus string

const (
	Running ClaimStatus = "running" // a run owns the issue
	Waiting ClaimStatus = "retry"   // the next run is due at DueAt
	Held    ClaimStatus = "held"    // no further run until something outside changes
)

// RetryKind is the reason why a claim is waiting.
type RetryKind string

const (
	Continuation RetryKind = "continuation" // the last run succeeded, and the issue is still active
	Backoff      RetryKind = "backoff"      // the last run failed
	Interrupted  RetryKind = "interrupted"  // the last run was ended from outside
	// the last run failed by a fault of the machine, not of the issue
	Blocked   RetryKind = "blocked"
	NoSlot    RetryKind = "no_slot"   // due, but every slot is taken
	Requested RetryKind = "requested" // an operator or a comment ended a hold

	// the commits of the last run are pushed next, or by the current delivery run
	Delivering RetryKind = "delivering"
	// the commits could not be delivered, which is tried again
	DeliveryFailed RetryKind = "delivery_failed"
)

// Claim is symphony's record of an issue that it works on. Only a pass writes it: it holds the
// project lock, and Version must not have changed since the pass read it.
type Claim struct {
	IssueID, Identifier string
	Status              ClaimStatus
	Version             int64  // incremented by every write; 0 for a claim that is not stored yet
	RunID               string // the run that owns a running claim; otherwise the last run
	Agent               Agent  // of that run; the zero value before the first

	// the next run's attempt number: 0 for the first run, which the template sees as null
	// (specification 5.4)
	Attempt                 int
	Kind                    RetryKind
	DueAt                   time.Time
	ErrorCode, ErrorMessage string
	// Wanted: a person wants the next run now, by symphony retry or by ending a hold, for example
	// with a comment. Unlike Kind it stays while the run waits for a slot.
	Wanted bool

	HoldReason, HoldMessage string
	HeldAt                  time.Time
	// the time of the newest comment when the hold began; a later comment ends the hold
	HoldCommentAt time.Time
	// the claim will be held for the operator when its current run ends
	HoldNext bool

	Failures      int   // failed runs in a row
	IdleRuns      int   // runs in a row that succeeded without progress
	Runs          int   // runs since the issue's state or description last changed
	Interruptions int   // interrupted runs in a row, without a completed turn
	TokenBase     int64 // the issue's tokens when its counters were last cleared

	Delivery             Delivery // of the commits that were not pushed yet
	Issue                Issue    // as last seen
	StartedIn            string   // the issue's state when the last agent began; empty before the first
	Project              string   // Policy.Project when the issue was claimed
	WorkspaceRoot        string   // the resolved root when the issue was claimed
	ClaimedAt, UpdatedAt time.Time
}

// Fault returns why a claim waits: its delivery failed or, if not, its last run did. Both are
// empty if nothing failed.
func (c Claim) Fault() (code, message string) {
	if c.Delivery.Due && c.Delivery.Code != "" {
		return c.Delivery.Code, c.Delivery.Message
	}
	return c.ErrorCode, c.ErrorMessage
}

// delivering reports whether a delivery run owns the claim.
func (c Claim) delivering() bool { return c.Status == Running && c.Kind == Delivering }

// Verb is an operator's command.
type Verb string

const (
	VerbStop    Verb = "stop"
	VerbStopAll Verb = "stop_all"
	VerbHold    Verb = "hold"
	VerbRetry   Verb = "retry"
	VerbPause   Verb = "pause"
	VerbResume  Verb = "resume"
	VerbUnblock Verb = "unblock" // by a pass that found a changed workflow; resume does it, too
	// VerbDeliver: repeat what failed after an agent's work: its proof, its delivery, its handover.
	VerbDeliver Verb = "deliver"
	// VerbHostGone: the host of the issue's run is gone for good.
	VerbHostGone Verb = "host_gone"
)

// Command is a request of an operator, stored until a pass carries it out.
type Command struct {
	ID                  int64
	Verb                Verb
	IssueID, Identifier string
	CreatedAt           time.Time
	// UnverifiedBy is the account whose user hands the issue over without verify, by symphony
	// deliver --unverified; empty for others.
	UnverifiedBy string
}

// Block is a fault of the machine that keeps runs from starting.
type Block struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// of the HTTP answer that was the fault, 0 for other faults
	Status  int       `json:"http_status,omitempty"`
	Since   time.Time `json:"since"`
	NextTry time.Time `json:"next_try"`
	Tries   int       `json:"tries"`
}

// After returns the block after a run ended with this fault. b is the block before that, nil
// for none.
func (b *Block) After(code, message string, ended time.Time) Block {
	next := Block{Since: ended}
	if b != nil {
		next = *b
	}
	next.Code = code
	next.Message = message
	if at := ended.Add(BackoffDelay(next.Tries+1, longestProbe)); at.After(next.NextTry) {
		next.NextTry = at
	}
	return next
}

// Tried returns the block after a probe was started.
func (b Block) Tried(now time.Time) Block {
	b.Tries++
	b.NextTry = now.Add(BackoffDelay(b.Tries+1, longestProbe))
	return b
}

// Clamped returns the block with now in place of times that lie so far ahead that the clock
// must have been set back after they were stored.
func (b Block) Clamped(now time.Time) Block {
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

// overBy reports whether the run shows that the fault is over: it was started under the block
// and completed a turn.
func (b Block) overBy(r Run) bool { return b.startedUnder(r) && r.TurnsDone > 0 }

// stopsRunsOn reports whether a block of this machine stops runs on a host, empty for this
// machine. This machine fetches and pushes for all hosts.
func (b Block) stopsRunsOn(host string) bool {
	return host == "" || b.Code == codeRepositoryUnavailable
}

const (
	codeRepositoryUnavailable = "repository_unavailable"
	codeClaimsUnavailable     = "claims_unavailable"
)

// Phase is the present step of a run (specification 7.2).
type Phase string

// The phases of a run, in their order.
const (
	Starting            Phase = "starting" // the row exists, no worker took it yet
	PreparingWorkspace  Phase = "preparing_workspace"
	BuildingPrompt      Phase = "building_prompt"
	LaunchingAgent      Phase = "launching_agent"
	InitializingSession Phase = "initializing_session"
	StreamingTurn       Phase = "streaming_turn"
	Finishing           Phase = "finishing"
	DeliveringWork      Phase = "delivering" // pushing the commits
	EndingThere         Phase = "ending"     // its worker died: another worker ends it on its host
)

// Outcome is how a run ended. Every run gets a single outcome.
type Outcome string

const (
	// Succeeded: its work counts. It handed the issue over or, where the workflow has no state
	// for that, delivered commits.
	Succeeded Outcome = "succeeded"
	// EndedRun: it ended by itself, without an error, and handed nothing over.
	EndedRun       Outcome = "ended"
	Failed         Outcome = "failed"
	TimedOut       Outcome = "timed_out"
	Stalled        Outcome = "stalled"
	Canceled       Outcome = "canceled"
	InterruptedRun Outcome = "interrupted"
	Lost           Outcome = "lost"
)

// IsRegular reports whether a run ended by itself, without an error.
func (o Outcome) IsRegular() bool { return o == Succeeded || o == EndedRun }

// RunKind is the task of a run: work on an issue, remove a workspace, push the commits of
// earlier runs, or carry out the calls of clients.
type RunKind string

const (
	AgentRun    RunKind = "agent"
	CleanupRun  RunKind = "cleanup"
	DeliveryRun RunKind = "delivery"
	// FreeRun is an agent without an issue. Its IssueID and Identifier are the agent's id, its
	// WorkspacePath the directory in which it works.
	FreeRun RunKind = "free"
)

// The reasons for which a pass stops a run. After all but StopOperator the tracker's answer
// decides how the issue goes on.
const (
	StopTerminal = "terminal"       // the issue reached a terminal state
	StopInactive = "inactive"       // the issue left the active states
	StopMissing  = "missing"        // the tracker no longer returns the issue
	StopMoved    = "moved"          // the issue is now in another project of the tracker
	StopLabel    = "label"          // the issue lost a required label
	StopAssignee = "assignee"       // the issue is no longer assigned to tracker.assignee
	StopOperator = "operator"       // symphony stop ISSUE: end the run and hold the issue
	StopAll      = "operator_all"   // symphony stop --all: end the run and continue after resume
	StopProject  = "project_change" // the workflow now names another project
	StopClaim    = "claim_lost"     // another machine of the team has taken the issue
	// StopStates: the issue is in the state in which its agent began, which the workflow no
	// longer lists as active.
	StopStates = "active_states"
)

// ReleasedByPerson is the reason for the release of an issue that a person moved on, and that no
// agent had handed over: the agent needed help, or was at work when the issue was parked.
const ReleasedByPerson = "by_person"

// StoppedText is the text with which a worker records that its run ended because it was
// stopped for a reason: "stopped: inactive".
func StoppedText(reason string) string { return "stopped: " + reason }

// StoppedBy returns why a run was stopped, such as StopOperator, if it ended only for that
// reason.
func (r Run) StoppedBy() string {
	if !r.OnlyStopped {
		return ""
	}
	return r.ErrorCode
}

// Tokens are cumulative counts (specification 13.5).
type Tokens struct {
	Input     int64 `json:"input"`
	Cached    int64 `json:"cached"` // part of Input
	Output    int64 `json:"output"`
	Reasoning int64 `json:"reasoning"` // part of Output
	Total     int64 `json:"total"`
	// Paid is what the agent says that they have cost, in millionths of a US dollar; 0 if it does not
	// say that.
	Paid int64 `json:"paid,omitempty"`
}

// Since returns the tokens used after base was counted. A count that decreased gives 0.
func (t Tokens) Since(base Tokens) Tokens {
	return t.with(base, func(n, before int64) int64 { return max(n-before, 0) })
}

// Plus returns the sum of both.
func (t Tokens) Plus(o Tokens) Tokens { return t.with(o, func(n, m int64) int64 { return n + m }) }

func (t Tokens) with(o Tokens, f func(n, m int64) int64) Tokens {
	return Tokens{
		f(t.Input, o.Input),
		f(t.Cached, o.Cached),
		f(t.Output, o.Output),
		f(t.Reasoning, o.Reasoning),
		f(t.Total, o.Total),
		f(t.Paid, o.Paid),
	}
}

// Orders are what a worker learns when it writes its run.
type Orders struct {
	Stop     string // why a pass asked the run to stop, such as "terminal"; empty if none did
	Messages bool   // whether messages of operators wait for the agent of the issue
}

// Run is a worker process for an issue (the specification's run attempt, 4.1.5 and 4.1.6).
type Run struct {
	ID                   string
	Kind                 RunKind
	Agent                Agent // the zero value for a run without an issue's agent
	IssueID, Identifier  string
	Attempt              int
	Phase                Phase
	Outcome              Outcome // empty while it runs
	ErrorCode, ErrorText string
	StopReason           string
	StopAt               Instant // when the stop was requested; zero if it was not
	// OnlyStopped: its worker ended it for StopReason alone, which is its ErrorCode, too. It is
	// not set if the worker had to be killed, which ErrorText says then.
	OnlyStopped bool
	// the number of passes that could not end the dead run's remaining processes
	ReapTries   int
	Settled     bool
	Issue       Issue  // the tracker's record when the run was dispatched
	Fingerprint string // the issue's fingerprint when the run was dispatched
	Worker      Handle // the process that owns the run, zero until it takes the run
	// the machine of its processes and its workspace; empty for this machine
	Host   string
	Remote RemoteState
	// when its worker last had a link to the host; zero if it had none
	HeardAt time.Time

	WorkspacePath, WorkspaceRoot string
	WorkspaceID                  string // the random id of the workspace's record
	ThreadID, TurnID             string
	// Model is the model of the thread; empty if the agent did not report it. If it changed the
	// model during the run, the names are joined by a plus.
	Model     string
	Turns     int // turns started
	TurnsDone int // turns completed
	// why after_run failed, which does not change the outcome; empty if it succeeded
	AfterRunError string
	Progress      bool // the run changed HEAD, the index or the work tree
	Delivery      DeliveryResult
	Tokens        Tokens
	// the agent's latest rate-limit record as JSON, nil if none came (specification 13.5)
	RateLimits             []byte
	LastEvent, LastMessage string
	// Activity is the present work of the agent: its last command, or the first line of its
	// last sentence.
	Activity    string
	LastEventAt time.Time
	Links       []Link // in the order in which the agent named them

	MovedAt time.Time // when the agent, or symphony for it, last changed its issue
	MovedTo string    // the state that the worker read after that change, empty until then

	Beats              int64     // the number of the worker's heartbeats
	HeartbeatAt        time.Time // the wall-clock time of the last heartbeat
	StartedAt, EndedAt time.Time
}

// RemoteState is the known state of a run's part on its host (Run.Host). Empty: nothing was
// begun there.
type RemoteState string

const (
	// RemoteBegun: it may be at work there, whatever is known of its worker.
	RemoteBegun RemoteState = "begun"
	// RemoteEnded: its host confirmed that nothing of it is left.
	RemoteEnded RemoteState = "ended"
	// RemoteGone: an operator said so.
	RemoteGone RemoteState = "gone"
)

// Instant is a moment on the monotonic clock, which is not affected by a suspend or a step of
// the wall clock. Two instants can be compared only if they are of the same boot.
type Instant struct {
	Boot string
	Mono time.Duration
}

// Handle identifies the process of a worker. It stays unambiguous when the pid is reused or
// the machine reboots.
type Handle struct {
	Boot  string // boot id of the machine
	PID   int
	Start uint64 // start time in clock ticks since that boot
}

// BootOfBackup is the boot id of workers in a backup that was restored: they are on no machine.
const BootOfBackup = "of a backup"

// LastSeen is the state of an issue about which its thread was last informed.
type LastSeen struct {
	// the time of the newest comment that the thread was given, or that existed when the
	// thread began
	CommentAt   time.Time
	Description string // the hash of the description, never empty
	Prompt      string // the hash of the prompt
	// the commit of the repository's base; empty if the thread was told of none
	Base string
}

// Thread is a conversation of an agent that worked on an issue.
type Thread struct {
	ID          string // empty if there is no thread
	WorkspaceID string // the random id of the record of the workspace that it worked in
	// the directory in which the agent keeps it, with links resolved; empty if unknown
	Home   string
	Failed int  // how many of its latest runs failed in a row
	Ended  bool // an operator asked for a new thread
}

// Mutation is a change that an agent made in the tracker with its tool, or tried to make.
type Mutation struct {
	Fields    []string        `json:"fields"` // the names of the root fields
	Query     string          `json:"query"`  // as the agent sent it
	Variables json.RawMessage `json:"variables,omitempty"`
	Success   bool            `json:"success"`
	Created   []Created       `json:"created,omitempty"`
}

// Link is a URL at which the agent's work can be seen.
type Link struct {
	Kind string `json:"kind"` // pull_request, attachment
	URL  string `json:"url"`
}

// mostLinks bounds the links that are kept for a run or an issue.
const mostLinks = 20

// MergeLinks appends the links that are not in the list yet, up to 20 in all.
func MergeLinks(links, more []Link) []Link {
	for _, l := range more {
		if len(links) < mostLinks &&
			!slices.ContainsFunc(links, func(k Link) bool { return k.URL == l.URL }) {
			links = append(links, l)
		}
	}
	return links
}

// Created is an entity that an agent created in the tracker.
type Created struct {
	Kind string `json:"kind"` // the tracker's name: comment, issue, attachment, …
	ID   string `json:"id"`
}
