package agent

import (
	"context"
	"encoding/json"

	"github.com/symphony-cron/symphony/reconcile"
)

// Approval says how requests for approval are answered (specification 10.5).
type Approval int

const (
	// ApprovalApprove grants what is asked: commands and patches for the session, permissions for the turn.
	ApprovalApprove Approval = iota
	// ApprovalDeny declines; the turn goes on.
	ApprovalDeny
	// ApprovalFail declines and ends the turn with approval_required.
	ApprovalFail
	// ApprovalAsk passes the request to a person (Options.Ask).
	ApprovalAsk
)

// QuestionPolicy says how questions and forms of MCP servers are answered.
type QuestionPolicy int

const (
	// QuestionFail ends the turn with turn_input_required; forms are declined.
	QuestionFail QuestionPolicy = iota
	// QuestionAsk passes both to a person (Options.Ask).
	QuestionAsk
)

// RequestKind is what an agent asks a person for.
type RequestKind = reconcile.RequestKind

// The kinds of requests.
const (
	RequestCommand     = reconcile.CommandRequest
	RequestFileChange  = reconcile.FileChangeRequest
	RequestPermissions = reconcile.PermissionsRequest // also: may a tool of an MCP server run
	RequestQuestion    = reconcile.QuestionRequest    // also: a form of an MCP server
)

// Request is a request of the agent's that a person decides.
type Request struct {
	Kind     RequestKind
	ThreadID string // may be a sub-agent's
	TurnID   string
	ItemID   string
	// Summary is one line with all that is granted by a yes. Only commands, which Command has whole, and questions are cut.
	Summary string
	Reason  string // the agent's own, "" if it gave none
	// Command and Cwd belong to RequestCommand, Changes and GrantRoot to RequestFileChange, Server and Questions to
	// RequestQuestion. Permissions are as the agent sent them: of RequestPermissions, or those that a command would get
	// besides; for a tool of an MCP server they describe the tool.
	Command     string
	Cwd         string
	Changes     []FileChange
	GrantRoot   string
	Permissions json.RawMessage
	Server      string // the MCP server that asks, or whose tool it is
	Questions   []Question
	// OutsideSandbox: what is granted runs without a sandbox, or it is not certain that it runs inside.
	OutsideSandbox bool
}

// Question is one of those that are asked together, Option an answer that is offered.
type (
	Question = reconcile.RequestQuestion
	Option   = reconcile.RequestOption
)

// Decision is a person's answer to a Request. The zero value declines, and answers nothing.
type Decision struct {
	Approve    bool
	ForSession bool // with Approve: also the next requests like it in this process
	Reason     string
	Answers    map[string][]string // by the questions' ids
	Expired    bool                // the time for an answer ran out
	By         string              // who decided, for the event; "" if no person did
	// Sent, if set, is called once the agent has been told. It is not called if the request ended first.
	Sent func()
}

// Asker decides a Request. It runs in a goroutine of its own, and the clocks of the turn stand still meanwhile. ctx ends
// with the turn, the request and the session; a decision that comes later is not sent.
type Asker func(ctx context.Context, r Request) Decision
