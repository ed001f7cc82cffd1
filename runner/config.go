package runner

import (
	"context"
	"encoding/json"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// Config is the part of the workflow that runs need. A run keeps the one that it was started with.
type Config struct {
	Policy   reconcile.Policy
	MaxTurns int
	Hooks    Hooks

	StartAgent agent.Starter // makes a session with the process that Command started
	Command    string        // codex.command, run by bash -lc in the workspace (specification 10.1)
	CodexHome  string        // codex.home, empty for codex's own default
	// The pass-through values of specification 5.3.6; nil if the workflow has none.
	ApprovalPolicy    json.RawMessage
	ThreadSandbox     json.RawMessage
	TurnSandboxPolicy json.RawMessage

	ReadTimeout, InitializeTimeout, TurnTimeout, StallTimeout time.Duration

	OnApproval      agent.Approval
	OnQuestion      agent.QuestionPolicy
	AnswerTimeout   time.Duration // of requests that a person answers
	Network         bool
	WritableRoots   []string
	PassEnv         []string // variables that the agent's commands get even if their names look like secrets
	TrustRepository bool
	KeepGitConfig   bool // git settings that an agent changed stay
	ResumeThread    bool
	KeepRemoved     time.Duration

	// Secrets names the variables that neither hooks nor the agent may see. SecretValues are kept out of all that is
	// written, and out of the environment of hooks and agent under any name.
	Secrets      []string
	SecretValues []string
}

// Hooks are the workflow's shell scripts (specification 5.3.4); an empty one does nothing.
type Hooks struct {
	AfterCreate, BeforeRun, AfterRun, BeforeRemove string
	Timeout                                        time.Duration
}

// Prompt renders the text of the first turn. The first run has attempt 0.
type Prompt interface {
	Render(issue reconcile.Issue, attempt int) (string, error)
}

// Journal is the part of the database that a worker uses. An error that wraps reconcile.ErrConflict means that a pass has
// settled the run, so that the worker must not write it any more.
type Journal interface {
	// UpdateRun writes what the worker knows of its run, and returns the stop reason that a pass has set.
	UpdateRun(ctx context.Context, now time.Time, run reconcile.Run) (stopReason string, err error)
	// Finish records the outcome, once and durably.
	Finish(ctx context.Context, now time.Time, run reconcile.Run) error
	// SaveThread keeps the highest token totals of a codex thread.
	SaveThread(ctx context.Context, runID, issueID, threadID, workspaceID string, t reconcile.Tokens, now time.Time) error
	// Thread returns those totals; false if the thread is unknown.
	Thread(ctx context.Context, threadID string) (reconcile.Tokens, bool, error)
	// LastThread returns the issue's newest thread, and the newest in a codex home; empty if there is none.
	LastThread(ctx context.Context, issueID, codexHome string) (newest, here reconcile.Thread, err error)
	// SaveCreated stores what the agent created in the tracker.
	SaveCreated(ctx context.Context, runID, issueID string, created []reconcile.Created, now time.Time) error
	// IssueTokens returns how much of agent.max_tokens an issue has used.
	IssueTokens(ctx context.Context, issueID string) (int64, error)
	// LastSeen returns what a thread was told of its issue, false if that was not stored; RecordLastSeen stores it.
	LastSeen(ctx context.Context, threadID string) (reconcile.LastSeen, bool, error)
	RecordLastSeen(ctx context.Context, runID, issueID string, thread reconcile.Thread, seen reconcile.LastSeen, now time.Time) error
	// LastRunOf returns the newest ended run on a thread; false if there is none.
	LastRunOf(ctx context.Context, issueID, threadID string) (reconcile.Run, bool, error)
	// Created returns which of these ids of the tracker were created by agents.
	Created(ctx context.Context, ids []string) (map[string]bool, error)
	// LateAnswers returns the answers to requests of ended runs that no run was told yet. MarkAnswersSeen records that a
	// run was told them.
	LateAnswers(ctx context.Context, issueID string) ([]reconcile.Request, error)
	MarkAnswersSeen(ctx context.Context, answered []reconcile.Request, runID string) error
}
