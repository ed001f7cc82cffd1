package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/reconcile"
)

// mainConversation is the conversation of an agent that a lean tool has spawned.
const mainConversation = "main"

type (
	leanSpawnIn struct {
		Place
		Prompt         string `json:"prompt" jsonschema:"the work, with everything that the agent has to know"`
		Model          string `json:"model,omitempty"`
		ApprovalPolicy string `json:"approvalPolicy,omitempty" jsonschema:"when it asks; default on-request"`
		Sandbox        string `json:"sandbox,omitempty" jsonschema:"default workspace-write; danger-full-access only if permitted"`
	}
	leanSendIn struct {
		AgentID string `json:"agentId"`
		Prompt  string `json:"prompt"`
		ID      string `json:"id,omitempty" jsonschema:"of your choice; a second call with it sends nothing"`
	}
	leanDecideIn struct {
		RequestID string   `json:"requestId"`
		Decision  string   `json:"decision" jsonschema:"approve_for_session also approves later requests like it"`
		Answers   []string `json:"answers,omitempty" jsonschema:"one for each question, in order, for the decision answer"`
		Reason    string   `json:"reason,omitempty" jsonschema:"of a denial"`
	}
)

// lean offers the few tools with which a model uses agents that have one conversation each.
type lean struct {
	conversations
	starter  starter
	elicitor *elicitor
}

// addTools registers the tools of this group that other groups do not have.
func (l lean) addTools(t *tools) {
	addCallTool(
		t,
		"spawn_agent",
		works(),
		l.spawn,
		"Start a coding agent in a directory, give it a prompt, and return immediately. Use it for work that can be done without you, "+
			"with worktree for several agents at once. Do not use it for an agent that exists: send_message gives that one more work.",
	)
	addTool(
		t,
		"send_message",
		works(),
		l.send,
		"Send a prompt to an agent: it is added to the running turn, or begins one. Use it to correct an agent or to give it more work. "+
			"It returns immediately and not with the reply: wait_agent waits for that.",
	)
	if !t.byPerson {
		addTool(
			t,
			"decide_request",
			hints(true, false),
			l.decide,
			"Approve, deny or answer what an agent asks. Ask your user first, unless you were told what you may approve. "+
				"Do not use it for a secret: a person answers that in a terminal.",
		)
	}
	addTool(t, "interrupt", hints(true, true), func(ctx context.Context, in agentIn) (interruptOut, error) {
		return l.interrupt(ctx, in.AgentID, mainConversation)
	}, "End the running turn of an agent, and those that wait. Use it if the agent does the wrong thing. Do not use it to correct the "+
		"agent while it works: send_message does.")
}

func (l lean) spawn(
	ctx context.Context, req *mcp.CallToolRequest, in leanSpawnIn,
) (*mcp.CallToolResult, turnOut, error) {
	items := []item{{Type: "text", Text: in.Prompt}}
	if _, err := inputs(items); err != nil {
		return nil, turnOut{}, err
	}
	in.ID = cmp.Or(in.ID, answeredAgent(req))
	call := l.starter.spawning(ctx, l.elicitor, req, in.Prompt)
	a, toAsk, err := l.starter.startIn(ctx, call, in.Place)
	if err != nil || len(toAsk) > 0 {
		return call.inputRequired(toAsk), turnOut{AgentID: a.Identifier}, err
	}
	out, err := l.firstTurn(ctx, a, in, items)
	return nil, out, err
}

// firstTurn gives a new agent its prompt.
func (l lean) firstTurn(
	ctx context.Context,
	a agents.Agent,
	in leanSpawnIn,
	items []item,
) (out turnOut, err error) {
	settings := Settings{Model: in.Model, ApprovalPolicy: in.ApprovalPolicy, Sandbox: in.Sandbox}
	if _, err = l.open(ctx, a.Identifier, conversationParams{
		ID:       mainConversation,
		Settings: settings,
	}); err == nil {
		out, err = l.turn(
			ctx,
			a.Identifier,
			turnParams{MessageParams: MessageParams{mainConversation, items, "first"}},
		)
	}
	if err != nil && in.ID == "" { // the host does not know the agent's id, so it could not end it
		err = errors.Join(err, l.agents.Kill(context.WithoutCancel(ctx), a.Identifier))
	}
	return out, err
}

func (l lean) send(ctx context.Context, in leanSendIn) (turnOut, error) {
	return l.message(ctx, in.AgentID, MessageParams{mainConversation, []item{{
		Type: "text",
		Text: in.Prompt,
	}}, in.ID})
}

func (l lean) decide(ctx context.Context, in leanDecideIn) (decidedOut, error) {
	d := requests.Decision{
		How:    reconcile.RequestDecision(in.Decision),
		Reason: in.Reason,
		Texts:  in.Answers,
	}
	switch d.How {
	case reconcile.DecideApprove, reconcile.DecideForSession, reconcile.DecideDeny, reconcile.DecideAnswer:
		return decide(ctx, l.agents, in.RequestID, d)
	}
	return decidedOut{}, reconcile.NewError(
		agents.CodeInvalid,
		fmt.Sprintf("unknown decision %q", in.Decision),
		"use approve, approve_for_session, deny or answer",
	)
}
