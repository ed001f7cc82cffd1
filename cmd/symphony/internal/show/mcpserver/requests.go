package mcpserver

import (
	"context"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

type (
	// requestState is a request that waits for a decision.
	requestState struct {
		RequestID      string            `json:"requestId"`
		AgentID        string            `json:"agentId"`
		ConversationID string            `json:"conversationId,omitempty"`
		CallID         string            `json:"callId,omitempty" jsonschema:"codex's id of the command or the change"`
		Method         string            `json:"method" jsonschema:"execCommandApproval, applyPatchApproval, permissions, question, directory"`
		Summary        string            `json:"summary"`
		Command        string            `json:"command,omitempty" jsonschema:"exactly what would be run"`
		Cwd            string            `json:"cwd,omitempty"`
		Paths          []string          `json:"paths,omitempty" jsonschema:"the files that would be changed"`
		Diffs          []string          `json:"diffs,omitempty" jsonschema:"of the files in paths; only list_requests has them"`
		CutBytes       int               `json:"cutBytes,omitempty" jsonschema:"how many bytes of the diffs were cut off"`
		GrantRoot      string            `json:"grantRoot,omitempty" jsonschema:"a directory in which the agent wants to write"`
		Permissions    any               `json:"permissions,omitempty" jsonschema:"as codex describes them"`
		Server         string            `json:"server,omitempty" jsonschema:"the MCP server of codex that asks, or whose tool is to run"`
		OutsideSandbox bool              `json:"outsideSandbox,omitempty"`
		Reason         string            `json:"reason,omitempty" jsonschema:"in the words of the agent"`
		Questions      []requestQuestion `json:"questions,omitempty"`
		ExpiresAt      time.Time         `json:"expiresAt" jsonschema:"it is denied then"`
		HowToDecide    string            `json:"howToDecide"`
	}
	requestQuestion struct {
		Question string   `json:"question"`
		Options  []string `json:"options,omitempty"`
		Other    bool     `json:"other,omitempty" jsonschema:"a text other than the options is accepted"`
		Optional bool     `json:"optional,omitempty"`
		Secret   bool     `json:"secret,omitempty" jsonschema:"a person should answer it with symphony answer, so that no model sees the answer"`
	}
	listRequestsIn struct {
		AgentID string `json:"agentId,omitempty" jsonschema:"only those of this agent"`
	}
	listRequestsOut struct {
		Requests []requestState `json:"requests" jsonschema:"oldest first"`
	}
	approveIn struct {
		RequestID  string `json:"requestId"`
		ForSession bool   `json:"forSession,omitempty" jsonschema:"also later requests like it, as long as codex runs"`
	}
	denyIn struct {
		RequestID string `json:"requestId"`
		Reason    string `json:"reason,omitempty" jsonschema:"for the log of the agent"`
	}
	answerIn struct {
		RequestID string   `json:"requestId"`
		Answers   []string `json:"answers" jsonschema:"one per question: a text, or labels of options, with commas between"`
	}
	decidedOut struct {
		RequestID string `json:"requestId"`
		Decision  string `json:"decision"`
		Taken     bool   `json:"taken" jsonschema:"the agent has received the decision"`
	}
)

// addRequestTools registers the tools that list and decide requests of agents.
func addRequestTools(t *tools, c caller) {
	a := c.agents
	addTool(
		t,
		"list_requests",
		reads(),
		c.listRequests,
		"List the open requests of agents, with whole diffs. Use it before you decide about a change of files. Do not use it to wait for "+
			"requests: wait_agent does.",
	)
	if t.byPerson {
		return
	}
	addTool(t, "approve", hints(true, false), func(ctx context.Context, in approveIn) (decidedOut, error) {
		return decide(ctx, a, in.RequestID, requests.Approval(in.ForSession))
	}, "Allow what an agent asks for. Ask your user first, unless you were told what you may approve. Do not use it for questions: "+
		"answer does that.")
	addTool(t, "deny", hints(false, false), func(ctx context.Context, in denyIn) (decidedOut, error) {
		return decide(ctx, a, in.RequestID, requests.Decision{
			How:    reconcile.DecideDeny,
			Reason: in.Reason,
		})
	}, "Refuse what an agent asks for. Use it for an approval or a question; the turn continues. Do not use it to end the turn: "+
		"interrupt does.")
	addTool(t, "answer", hints(false, false), func(ctx context.Context, in answerIn) (decidedOut, error) {
		return decide(ctx, a, in.RequestID, requests.Decision{
			How:   reconcile.DecideAnswer,
			Texts: in.Answers,
		})
	}, "Answer the questions of an agent. Use it if you or your user know the answers. Do not use it for a secret: a person answers that in "+
		"a terminal.")
}

func decide(ctx context.Context, a *agents.Agents, id string, d requests.Decision) (decidedOut, error) {
	r, err := a.DecideAsModel(ctx, id, d)
	return decidedOut{RequestID: id, Decision: string(r.Decision), Taken: !r.EndedAt.IsZero()}, err
}

// listRequests lists the open requests of an agent, or of all agents.
func (c caller) listRequests(ctx context.Context, in listRequestsIn) (listRequestsOut, error) {
	out := listRequestsOut{Requests: []requestState{}}
	if in.AgentID != "" {
		if _, err := c.agents.Find(ctx, in.AgentID); err != nil {
			return out, err
		}
	}
	open, err := c.agents.Requests(ctx)
	for _, r := range open {
		if in.AgentID != "" && r.Identifier != in.AgentID {
			continue
		}
		state := newRequestState(r)
		state.Diffs = text.Map(r.Detail.Changes, func(c reconcile.RequestChange) string { return c.Diff })
		out.Requests = append(out.Requests, state)
	}
	return out, err
}

// methods are the names of requests in the former protocol of codex.
var methods = map[reconcile.RequestKind]string{
	reconcile.CommandRequest:     "execCommandApproval",
	reconcile.FileChangeRequest:  "applyPatchApproval",
	reconcile.PermissionsRequest: "permissions",
	reconcile.QuestionRequest:    "question",
	reconcile.DirectoryRequest:   "directory",
}

func newRequestState(r reconcile.Request) requestState {
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
		HowToDecide:    howToDecide(r),
	}
	if len(d.Permissions) > 0 {
		s.Permissions = d.Permissions
	}
	s.Paths = text.Map(d.Changes, func(c reconcile.RequestChange) string { return c.Path })
	for _, q := range d.Questions {
		options := text.Map(q.Options, func(o reconcile.RequestOption) string { return o.Label })
		s.Questions = append(s.Questions, requestQuestion{q.Text, options, q.Other, q.Optional, q.Secret})
	}
	return s
}

func howToDecide(r reconcile.Request) string {
	if r.Kind == reconcile.DirectoryRequest {
		return "your user decides it, not a tool: " + view.HowToAnswer(r)
	}
	return "by a tool, if this server has one for it, or in a terminal: " + view.HowToAnswer(r)
}
