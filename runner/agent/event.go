package agent

import (
	"encoding/json"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Names of events: those of specification 10.4 and a few for what it does not name.
const (
	EventSessionStarted       = "session_started" // a turn began; thread and turn are known
	EventStartupFailed        = "startup_failed"
	EventTurnCompleted        = "turn_completed"
	EventTurnFailed           = "turn_failed"
	EventTurnCancelled        = "turn_cancelled"
	EventTurnEndedWithError   = "turn_ended_with_error" // by a clock, the agent's end or the caller
	EventTurnInputRequired    = "turn_input_required"
	EventApprovalAutoApproved = "approval_auto_approved"
	EventApprovalDenied       = "approval_denied"
	EventApprovalRequired     = "approval_required"
	EventApprovalRequested    = "approval_requested" // a person is asked
	EventApprovalGranted      = "approval_granted"   // by a person
	EventQuestionAsked        = "question_asked"
	EventQuestionAnswered     = "question_answered"
	EventQuestionDeclined     = "question_declined"
	EventRequestExpired       = "request_expired"   // the time for an answer ran out
	EventRequestWithdrawn     = "request_withdrawn" // the request ended before it was decided
	EventRequestRefused       = "request_refused"   // of an unknown kind
	EventUnsupportedToolCall  = "unsupported_tool_call"
	EventToolCallCompleted    = "tool_call_completed"
	EventToolCallFailed       = "tool_call_failed"
	EventNotification         = "notification"
	EventError                = "agent_error" // an error that the agent reports, perhaps before a retry
	EventOtherMessage         = "other_message"
	EventMalformed            = "malformed"

	// Those that a worker adds.
	EventPrompt    = "turn_prompt"              // the text that a turn was started with: a PromptEvent
	EventMutation  = "tracker_mutation"         // a change that the agent made in the tracker: a reconcile.Mutation
	EventGitUndone = "git_configuration_undone" // git hooks and settings of the agent that were undone: a GitUndoneEvent
)

// PromptEvent is the payload of EventPrompt.
type PromptEvent struct {
	Turn int    `json:"turn"`
	Text string `json:"text"`
}

// GitUndoneEvent is the payload of EventGitUndone.
type GitUndoneEvent struct {
	Names []string `json:"names"`
}

// Event is one thing that happened on the agent's stream, and a line of events.jsonl (specification 10.4).
type Event struct {
	At       time.Time `json:"at"`
	Name     string    `json:"event"`
	PID      int       `json:"codex_app_server_pid,omitempty"` // of the agent's process, 0 if it is not known
	ThreadID string    `json:"thread_id,omitempty"`            // may be a sub-agent's
	TurnID   string    `json:"turn_id,omitempty"`
	Message  string    `json:"message,omitempty"` // one short line for people
	// Routine: the event tells a person nothing, as a change of the connection's state.
	Routine bool   `json:"routine,omitempty"`
	Usage   *Usage `json:"usage,omitempty"` // the thread's tokens so far, nil if the event tells none
	Item    *Item  `json:"item,omitempty"`  // the piece of a turn that began or ended, nil for other events
	// Raw is the line as it came, nil for the session's own events and for a line that is not JSON. Events of the worker
	// have their payload here. The log leaves it out where Item has all of it.
	Raw json.RawMessage `json:"payload,omitempty"`
	// Fragment: a later event repeats this one as part of a whole, as pieces of a message do.
	Fragment bool `json:"-"`
}

// ItemKind is the kind of a piece of a turn.
type ItemKind string

// The kinds of items. Items that no code needs to tell apart are ItemOther.
const (
	ItemPrompt     ItemKind = "prompt"
	ItemMessage    ItemKind = "message"
	ItemReasoning  ItemKind = "reasoning"
	ItemCommand    ItemKind = "command"
	ItemFileChange ItemKind = "file_change"
	ItemTool       ItemKind = "tool"     // of the client
	ItemMCPTool    ItemKind = "mcp_tool" // of an MCP server
	ItemOther      ItemKind = "other"
)

// Item is a piece of a turn. Fields that do not belong to its kind are empty.
type Item struct {
	ID   string   `json:"id,omitempty"`
	Kind ItemKind `json:"kind"`
	// Ended: the item has ended. It began, otherwise.
	Ended    bool   `json:"ended"`
	Status   string `json:"status,omitempty"` // the agent's word, as "failed" or "declined"
	Text     string `json:"text,omitempty"`   // of a message
	Command  string `json:"command,omitempty"`
	Cwd      string `json:"cwd,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty"`
	// Duration of a command in milliseconds.
	DurationMS *int64       `json:"duration_ms,omitempty"`
	Output     string       `json:"output,omitempty"` // of a command
	Changes    []FileChange `json:"changes,omitempty"`
	Tool       string       `json:"tool,omitempty"`
	Result     string       `json:"result,omitempty"` // of a tool
}

// Failed reports whether the item ended without success.
func (i *Item) Failed() bool {
	return i.Ended && (i.Status == "failed" || i.Status == "declined" || i.ExitCode != nil && *i.ExitCode != 0)
}

// FileChange is one file of a patch. The path of a file that is moved is "OLD → NEW".
type FileChange = reconcile.RequestChange
