package runner

import (
	"context"
	"encoding/json"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// Config is the part of the workflow that a run is carried out by. A run keeps the one it was started with.
type Config struct {
	Policy   reconcile.Policy
	MaxTurns int

	Hooks Hooks

	// StartAgent opens a session with the process that Command has become.
	StartAgent agent.Starter
	// Command is codex.command, run by bash -lc in the workspace (specification 10.1).
	Command string
	// CodexHome is codex.home, empty for codex's own default.
	CodexHome string
	// The pass-through values of specification 5.3.6; nil where the workflow has none.
	ApprovalPolicy    json.RawMessage
	ThreadSandbox     json.RawMessage
	TurnSandboxPolicy json.RawMessage

	ReadTimeout time.Duration
	// InitializeTimeout bounds the agent's first answer.
	InitializeTimeout time.Duration
	TurnTimeout       time.Duration
	StallTimeout      time.Duration

	OnApproval      agent.Approval
	OnQuestion      agent.QuestionPolicy
	AnswerTimeout   time.Duration // of what is left to a person
	Network         bool
	WritableRoots   []string
	PassEnv         []string // variables that the agent's commands get whatever their names
	TrustRepository bool
	KeepGitConfig   bool // what an agent sets of git stays
	ResumeThread    bool

	KeepRemoved time.Duration

	// Secrets names the variables that neither hooks nor the agent may see; SecretValues are kept out of
	// everything that is written and out of their environment whatever the variable is called.
	Secrets      []string
	SecretValues []string
}

// Hooks are the workspace's shell scripts (specification 5.3.4), empty where there is none.
type Hooks struct {
	AfterCreate, BeforeRun, AfterRun, BeforeRemove string
	Timeout                                        time.Duration
}

// Prompt renders the first turn's text. Attempt 0 is the first run.
type Prompt interface {
	Render(issue reconcile.Issue, attempt int) (string, error)
}

// Journal is the worker's side of the database. Errors that wrap reconcile.ErrConflict say that the run is
// no longer the worker's.
type Journal interface {
	// UpdateRun writes what the worker knows of its run, and returns the stop reason that a pass has set.
	UpdateRun(ctx context.Context, now time.Time, run reconcile.Run) (stopReason string, err error)
	// Finish records the outcome, once and durably.
	Finish(ctx context.Context, now time.Time, run reconcile.Run) error
	// SaveThread keeps the highest token totals of a codex thread.
	SaveThread(ctx context.Context, runID, issueID, threadID, workspaceID string, t reconcile.Tokens, now time.Time) error
	// Thread gives those totals; false where the thread is unknown.
	Thread(ctx context.Context, threadID string) (reconcile.Tokens, bool, error)
	// LastThread gives the issue's newest thread, and the newest that a codex home can have; empty where there is none.
	LastThread(ctx context.Context, issueID, codexHome string) (newest, here reconcile.Thread, err error)
	// SaveCreated keeps what the agent made in the tracker.
	SaveCreated(ctx context.Context, runID, issueID string, made []reconcile.Created, now time.Time) error
	// IssueTokens gives what an issue has used of agent.max_tokens.
	IssueTokens(ctx context.Context, issueID string) (int64, error)
	// Meta and SetMeta keep small facts, here which codex homes have been used.
	Meta(ctx context.Context, key string) (string, bool, error)
	SetMeta(ctx context.Context, key, value string) error
	ThreadNotes
}
