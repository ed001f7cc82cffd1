package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"
)

// Session is one conversation with one running agent. Its methods may be called from several goroutines; one turn runs
// at a time.
//
//	Initialize ─► StartThread | ResumeThread ─► RunTurn … RunTurn ─► Close
type Session interface {
	// Initialize opens the conversation. It must be called first, and once.
	Initialize(ctx context.Context) (Server, error)
	// StartThread starts a thread and makes it the session's.
	StartThread(ctx context.Context, p ThreadParams) (id string, err error)
	// ResumeThread loads a stored thread and makes it the session's. Errors: ErrNoThread, ErrThreadBusy, *Error.
	ResumeThread(ctx context.Context, id string, p ThreadParams) error
	// RunTurn runs one turn on the thread and waits for its end. It returns an error unless the turn was completed.
	// After a clock ran out or ctx ended the turn goes on in the agent until Interrupt or Close.
	RunTurn(ctx context.Context, p TurnParams) (Turn, error)
	// Interrupt ends the running turn and waits for its end. It does nothing if no turn runs.
	Interrupt(ctx context.Context) error
	// ProbeSandbox has the agent run a command that does nothing in cwd, under the sandbox policy of a turn. It costs no
	// token. Errors: CodeSandboxUnavailable, ErrNoProbe where only a turn can tell, those of a session that ended.
	ProbeSandbox(ctx context.Context, cwd string, policy json.RawMessage) error
	// Usage is the sum of UsageByThread: the tokens of the thread and of its sub-agents, those of earlier runs included.
	Usage() Usage
	UsageByThread() map[string]Usage
	// RateLimits is the latest state of the account's limits in the agent's own shape, nil if none was reported.
	RateLimits() json.RawMessage
	// Model names the model of the thread and, after a plus each, those that it was rerouted to.
	Model() string
	// Close closes the agent's stdin, which makes it exit, and ends all calls. It may be called more than once.
	Close() error
	// Done is closed when the agent's stdout has ended and all events of it were delivered.
	Done() <-chan struct{}
	// Login asks for the agent's login, and for its model provider as configured in cwd. No thread is needed.
	Login(ctx context.Context, cwd string) (Login, error)
}

// Starter makes a session of the two ends of a process that has been started.
type Starter func(Streams, Options) Session

// Streams are the agent's two ends. The session owns both: no other code may write to Stdin.
type Streams struct {
	Stdin  io.WriteCloser
	Stdout io.Reader
}

// Options configure a session. The zero value of a duration turns its clock off, except that a request without
// ReadTimeout gets DefaultReadTimeout: no request may wait for ever.
type Options struct {
	ClientVersion     string
	PID               int           // of the agent, for the events (specification 10.4)
	ReadTimeout       time.Duration // of one request and its response, and of one blocked write (codex.read_timeout_ms)
	InitializeTimeout time.Duration // of Initialize: a fresh home needs longer for its first answer
	TurnTimeout       time.Duration // of the silence of the stream during a turn (codex.turn_timeout_ms)
	StallTimeout      time.Duration // of a turn without progress (codex.stall_timeout_ms)
	// Busy reports whether a process lives that the agent started during this turn. It is asked when StallTimeout has
	// passed without progress: then, as while a command runs, the limit is TurnTimeout.
	Busy func() bool
	// OnApproval and OnQuestion say how requests of the agent are answered; Ask passes them to a person.
	OnApproval Approval
	OnQuestion QuestionPolicy
	Ask        Asker
	// Tools are offered to the model; CallTool runs one call. Calls run concurrently, and their context ends with the
	// turn, the request and the session.
	Tools    []Tool
	CallTool func(ctx context.Context, name string, args json.RawMessage) ToolResult
	// OnEvent gets every event in order, one at a time. It may block: reading goes on until a queue is full.
	OnEvent func(Event)
}

// DefaultReadTimeout is used where Options.ReadTimeout is not set.
const DefaultReadTimeout = 5 * time.Second

// Server is what the agent says of itself.
type Server struct {
	UserAgent string
	Home      string
	Version   string // "" if the user agent names none
}

// ThreadParams describe a thread. A policy that is nil is left to the agent's configuration.
type ThreadParams struct {
	Name           string // shown in the agent's own lists
	Cwd            string
	ApprovalPolicy json.RawMessage
	Sandbox        json.RawMessage // left out by default, which keeps codex from trusting the repository
	Config         map[string]any  // overrides the agent's configuration, by dotted or nested keys
}

// TurnParams describe a turn.
type TurnParams struct {
	Input          string // the prompt, or the continuation guidance
	Cwd            string
	ApprovalPolicy json.RawMessage
	SandboxPolicy  json.RawMessage // needed with every turn: codex forgets it over a resume
}

// Turn is how a turn ended.
type Turn struct {
	ID          string
	Status      string // the agent's word: completed, failed, interrupted
	LastMessage string // the agent's last message, "" if there was none
}

// Tool is a tool offered to the model (specification 10.5).
type Tool struct {
	Name        string // letters, digits, _ and -
	Description string
	InputSchema json.RawMessage // JSON Schema of the arguments
}

// ToolResult is what the model reads of a call.
type ToolResult struct {
	Text    string
	Success bool
}

// Usage counts tokens (specification 13.5).
type Usage struct {
	Input       int64 `json:"input_tokens"`
	CachedInput int64 `json:"cached_input_tokens"` // part of Input
	Output      int64 `json:"output_tokens"`
	Reasoning   int64 `json:"reasoning_output_tokens"` // part of Output
	Total       int64 `json:"total_tokens"`
}

// Login is how an agent reaches its model.
type Login struct {
	Account  string // the kind of the login and whose it is, "" without one
	Needed   bool   // the model can't be used without a login
	Provider string // the service that runs the model, where there is no login
	EnvKey   string // the variable with the provider's key, "" if it needs none
}

// Errors that callers tell apart with errors.Is.
var (
	// ErrNoThread: the agent has not stored the thread. A new one can be started.
	ErrNoThread = errors.New("the agent has no such thread")
	// ErrThreadBusy: another live process has the thread open.
	ErrThreadBusy = errors.New("another process has the thread open")
	// ErrNoProbe: the agent can't be asked to try its sandbox.
	ErrNoProbe = errors.New("the agent can't be asked to try its sandbox")
)

// Code classifies an Error.
type Code string

// The categories of specification 10.6.
const (
	CodeResponseTimeout   Code = "response_timeout"
	CodeTurnTimeout       Code = "turn_timeout"
	CodeStalled           Code = "stalled"
	CodePortExit          Code = "port_exit"
	CodeResponseError     Code = "response_error"
	CodeTurnFailed        Code = "turn_failed"
	CodeTurnCancelled     Code = "turn_cancelled"
	CodeTurnInputRequired Code = "turn_input_required"
	CodeApprovalRequired  Code = "approval_required"
)

// Faults of the machine, the account or the network, which are not charged to an issue.
const (
	CodeIncompatible       Code = "codex_incompatible"
	CodeSandboxUnavailable Code = "sandbox_unavailable"
	CodeAgentAuth          Code = "agent_auth"
	CodeAgentQuota         Code = "agent_quota"
	CodeNetwork            Code = "network"
)

// Error is every failure of a session except the caller's own context.
type Error struct {
	Code    Code
	Message string // one line
	// Info is the agent's own classification as it was sent, nil if there was none.
	Info json.RawMessage
	// Cause is the class of the last retry notice before a stall (network, agent_quota, agent_auth), else "".
	Cause Code
	// ResetsAt is when a used-up quota comes back, zero if that is not known.
	ResetsAt time.Time
	Err      error // one of the errors above, for errors.Is
}

func (e *Error) Error() string {
	switch {
	case e.Message == "":
		return string(e.Code)
	case e.Code == CodeStalled: // the message begins with "stalled for"
		return e.Message
	}
	return string(e.Code) + ": " + e.Message
}

// Unwrap returns the error of this package that e stands for, nil for most.
func (e *Error) Unwrap() error { return e.Err }

// Confines reports whether a sandbox policy has the agent sandbox its commands itself.
func Confines(policy json.RawMessage) bool {
	var p struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(policy, &p); err != nil {
		return true // not an object: the agent will refuse it
	}
	return p.Type != "dangerFullAccess" && p.Type != "externalSandbox"
}
