package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Session is a conversation with a running agent. Its methods may be called from several
// goroutines; only one turn runs at a time.
//
//	Initialize ─► StartThread | ResumeThread ─► RunTurn … RunTurn ─► Close
type Session interface {
	// Initialize opens the conversation. It must be called first and only once.
	Initialize(ctx context.Context) (Server, error)
	// StartThread starts a thread and makes it the session's.
	StartThread(ctx context.Context, p ThreadParams) (id string, err error)
	// ResumeThread loads a stored thread and makes it the session's. Errors: ErrNoThread,
	// ErrThreadBusy, *Error.
	ResumeThread(ctx context.Context, id string, p ThreadParams) error
	// RunTurn runs a turn on the thread and waits for its end. It returns an error unless the
	// turn was completed. After a timeout or the end of ctx the agent continues the turn until
	// Interrupt or Close.
	RunTurn(ctx context.Context, p TurnParams) (Turn, error)
	// Steer adds input to the running turn. Without a running turn the error is ErrNoTurn.
	Steer(ctx context.Context, input []Input) error
	// Interrupt ends the running turn and waits for its end. Without a running turn it does
	// nothing.
	Interrupt(ctx context.Context) error
	// ProbeSandbox lets the agent run a command that does nothing in cwd, under the sandbox
	// policy of a turn. It uses no tokens. Errors: CodeSandboxUnavailable; ErrNoProbe if only
	// a turn can tell; the errors of an ended session.
	ProbeSandbox(ctx context.Context, cwd string, policy json.RawMessage) error
	// Exec runs a command under a sandbox policy, without a turn.
	Exec(ctx context.Context, p ExecParams) (ExecResult, error)
	// Usage is the sum of UsageByThread: the tokens of the thread and its sub-agents,
	// also of earlier runs.
	Usage() Usage
	UsageByThread() map[string]Usage
	// RateLimits is the latest state of the account's limits as JSON of the agent, nil if none
	// was reported.
	RateLimits() json.RawMessage
	// Model names the model of the thread and the models it was rerouted to, joined by plus
	// signs.
	Model() string
	// Close closes the agent's stdin, which makes it exit, and ends all calls. It may be
	// called more than once.
	Close() error
	// Done is closed when the agent's stdout ends and all its events are delivered.
	Done() <-chan struct{}
	// Login asks for the agent's login, and for its model provider as configured in cwd. It
	// needs no thread.
	Login(ctx context.Context, cwd string) (Login, error)
	// Models asks for the model that is configured in cwd, "" if none is, and for the models
	// that the agent knows; none with a model provider of the operator.
	Models(ctx context.Context, cwd string) (configured string, known []string, err error)
}

// Starter makes a session with a process from its streams.
type Starter func(Streams, Options) Session

// Streams are the stdin and stdout of the agent's process. The session owns both: no other
// code may use them.
type Streams struct {
	Stdin  io.WriteCloser
	Stdout io.Reader
}

// Options configure a session. A duration of zero means no limit, except for the first two
// timeouts: without ReadTimeout requests get DefaultReadTimeout, and without InitializeTimeout
// Initialize gets as long as other requests.
type Options struct {
	ClientVersion string // of symphony, such as "0.1.0"
	PID           int    // of the agent's process, for events (specification 10.4)
	// for the answer to a request, and for a blocked write (read_timeout_ms)
	ReadTimeout time.Duration
	// for Initialize: with a fresh home the first answer takes longer
	InitializeTimeout time.Duration
	// without a line from the agent during a turn (turn_timeout_ms)
	TurnTimeout  time.Duration
	StallTimeout time.Duration // without progress during a turn (stall_timeout_ms)
	// Busy reports whether a process that the agent started during this turn is alive. It is
	// called after StallTimeout without progress: if it returns true, as while a command runs,
	// the limit is TurnTimeout. May be nil.
	Busy func() bool
	// Unheard reports whether the agent can't be heard at present, because the link to its
	// machine is lost. Then it is not late with anything. Nil: it can always be heard.
	Unheard func() bool
	// OnApproval and OnQuestion decide how requests of the agent are answered; Ask passes them
	// to an operator.
	OnApproval Approval
	OnQuestion QuestionPolicy
	Ask        Asker
	// TrustRepository lets the agent obey files of the repository (agent.trust_repository).
	TrustRepository bool
	// Tools are offered to the model; CallTool runs a call. Calls run concurrently, and their
	// context ends with the turn, the request or the session.
	Tools    []Tool
	CallTool func(ctx context.Context, name string, args json.RawMessage) ToolResult
	// Program is symphony's own, and ToolsDir a directory of the run. Agents that know tools
	// only from MCP servers reach Tools through both. In a sandbox of symphony the agent finds
	// the directory at ToolsInside; "" for ToolsDir itself.
	Program, ToolsDir, ToolsInside string

	Now func() time.Time // the clock of events; nil for the system's
	// OnEvent is called with every event, in order, never concurrently. It may block: reading
	// goes on until a queue is full.
	OnEvent func(Event)
}

// Summary describes a call of one of Tools in a few words; "" if nothing does.
func (o *Options) Summary(name string, args json.RawMessage) string {
	for _, tool := range o.Tools {
		if tool.Name == name && tool.Summary != nil {
			return tool.Summary(args)
		}
	}
	return ""
}

// DefaultReadTimeout is used if Options.ReadTimeout is not set.
const DefaultReadTimeout = 5 * time.Second

// Server is the agent's report about itself.
type Server struct {
	UserAgent string // such as "symphony/0.169.0 (Debian 12)"
	Home      string // such as "/home/ann/.agent"; "" if it reports none
	Version   string // such as "0.169.0"; "" if the user agent names none
	// Limits is what can't be done with the agent, because it gets only a part of the protocol;
	// "" for an agent that gets all of it.
	Limits string
}

// ThreadParams describe a thread. If a policy is nil, the agent's configuration decides.
type ThreadParams struct {
	Name           string          // shown in the agent's own lists, such as "ABC-1: Mend the door"
	Cwd            string          // absolute
	ApprovalPolicy json.RawMessage // such as "on-request"
	// such as "workspace-write"; nil by default: with a sandbox the agent would trust the repository
	Sandbox json.RawMessage
	// the sandbox policy of the turns, from which an agent without Sandboxes gets its Sandbox
	TurnPolicy json.RawMessage
	// overrides of the agent's configuration, such as "features.goals": false
	Config map[string]any
	// Of the model; "" for the values in the agent's configuration. It gets the effort with
	// Config.
	Model, Effort, BaseInstructions, DeveloperInstructions string
	// Used are the tokens of a thread that is resumed, for agents that report only turns.
	Used Usage
}

// TurnParams describe a turn.
type TurnParams struct {
	Input          string  // the prompt, or the continuation guidance
	Items          []Input // the input in place of Input, if there are any
	Model, Effort  string  // from this turn on, such as "gpt-5.5" and "low"; "" changes nothing
	Cwd            string
	ApprovalPolicy json.RawMessage
	// such as {"type":"readOnly"}; sent with every turn, because the agent forgets it on resume
	SandboxPolicy json.RawMessage
	// the permission profile that applies instead of SandboxPolicy; "" for none
	Permissions string
}

// Input is a part of the input of a turn: a text, or an image by its path or by its URL, which
// may be a data URL.
type Input struct {
	Type string `json:"type"` // text, image, localImage
	Text string `json:"text,omitempty"`
	URL  string `json:"url,omitempty"`
	Path string `json:"path,omitempty"`
}

// ExecParams are a command that is run without a turn.
type ExecParams struct {
	Command       []string // such as ["git", "status"]
	Cwd           string
	Env           map[string]any // variables that differ from the agent's own; nil removes a variable
	SandboxPolicy json.RawMessage
	// the permission profile that applies instead of SandboxPolicy; "" for none
	Permissions string
	Timeout     time.Duration
}

// MostOutput is how many bytes of each output of a command are kept: the beginning.
const MostOutput = 1 << 20

// ExecResult is how the command ended.
type ExecResult struct {
	ExitCode int    `json:"exitCode"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
}

// Turn is how a turn ended.
type Turn struct {
	ID          string
	Status      string // completed, failed, interrupted, or another word of the agent
	LastMessage string // the agent's last message, "" if there was none
	Cost        *Cost  // nil if the agent does not report it
}

// Cost is an amount of money, such as 0.25 USD.
type Cost struct {
	Amount   float64
	Currency string
}

// String returns the amount with four digits, such as "0.2500 USD".
func (c *Cost) String() string { return fmt.Sprintf("%.4f %s", c.Amount, c.Currency) }

// Tool is a tool offered to the model (specification 10.5).
type Tool struct {
	Name        string // letters, digits, _ and -, such as "hand_over"
	Description string
	InputSchema json.RawMessage // JSON Schema of the arguments
	// Summary describes a call in a few words, such as "mutation issueUpdate", "" for
	// arguments that it can't read. Nil: the arguments say it.
	Summary func(args json.RawMessage) string
}

// ToolResult is the result of a call as the model reads it.
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
	// Paid is what they have cost, in millionths of a US dollar; 0 if the agent does not report that.
	Paid int64 `json:"paid,omitempty"`
}

// mostTokens is more than an agent can use.
const mostTokens = 1 << 40

// Plausible reports whether an agent can have used so much. Commands of an agent can report other
// numbers in its place, which would not count against a limit.
func (u Usage) Plausible() bool {
	counts := []int64{u.Input, u.CachedInput, u.Output, u.Reasoning, u.Total, u.Paid}
	return !slices.ContainsFunc(counts, func(n int64) bool { return n < 0 || n > mostTokens })
}

// Login is how an agent reaches its model.
type Login struct {
	Account  string // such as "chatgpt ann@example.com", "" without a login
	Needed   bool   // whether the model can't be used without a login
	Provider string // the service that runs the model, such as "azure", if there is no login
	EnvKey   string // the variable with its key, such as AZURE_KEY; "" if it needs none
}

// Errors that callers tell apart with errors.Is.
var (
	// ErrNoThread means that the agent did not store the thread, or that its model provider is
	// no longer in use. A new thread can be started.
	ErrNoThread = errors.New("the agent can't continue this thread")
	// ErrThreadBusy means that another live process holds the thread open.
	ErrThreadBusy = errors.New("another process has the thread open")
	// ErrNoTurn means that no turn is running.
	ErrNoTurn = errors.New("no turn is running")
	// ErrNoProbe means that the agent gave no usable answer to ProbeSandbox.
	ErrNoProbe = errors.New("the agent can't try its sandbox without a turn")
)

// Code classifies an Error. It is the error_code of a run, such as "turn_failed".
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
	CodeContextFull       Code = reconcile.CodeContextFull

	// CodePolicy: the provider of the model refuses the work by its rules.
	CodePolicy Code = reconcile.HoldPolicy
)

// Faults of the machine, the account or the network, which are not charged to an issue.
const (
	CodeIncompatible       Code = "codex_incompatible"
	CodeAgentIncompatible  Code = "agent_incompatible" // the same of another kind of agent
	CodeSandboxUnavailable Code = "sandbox_unavailable"
	CodeAgentAuth          Code = "agent_auth"
	CodeAgentQuota         Code = "agent_quota"
	CodeNetwork            Code = "network"
)

// UnknownKind is the error of a run, or of a request of another machine, that names a kind of
// agent which this program does not have.
func UnknownKind(kind string) error {
	return reconcile.NewError(
		string(CodeIncompatible),
		fmt.Sprintf("this symphony has no agent of the kind %q", kind),
		"use the same version of symphony on all machines",
	)
}

// Error is any failure of a session except the end of the caller's context.
type Error struct {
	Code    Code
	Message string // a single line
	// Cause is the class of the fault behind the error: of the last error before a stall
	// (network, agent_quota, agent_auth), or codex_incompatible with Said. "" if the Code says
	// it all.
	Cause Code
	// Said is the text that the agent wrote to its stdout in place of its first message, such
	// as "Update now? [Y/n]", else "".
	Said string
	Err  error // an error from the list above, or nil
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

// Saying returns the error with the text that the agent wrote to its stdout in place of its
// first message. cause is CodeIncompatible or CodeAgentIncompatible.
func (e *Error) Saying(said string, cause Code) *Error {
	out := *e
	out.Said = said
	out.Cause = cause
	out.Message += fmt.Sprintf("; to its stdout the agent wrote %q, which is no message of its protocol", said)
	return &out
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
