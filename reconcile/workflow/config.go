package workflow

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Config is the typed configuration of one workflow (specification 5.3 and 6.4); keys.go says what the values mean. All paths
// are absolute and clean; symlinks in them are not resolved.
type Config struct {
	// Policy is the part that decisions depend on, without what depends on the machine: WorkspaceRoot and StopGrace.
	Policy    reconcile.Policy
	Tracker   Tracker
	Polling   Polling
	Workspace Workspace
	Hooks     Hooks
	Agent     Agent
	Codex     Codex

	Prompt *Prompt
	// Warnings are in the order of the file's lines. They do not hold what Prompt.Check finds.
	Warnings []Warning
	// KeyIsLiteral says that the file holds the tracker's key itself.
	KeyIsLiteral bool
	// Redacted is the file with $SYMPHONY_LITERAL_API_KEY in the place of a literal tracker.api_key, and otherwise byte for
	// byte what was read. Parse reads it back where the environment has that variable.
	Redacted []byte
	// SecretVars names the environment variables that hold the tracker's key, sorted: the one that the file names,
	// LINEAR_API_KEY, and the placeholder's. Neither agents nor hooks may get them.
	SecretVars []string
}

// Tracker is where the work comes from (specification 5.3.1).
type Tracker struct {
	Kind     string // "linear"
	Endpoint string
	// APIKey is empty only where Environment.KeyOptional allowed it.
	APIKey Secret
	// ProjectSlug is what the file says; of a project's URL the slug in it.
	ProjectSlug string
	// NamedStates are the states that the file itself names, without defaults.
	NamedStates []string
	CAFile      string
	ToolScope   string
}

// Polling is how often --loop runs a pass (specification 5.3.2).
type Polling struct{ Interval time.Duration }

// Workspace is where issues are worked on (specification 5.3.3, design 7).
type Workspace struct {
	Root        string
	KeepRemoved time.Duration
}

// Hooks are shell scripts around a workspace's life, empty where there is none (specification 5.3.4).
type Hooks struct {
	AfterCreate, BeforeRun, AfterRun, BeforeRemove string
	OnAttention                                    string // belongs to no workspace
	Timeout                                        time.Duration
}

// Agent is how long an agent works, and what it may do (specification 5.3.5, design 5 and 9).
type Agent struct {
	MaxTurns               int
	OnApproval, OnQuestion Answer
	AnswerTimeout          time.Duration
	Network                bool
	WritableRoots          []string
	PassEnv                []string
	TrustRepository        bool
	KeepGitConfig          bool
	ResumeThread           bool
	Prices                 Prices
}

// Answer is the reaction to a request of an agent.
type Answer = string

// The answers that exist.
const (
	Approve = "approve"
	Deny    = "deny"
	Fail    = "fail"
	Ask     = "ask" // an operator decides
)

// Codex is how the agent is started and watched (specification 5.3.6).
type Codex struct {
	Command string // as written
	Home    string // empty leaves the environment's
	// ApprovalPolicy is a string or an object in JSON, never nil.
	ApprovalPolicy json.RawMessage
	// ThreadSandbox is empty where thread/start says nothing about it.
	ThreadSandbox string
	// TurnSandboxPolicy is an object in JSON as written, nil where symphony makes its own.
	TurnSandboxPolicy json.RawMessage

	TurnTimeout, ReadTimeout time.Duration
	ReadTimeoutSet           bool          // by the file
	StallTimeout             time.Duration // 0 where stall detection is off
}

// Secret is a string that does not print: not by fmt, log/slog or encoding/json.
type Secret string

const hidden = "[redacted]"

// Reveal gives the secret itself.
func (s Secret) Reveal() string { return string(s) }

// Format implements fmt.Formatter without the secret.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalText implements encoding.TextMarshaler, which encoding/json and log/slog use, without the secret.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// scrub removes the secret from a text.
func (s Secret) scrub(text string) string {
	// A shorter text is no key, and replacing it would damage other words.
	if len(s) < shortestKey {
		return text
	}
	return strings.ReplaceAll(text, string(s), hidden)
}

const shortestKey = 8
