package mcpserver

import (
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// requestState is a request that waits for a decision.
type requestState struct {
	RequestID      string `json:"requestId"`
	AgentID        string `json:"agentId"`
	ConversationID string `json:"conversationId,omitempty"`
	CallID         string `json:"callId,omitempty" jsonschema:"the agent's id of the command or the change"`

	Method string `json:"method" jsonschema:"execCommandApproval, applyPatchApproval, permissions, question, directory"`

	Summary     string   `json:"summary"`
	Command     string   `json:"command,omitempty" jsonschema:"exactly what would be run"`
	Cwd         string   `json:"cwd,omitempty"`
	Paths       []string `json:"paths,omitempty" jsonschema:"the files that would be changed"`
	Diffs       []string `json:"diffs,omitempty" jsonschema:"of the files in paths"`
	CutBytes    int      `json:"cutBytes,omitempty" jsonschema:"of the diffs; read_events with the detail full has more"`
	GrantRoot   string   `json:"grantRoot,omitempty" jsonschema:"a directory in which the agent wants to write"`
	Permissions any      `json:"permissions,omitempty" jsonschema:"as the agent describes them"`

	Server string `json:"server,omitempty" jsonschema:"the MCP server of the agent that asks, or whose tool is to run"`

	OutsideSandbox bool   `json:"outsideSandbox,omitempty"`
	Reason         string `json:"reason,omitempty" jsonschema:"in the words of the agent"`

	Questions   []requestQuestion `json:"questions,omitempty"`
	ExpiresAt   time.Time         `json:"expiresAt" jsonschema:"it is denied then"`
	HowToDecide string            `json:"howToDecide"`
}

type requestQuestion struct {
	Question string   `json:"question"`
	Options  []string `json:"options,omitempty"`
	Other    bool     `json:"other,omitempty" jsonschema:"a text other than the options is accepted"`
	Optional bool     `json:"optional,omitempty"`

	Secret bool `json:"secret,omitempty" jsonschema:"a person answers it by symphony tell, unseen by models"`
}

// methods are the names of requests in the former protocol of agents.
var methods = map[reconcile.RequestKind]string{
	reconcile.CommandRequest:     "execCommandApproval",
	reconcile.FileChangeRequest:  "applyPatchApproval",
	reconcile.PermissionsRequest: "permissions",
	reconcile.QuestionRequest:    "question",
	reconcile.DirectoryRequest:   "directory",
}

// newRequestState describes a request, without the diffs of the files that it would change.
// byPerson is as in howToDecide.
func newRequestState(r reconcile.Request, byPerson bool) requestState {
	d := r.Detail
	s := requestState{
		RequestID:      r.ID(),
		AgentID:        r.Identifier,
		ConversationID: r.ThreadID,
		CallID:         d.CallID,
		Method:         methods[r.Kind],
		Summary:        r.Summary,
		Command:        d.Command,
		Cwd:            d.Cwd,
		CutBytes:       d.Cut,
		GrantRoot:      d.GrantRoot,
		Server:         d.Server,
		OutsideSandbox: r.Outside,
		Reason:         d.Reason,
		ExpiresAt:      r.ExpiresAt,
		HowToDecide:    howToDecide(r, byPerson),
	}
	if len(d.Permissions) > 0 {
		s.Permissions = d.Permissions
	}
	s.Paths = text.Map(d.Changes, func(c reconcile.RequestChange) string { return c.Path })
	for _, q := range d.Questions {
		options := text.Map(q.Options, func(o reconcile.RequestOption) string { return o.Label })
		s.Questions = append(s.Questions, requestQuestion{
			Question: q.Text,
			Options:  options,
			Other:    q.Other,
			Optional: q.Optional,
			Secret:   q.Secret,
		})
	}
	return s
}

// howToDecide says who decides a request, and by which command. byPerson: no tool decides it.
func howToDecide(r reconcile.Request, byPerson bool) string {
	how := view.HowToAnswer(r)
	if r.Kind == reconcile.DirectoryRequest {
		return "your user decides it, not a tool: " + how
	}
	if byPerson {
		return "your user decides it at the host, on the page or in a terminal: " + how
	}
	return "by decide_request, or in a terminal: " + how
}
