package agent

import (
	"encoding/json"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Names of events, of specification 10.4 and some more.
const (
	EventSessionStarted = "session_started" // a turn started; its thread and id are known
	EventStartupFailed  = "startup_failed"
	EventTurnCompleted  = "turn_completed"
	EventTurnFailed     = "turn_failed"
	EventTurnCancelled  = "turn_cancelled"
	// by a timeout, the agent's exit or the caller
	EventTurnEndedWithError   = "turn_ended_with_error"
	EventTurnInputRequired    = "turn_input_required"
	EventApprovalAutoApproved = "approval_auto_approved"
	EventApprovalDenied       = "approval_denied"
	EventApprovalRequired     = "approval_required"
	EventApprovalRequested    = "approval_requested" // an operator is asked
	EventApprovalGranted      = "approval_granted"   // by an operator
	EventQuestionAsked        = "question_asked"
	EventQuestionAnswered     = "question_answered"
	EventQuestionDeclined     = "question_declined"
	EventRequestExpired       = "request_expired"   // the time for an answer ran out
	EventRequestWithdrawn     = "request_withdrawn" // the request ended before a decision
	EventRequestRefused       = "request_refused"   // of an unknown kind
	EventUnsupportedToolCall  = "unsupported_tool_call"
	EventToolCallCompleted    = "tool_call_completed"
	EventToolCallFailed       = "tool_call_failed"
	EventNotification         = "notification"
	// an error that the agent reports, possibly before a retry
	EventError        = "agent_error"
	EventOtherMessage = "other_message"
	EventMalformed    = "malformed"
	// the agent gets only a part of the protocol: the message is Server.Limits
	EventLimited = "agent_limited"

	// Events of the worker.
	EventPrompt = "turn_prompt" // the text of a turn: a PromptEvent
	// a message from an operator to the agent: reconcile.Words
	EventTold = "operator_message"
	// a change that the agent made in the tracker: a reconcile.Mutation
	EventMutation = "tracker_mutation"
	// git hooks and settings of the agent that were undone: a GitUndoneEvent
	EventGitUndone = "git_configuration_undone"
	// the contents of the workspace at the end of the run: a host.WorkEnd
	EventWorkEnd = "work_end"
	// a host that the sandbox of symphony refused: a RefusedHost
	EventHostRefused = "host_refused"
)

// RefusedHost is the payload of EventHostRefused.
type RefusedHost struct {
	Host   string `json:"host"` // empty for one connection too many
	Port   int    `json:"port"` // 0 for what is no host
	Reason string `json:"reason"`
	// Detail is what the proxy of the company did; empty if it had no part in the refusal.
	Detail string `json:"detail,omitempty"`
	// Add is the line of the workflow that allows the host; empty if none does.
	Add string `json:"add"`
}

// String returns the host with the reason and the line, as people read them.
func (r RefusedHost) String() string {
	place := r.Host
	if place == "" {
		place = "a connection"
	}
	if r.Port != 0 {
		place = net.JoinHostPort(r.Host, strconv.Itoa(r.Port))
	}
	said := "the sandbox refused " + place + ": " + r.Reason
	if r.Detail != "" {
		said += " (" + r.Detail + ")"
	}
	if r.Add != "" {
		said += "; to allow it: " + r.Add
	}
	return said
}

// PromptEvent is the payload of EventPrompt.
type PromptEvent struct {
	Turn int    `json:"turn"`
	Text string `json:"text"`
}

// GitUndoneEvent is the payload of EventGitUndone.
type GitUndoneEvent struct {
	Names []string `json:"names"`
}

// Event is something that happened on the agent's stream, and a line of events.jsonl
// (specification 10.4).
type Event struct {
	No   int64     `json:"no,omitempty"` // in the log of a complete EventLog, from 1
	At   time.Time `json:"at"`
	Name string    `json:"event"`
	// of the agent's process, 0 if it is not known
	PID      int    `json:"codex_app_server_pid,omitempty"`
	ThreadID string `json:"thread_id,omitempty"` // may be a sub-agent's
	TurnID   string `json:"turn_id,omitempty"`
	Message  string `json:"message,omitempty"` // a short line for an operator
	// Routine marks events that tell an operator nothing, such as a change of the connection's
	// state.
	Routine bool `json:"routine,omitempty"`
	// the thread's tokens so far, nil if the event does not report them
	Usage *Usage `json:"usage,omitempty"`
	Item  *Item  `json:"item,omitempty"` // the item that started or ended, nil for other events
	// Raw is the agent's line, nil for the session's own events and for a line that is not
	// JSON. Events of the worker store their payload here. The log omits it if Item contains
	// all of it.
	Raw json.RawMessage `json:"payload,omitempty"`
	// Fragment marks a piece of something that a later event contains as a whole, such as a
	// message.
	Fragment bool `json:"-"`
}

// ItemKind is the kind of an Item.
type ItemKind string

// The kinds of items. ItemOther stands for all that no code needs to distinguish.
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

// Item is a part of a turn, such as a message or a command. Fields that do not belong to its
// kind are empty.
type Item struct {
	ID    string   `json:"id,omitempty"`
	Kind  ItemKind `json:"kind"`
	Ended bool     `json:"ended"` // false: it started
	// a word of the agent, such as "failed" or "declined"
	Status   string `json:"status,omitempty"`
	Text     string `json:"text,omitempty"` // of a message
	Command  string `json:"command,omitempty"`
	Cwd      string `json:"cwd,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty"`
	// Duration of a command in milliseconds.
	DurationMS *int64       `json:"duration_ms,omitempty"`
	Output     string       `json:"output,omitempty"` // of a command
	Changes    []FileChange `json:"changes,omitempty"`
	Tool       string       `json:"tool,omitempty"`
	// the request to a tool, such as "mutation issueUpdate"; short
	Call   string `json:"call,omitempty"`
	Result string `json:"result,omitempty"` // of a tool, or its error
}

// Failed reports whether the item ended without success.
func (i *Item) Failed() bool {
	return i.Ended &&
		(i.Status == "failed" || i.Status == "declined" || i.ExitCode != nil && *i.ExitCode != 0)
}

// Works reports whether the item does something, instead of saying or thinking it.
func (i *Item) Works() bool {
	return i != nil && i.Kind != ItemPrompt && i.Kind != ItemMessage && i.Kind != ItemReasoning
}

// Activity describes in a line the agent's work from this item on: the command or the call
// that begins, or the first line of a sentence. It is empty for other items.
func (i *Item) Activity() string {
	switch {
	case i == nil:
		return ""
	case i.Kind == ItemMessage && i.Ended:
		return strings.TrimSpace(text.FirstLine(i.Text))
	case i.Ended:
		return ""
	case i.Kind == ItemCommand:
		return text.OneLine(i.Command)
	case i.Kind == ItemTool || i.Kind == ItemMCPTool:
		return strings.TrimSpace(i.Tool + " " + i.Call)
	}
	return ""
}

// FileChange is a changed file of a patch. The path of a moved file is "OLD → NEW".
type FileChange = reconcile.RequestChange
