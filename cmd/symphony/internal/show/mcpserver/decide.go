package mcpserver

import (
	"context"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/mcpserver/calls"
	"github.com/symphony-cron/symphony/reconcile"
)

type listRequestsIn struct {
	AgentID string `json:"agentId,omitempty" jsonschema:"only those of this agent"`
}

type listRequestsOut struct {
	Requests []requestState `json:"requests" jsonschema:"oldest first"`
}

type approveIn struct {
	RequestID  string `json:"requestId"`
	ForSession bool   `json:"forSession,omitempty" jsonschema:"also later requests like it, as long as the agent runs"`
}

type denyIn struct {
	RequestID string `json:"requestId"`
	Reason    string `json:"reason,omitempty" jsonschema:"for the log of the agent"`
}

type answerIn struct {
	RequestID string   `json:"requestId"`
	Answers   []string `json:"answers" jsonschema:"one per question: a text, or labels of options, with commas between"`
}

type decidedOut struct {
	RequestID string `json:"requestId"`
	Decision  string `json:"decision"`
	Taken     bool   `json:"taken" jsonschema:"the agent has received the decision"`
}

// decisionTools list and decide requests of agents.
type decisionTools struct {
	agents   *agents.Agents
	byPerson bool   // no tool decides
	tools    string // that decide, as in howToDecide
}

func (d decisionTools) addTo(t *calls.Tools) {
	calls.Add(t, calls.Tool{
		Name:   "list_requests",
		Effect: calls.Reads,
		Description: "List the open requests of agents, with whole diffs. " +
			"Use it before you decide about a change of files. " +
			"Do not use it to wait for requests: wait_agent does.",
	}, d.list)
	if d.byPerson {
		return
	}
	calls.Add(t, calls.Tool{
		Name:   "approve",
		Effect: calls.Permits,
		Description: "Allow what an agent asks for. " +
			"Ask your user first, unless you were told what you may approve. " +
			"Do not use it for questions: answer does that.",
	}, d.approve)
	calls.Add(t, calls.Tool{
		Name:   "deny",
		Effect: calls.Adds,
		Description: "Refuse what an agent asks for. " +
			"Use it for an approval or a question; the turn continues. " +
			"Do not use it to end the turn: interrupt does.",
	}, d.deny)
	calls.Add(t, calls.Tool{
		Name:   "answer",
		Effect: calls.Adds,
		Description: "Answer the questions of an agent. " +
			"Use it if you or your user know the answers. " +
			"Do not use it for a secret: a person answers that in a terminal.",
	}, d.answer)
}

// list lists the open requests of an agent, or of all agents.
func (d decisionTools) list(ctx context.Context, in listRequestsIn) (listRequestsOut, error) {
	out := listRequestsOut{Requests: []requestState{}}
	if in.AgentID != "" {
		if _, err := d.agents.Find(ctx, in.AgentID); err != nil {
			return out, err
		}
	}
	open, err := d.agents.Requests(ctx)
	if err != nil {
		return out, err
	}
	var diffs [][]reconcile.RequestChange
	for _, r := range open {
		if in.AgentID != "" && r.Identifier != in.AgentID {
			continue
		}
		out.Requests = append(out.Requests, newRequestState(r, d.tools))
		diffs = append(diffs, r.Detail.Changes)
	}
	out.addDiffs(diffs)
	return out, nil
}

// addDiffs adds the diffs of each request, as much of them as an answer can have.
func (o *listRequestsOut) addDiffs(of [][]reconcile.RequestChange) {
	left := resultTokens - calls.TokensOf(o)
	for i, changes := range of {
		for _, c := range changes {
			kept := calls.Within(c.Diff, len(c.Diff), max(0, left-noteTokens))
			left -= calls.TokensOf(kept)
			o.Requests[i].Diffs = append(o.Requests[i].Diffs, kept)
			o.Requests[i].CutBytes += len(c.Diff) - len(kept)
		}
	}
}

func (d decisionTools) approve(ctx context.Context, in approveIn) (decidedOut, error) {
	return d.decide(ctx, in.RequestID, requests.Approval(in.ForSession))
}

func (d decisionTools) deny(ctx context.Context, in denyIn) (decidedOut, error) {
	return d.decide(ctx, in.RequestID, requests.Decision{How: reconcile.DecideDeny, Reason: in.Reason})
}

func (d decisionTools) answer(ctx context.Context, in answerIn) (decidedOut, error) {
	return d.decide(ctx, in.RequestID, requests.Decision{How: reconcile.DecideAnswer, Texts: in.Answers})
}

// decide stores a decision, which is refused if only a person may take it.
func (d decisionTools) decide(
	ctx context.Context,
	requestID string,
	decision requests.Decision,
) (decidedOut, error) {
	r, err := d.agents.DecideAsModel(ctx, requestID, decision)
	return decidedOut{
		RequestID: requestID,
		Decision:  string(r.Decision),
		Taken:     !r.EndedAt.IsZero(),
	}, err
}
