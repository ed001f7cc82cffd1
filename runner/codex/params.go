package codex

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/wire"
)

// origin are the members of parameters and results that say to which thread, turn and item
// they belong.
type origin struct {
	ThreadID, TurnID, ItemID string
	Thread                   struct{ ID string }
	Turn                     wireTurn
	// of the first version of the protocol, instead of ThreadID and ItemID
	ConversationID, CallID string
}

func (o *origin) threadID() string { return cmp.Or(o.ThreadID, o.Thread.ID, o.ConversationID) }

func (o *origin) turnID() string { return cmp.Or(o.TurnID, o.Turn.ID) }

func (o *origin) itemID() string { return cmp.Or(o.ItemID, o.CallID) }

// from returns the origin of parameters that embed it.
func (o *origin) from() *origin { return o }

type wireTurn struct {
	ID, Status string
	Items      []wireItem
	Error      *turnError
}

// notification are the parameters of a notification.
type notification interface {
	from() *origin
	// line describes the notification for an operator.
	line(method string) string
}

// readNotification reads the parameters of a notification.
func readNotification(m *wire.Message) notification {
	switch m.Method {
	case "turn/completed", "turn/failed", "turn/cancelled":
		return wire.Read[turnEnded](m.Params)
	case "error":
		return wire.Read[errorReported](m.Params)
	case "item/started", "item/completed":
		return wire.Read[itemChanged](m.Params)
	case "item/fileChange/patchUpdated":
		return wire.Read[patchUpdated](m.Params)
	case "serverRequest/resolved":
		return wire.Read[requestResolved](m.Params)
	case "thread/tokenUsage/updated":
		return wire.Read[tokensUsed](m.Params)
	case "account/rateLimits/updated":
		return wire.Read[limitsUpdated](m.Params)
	case "model/rerouted":
		return wire.Read[modelRerouted](m.Params)
	case "mcpServer/startupStatus/updated":
		return wire.Read[serverStarts](m.Params)
	}
	return wire.Read[remark](m.Params)
}

// remark are the parameters of a notification that only tells something, and the members that
// other notifications may have, too.
type remark struct {
	origin
	Status                            json.RawMessage // a word or an object
	Message, Summary, Details, Reason string
}

func (p *remark) line(method string) string {
	said := wire.Join(words(strings.TrimPrefix(method, "item/")), words(p.statusWord()))
	return wire.Join(said, cmp.Or(wire.Join(p.Summary, p.Details), p.Message))
}

// statusWord returns the status, which is a word or an object such as
// {"type":"active","activeFlags":["waitingOnApproval"]}.
func (p *remark) statusWord() string {
	var word string
	var object struct{ Type string }
	wire.Unmarshal(p.Status, &word)
	wire.Unmarshal(p.Status, &object)
	return cmp.Or(word, object.Type)
}

// turnEnded are the parameters of a notification about the end of a turn. Codex sends
// turn/completed only; specification 10.3 also names methods for failure and cancellation.
type turnEnded struct {
	origin
	Error           *turnError
	Message, Reason string
}

// Final statuses of a turn.
const (
	statusCompleted   = "completed"
	statusFailed      = "failed"
	statusInterrupted = "interrupted"
)

// ending returns how the turn ended.
func (p *turnEnded) ending(method string) (status string, err *turnError) {
	status = p.Turn.Status
	err = cmp.Or(p.Turn.Error, p.Error)
	reason := cmp.Or(p.Reason, p.Message)
	if err == nil && reason != "" {
		err = &turnError{Message: reason}
	}
	switch {
	case method == "turn/cancelled":
		status = statusInterrupted
	case method == "turn/failed", status == "" && err != nil:
		status = statusFailed
	case status == "":
		status = statusCompleted
	}
	return status, err
}

func (p *turnEnded) line(method string) string {
	status, err := p.ending(method)
	return wire.Join("turn "+status, errorText(err))
}

// errorReported are the parameters of error.
type errorReported struct {
	origin
	Error     *turnError
	Message   string
	WillRetry bool
}

func (p *errorReported) line(string) string {
	line := cmp.Or(errorText(p.Error), p.Message, "error")
	if p.Error != nil {
		line = wire.Join(line, p.Error.Details)
	}
	if p.WillRetry {
		return "retrying: " + line
	}
	return line
}

// itemChanged are the parameters of item/started and item/completed.
type itemChanged struct {
	origin
	Item wireItem
}

func (p *itemChanged) line(method string) string { return describeItem(&p.Item, endsItem(method)) }

func endsItem(method string) bool { return method == "item/completed" }

// patchUpdated are the parameters of item/fileChange/patchUpdated.
type patchUpdated struct {
	remark
	Changes []wireChange
}

// requestResolved are the parameters of serverRequest/resolved.
type requestResolved struct {
	remark
	RequestID json.RawMessage
}

// tokensUsed are the parameters of thread/tokenUsage/updated.
type tokensUsed struct {
	remark
	TokenUsage json.RawMessage
}

// limitsUpdated are the parameters of account/rateLimits/updated.
type limitsUpdated struct {
	remark
	RateLimits json.RawMessage
}

// modelRerouted are the parameters of model/rerouted.
type modelRerouted struct {
	origin
	FromModel, ToModel, Reason string
}

func (p *modelRerouted) line(string) string {
	return wire.Join("model "+p.ToModel+" instead of "+p.FromModel, words(p.Reason))
}

// serverStarts are the parameters of mcpServer/startupStatus/updated.
type serverStarts struct {
	remark
	Name  string
	Error *turnError
}

func (p *serverStarts) line(string) string {
	return wire.Join("MCP server "+p.Name+" is "+words(p.statusWord()), errorText(p.Error))
}

// demand are the members that requests have in common.
type demand struct {
	origin
	Cwd, Reason string
}

// toolCall are the parameters of item/tool/call.
type toolCall struct {
	Tool      string
	Arguments json.RawMessage
}

// commandAsked are the parameters of item/commandExecution/requestApproval, and of
// execCommandApproval in the first version of the protocol.
type commandAsked struct {
	demand
	Kind                   string
	Command                json.RawMessage
	AdditionalPermissions  json.RawMessage
	NetworkApprovalContext *struct{ Host, Protocol string }
}

// patchAsked are the parameters of item/fileChange/requestApproval.
type patchAsked struct {
	demand
	GrantRoot string
	// by path, of applyPatchApproval in the first version of the protocol
	FileChanges map[string]reviewedFile
}

// reviewedFile is a file of a patch in the first version of the protocol.
type reviewedFile struct {
	Type, Content string
	UnifiedDiff   string `json:"unified_diff"`
	MovePath      string `json:"move_path"`
}

// reviewedChanges are the changes of a patch in the first version of the protocol, by path.
func (p *patchAsked) reviewedChanges() []agent.FileChange {
	return text.Map(slices.Sorted(maps.Keys(p.FileChanges)), func(path string) agent.FileChange {
		c := p.FileChanges[path]
		return agent.FileChange{
			Path: moved(path, c.MovePath),
			Kind: c.Type,
			Diff: cmp.Or(c.UnifiedDiff, signed(c.Type, c.Content)),
		}
	})
}

// permissionsAsked are the parameters of item/permissions/requestApproval.
type permissionsAsked struct {
	demand
	Permissions json.RawMessage
}

// inputAsked are the parameters of item/tool/requestUserInput.
type inputAsked struct {
	demand
	Questions []struct {
		ID, Header, Question string
		IsOther, IsSecret    bool
		Options              []agent.Option
	}
}

// elicitation are the parameters of mcpServer/elicitation/request.
type elicitation struct {
	demand
	ServerName, Message string
	RequestedSchema     json.RawMessage
	Meta                json.RawMessage `json:"_meta"`
}
