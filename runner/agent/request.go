package agent

import (
	"context"
	"encoding/json"

	"github.com/symphony-cron/symphony/reconcile"
)

// Approval describes how requests for approval are answered (specification 10.5).
type Approval int

const (
	// ApprovalApprove grants requests: commands and patches for the session, permissions for
	// the turn.
	ApprovalApprove Approval = iota
	// ApprovalDeny declines; the turn goes on.
	ApprovalDeny
	// ApprovalFail declines and ends the turn with approval_required.
	ApprovalFail
	// ApprovalAsk passes the request to an operator (Options.Ask).
	ApprovalAsk
)

// QuestionPolicy describes how questions are answered.
type QuestionPolicy int

const (
	// QuestionFail ends the turn with turn_input_required.
	QuestionFail QuestionPolicy = iota
	// QuestionAsk passes them to an operator (Options.Ask).
	QuestionAsk
)

// RequestKind is the kind of an agent's request to an operator, such as the approval of a
// command.
type RequestKind = reconcile.RequestKind

// The kinds of requests.
const (
	RequestCommand    = reconcile.CommandRequest
	RequestFileChange = reconcile.FileChangeRequest
	// also whether a tool of an MCP server may run
	RequestPermissions = reconcile.PermissionsRequest
	RequestQuestion    = reconcile.QuestionRequest
)

// Request is a request of the agent that an operator decides.
type Request struct {
	Kind     RequestKind
	ThreadID string // may be a sub-agent's
	ItemID   string // of the command or the patch that waits, "" for a question
	// Summary is a line that lists everything that an approval grants, such as "network, write
	// /opt: make install". Only commands, which are complete in Command, and questions are
	// cut.
	Summary string
	Reason  string // given by the agent, or ""
	// Command and Cwd belong to RequestCommand, Changes and GrantRoot to RequestFileChange,
	// Server and Questions to RequestQuestion. Permissions is JSON of the agent: the
	// permissions of RequestPermissions, or additional ones of a command; for a tool of an MCP
	// server it describes the tool.
	Command     string
	Cwd         string
	Changes     []FileChange
	GrantRoot   string
	Permissions json.RawMessage
	Server      string // the MCP server that asks, or whose tool it is
	Questions   []Question
	// OutsideSandbox is set if an approval allows something outside the sandbox, or may do so.
	OutsideSandbox bool
}

// Question is a question of a Request, Option a suggested answer.
type (
	Question = reconcile.RequestQuestion
	Option   = reconcile.RequestOption
)

// Decision is an operator's answer to a Request. The zero value declines it and answers no
// question.
type Decision struct {
	Approve    bool
	ForSession bool // with Approve: also later requests like it in this session
	Reason     string
	Answers    map[string][]string // by the questions' ids
	Expired    bool                // there was no decision in time
	By         string              // who decided, for the event; "" without a decision
	// Sent, if set, is called after the answer is written to the agent. It is not called if
	// the request ended first.
	Sent func()
}

// Asker decides a Request. It is called in a new goroutine, and the turn's timeouts are paused
// until it returns. ctx ends with the turn, the request or the session; a later decision is
// not sent.
type Asker func(ctx context.Context, r Request) Decision
