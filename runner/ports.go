package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// Prompt renders the text of the first turn. For the first run of an issue, attempt is 0.
type Prompt interface {
	Render(issue reconcile.Issue, attempt int) (string, error)
}

// Journal is the part of the database that a worker uses, by subject. An error that wraps
// reconcile.ErrConflict means that a pass settled the run, which the worker must no longer
// write.
type Journal interface {
	RunJournal
	ThreadJournal
	DeliveryJournal
	MessageJournal
}

// RunJournal stores the row of the run, and reads how many tokens runs used.
type RunJournal interface {
	// UpdateRun writes the run, and returns what passes and operators want of its worker. It
	// may return both orders and an error.
	UpdateRun(ctx context.Context, now time.Time, run reconcile.Run) (reconcile.Orders, error)
	// Finish records the outcome, once and durably.
	Finish(ctx context.Context, now time.Time, run reconcile.Run) error
	// SaveRemote stores the state of a run on another machine that was taken only to be ended:
	// whether it ended, when its host was heard of, and the commit of its handover.
	SaveRemote(ctx context.Context, run reconcile.Run, now time.Time) error
	// SaveRemoteWorkspace stores the workspace of a run's issue on the run's host, nil if
	// there is none.
	SaveRemoteWorkspace(ctx context.Context, run reconcile.Run, w *reconcile.Workspace) error
	// IssueTokens returns how much of agent.max_tokens an issue used, such as 120000.
	IssueTokens(ctx context.Context, issueID string) (int64, error)
	// UsedOn returns the use of the project's runs on the day of UTC, by model, for
	// agent.budget_per_day.
	UsedOn(ctx context.Context, at time.Time) ([]reconcile.ModelUse, error)
}

// ThreadJournal stores the threads of an issue: the tokens that they used, and the part of the
// issue that they saw.
type ThreadJournal interface {
	// SaveThread stores the token totals of a thread, unless higher ones are stored.
	SaveThread(
		ctx context.Context,
		runID, issueID string,
		thread reconcile.Thread,
		used reconcile.Tokens,
		now time.Time,
	) error
	// Thread returns the token totals of a thread, false if it is unknown.
	Thread(ctx context.Context, threadID string) (reconcile.Tokens, bool, error)
	// LastThread returns the issue's newest thread, and its newest in this home. Their ID
	// is "" if there is none.
	LastThread(ctx context.Context, issueID, home string) (newest, here reconcile.Thread, err error)
	// LastRunOf returns the newest ended run on a thread, false if there is none.
	LastRunOf(ctx context.Context, issueID, threadID string) (reconcile.Run, bool, error)
	// LastSeen returns the part of its issue that a thread saw, such as the comments up to
	// 12:01, and false if it was not stored. RecordLastSeen stores it.
	LastSeen(ctx context.Context, threadID string) (reconcile.LastSeen, bool, error)
	RecordLastSeen(
		ctx context.Context,
		runID, issueID string,
		thread reconcile.Thread,
		seen reconcile.LastSeen,
		now time.Time,
	) error
}

// DeliveryJournal stores the pushes for an issue, and the state of its pull request, such as a
// failed check.
type DeliveryJournal interface {
	// Delivered returns the last push for an issue, false if nothing was pushed.
	// RecordDelivered stores it.
	Delivered(ctx context.Context, issueID string) (reconcile.Delivered, bool, error)
	RecordDelivered(ctx context.Context, issueID string, d reconcile.Delivered) error
	// Watch returns the state of the issue's pull request, such as that a check failed, and
	// false if there is none. EndRework records that the reasons for which the issue came back
	// are answered.
	Watch(ctx context.Context, issueID string) (reconcile.Watch, bool, error)
	EndRework(ctx context.Context, issueID string) error
	// BeginDisarm records that the forge is about to be told not to merge the issue's pull
	// request by itself, EndMerge that it will not.
	BeginDisarm(ctx context.Context, issueID string) error
	EndMerge(ctx context.Context, issueID string) error
}

// MessageJournal stores the messages between people and agents.
type MessageJournal interface {
	// SaveCreated stores the items that the agent created in the tracker, such as a comment.
	// Created returns which of these ids in the tracker agents created.
	SaveCreated(ctx context.Context, runID, issueID string, created []reconcile.Created, now time.Time) error
	Created(ctx context.Context, ids []string) (map[string]bool, error)
	// LateAnswers returns answers that were given after the end of their run and that no later
	// run passed on. MarkAnswersSeen records that a run did.
	LateAnswers(ctx context.Context, issueID string) ([]reconcile.Request, error)
	MarkAnswersSeen(ctx context.Context, answered []reconcile.Request, runID string) error
	// UntoldMessages returns the operators' messages that the issue's agent did not get yet, the
	// newest first. MarkMessages records that a run begins to pass them on, or when the agent
	// got them.
	UntoldMessages(ctx context.Context, issueID string, limit int) ([]reconcile.Message, error)
	MarkMessages(ctx context.Context, list []reconcile.Message, runID string, told time.Time) error
}

// Account stores the data that all projects of a home of agents share.
type Account interface {
	// SaveLimits stores the agent's rate limits, a JSON object.
	SaveLimits(ctx context.Context, now time.Time, limits []byte) error
	// Failed stores the fault of login or quota that ended a run.
	Failed(ctx context.Context, now time.Time, code, message string) error
	// Worked stores that a run which started at began completed a turn.
	Worked(ctx context.Context, now, began time.Time) error
}

// Alive is the alive file of the run. The worker holds a lock on it until it exits; passes
// read it.
type Alive interface {
	// Beat writes the number of a heartbeat and its time on the monotonic clock.
	Beat(counter int64, mono time.Duration) error
	// NoteFault writes the code of the machine's fault that keeps the run without an outcome.
	NoteFault(code string) error
}

// Far is the machine of a run that works elsewhere, as its worker reached it.
type Far struct {
	Machine host.Machine
	Account host.Account
	Link    Link
}

// Link is the worker's connection with the process that serves its run on another machine.
// While it is lost, calls wait.
type Link interface {
	// Lost returns for how long the link is lost, 0 if it is up; Back for how long it is up
	// again.
	Lost() time.Duration
	Back() time.Duration
	// EndRun ends the processes that an earlier worker left there, and leaves the workspace
	// held. Release ends that process itself, which must have nothing left.
	EndRun(ctx context.Context, r host.KillRequest) error
	Release(ctx context.Context) error
	// Done is closed when that process serves this worker no more, because of Err.
	Done() <-chan struct{}
	Err() error
	Close()
}

// Reach reaches the machine of a run that works elsewhere. While it waits for a place there,
// it tells waits why, again and again. After an error, begun reports whether something may be
// at work there.
type Reach func(ctx context.Context, waits func(why string)) (far Far, begun bool, err error)

// Free contains the additional settings for the worker of an agent without an issue.
type Free struct {
	Calls Calls
	// Wake gets a value when a client may have stored a call.
	Wake <-chan struct{}
	// Idle is how long the agent stays without a call; 0: for ever.
	Idle time.Duration
	// Guarded returns the paths in the agent's directory that its commands may not write; they
	// need not exist.
	Guarded func(ctx context.Context) ([]string, error)
	// Orphaned reports whether the program to whose life the agent is bound exited.
	Orphaned func() bool
	// Permission is decided by a person before the agent starts; nil if there is nothing to
	// decide.
	Permission *Permission
}

// Permission is asked for before an agent without an issue starts, such as to work in
// /home/me/other.
type Permission struct {
	Request agent.Request
	// Refused is the error of the run if nobody permits it, with the reason of a person who
	// denied it, or "".
	Refused func(reason string) error
	// Unchanged returns an error if the permitted directory is not there any more.
	Unchanged func() error
}

// Calls stores the calls of clients.
type Calls interface {
	QueuedCalls(ctx context.Context, runID string) ([]reconcile.Call, error)
	// BeginCall and EndCall return an error that wraps reconcile.ErrConflict if the call
	// already ended.
	BeginCall(ctx context.Context, id string, now time.Time) error
	EndCall(ctx context.Context, call reconcile.Call) error
}

// The parameters of calls, as JSON. For a missing value the conversation's counts, or the run's.
type (
	// ConversationCall opens a conversation, or continues the thread of an earlier
	// conversation.
	ConversationCall struct {
		ThreadID              string          `json:"threadId,omitempty"`
		Cwd                   string          `json:"cwd,omitempty"`
		Model                 string          `json:"model,omitempty"`
		ApprovalPolicy        json.RawMessage `json:"approvalPolicy,omitempty"`
		SandboxPolicy         json.RawMessage `json:"sandboxPolicy,omitempty"` // of turns
		Config                map[string]any  `json:"config,omitempty"`
		BaseInstructions      string          `json:"baseInstructions,omitempty"`
		DeveloperInstructions string          `json:"developerInstructions,omitempty"`
	}
	// TurnCall is a turn, or with the items alone an addition to the running turn.
	TurnCall struct {
		Items          []agent.Input   `json:"items"`
		Cwd            string          `json:"cwd,omitempty"`
		Model          string          `json:"model,omitempty"`
		Effort         string          `json:"effort,omitempty"`
		ApprovalPolicy json.RawMessage `json:"approvalPolicy,omitempty"`
		SandboxPolicy  json.RawMessage `json:"sandboxPolicy,omitempty"`
	}
)

// The results of calls, as JSON.
type (
	// ConversationResult is an open conversation.
	ConversationResult struct {
		ThreadID  string `json:"threadId"`
		Model     string `json:"model,omitempty"`
		UserAgent string `json:"userAgent,omitempty"`
		Resumed   bool   `json:"resumed,omitempty"`
	}
	// TurnResult is an ended turn.
	TurnResult struct {
		TurnID      string `json:"turnId,omitempty"`
		LastMessage string `json:"lastMessage,omitempty"`
	}
)

// decoded calls do with the parameters of a call.
func decoded[P any](call reconcile.Call, do func(P) (any, error)) (any, error) {
	var p P
	if err := json.Unmarshal(call.Params, &p); err != nil {
		return nil, fmt.Errorf("parameters of %s: %w", call.Verb, err)
	}
	return do(p)
}
