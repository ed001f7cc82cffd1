package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/mcpserver/calls"
	"github.com/symphony-cron/symphony/reconcile"
)

// mainConversation is the conversation of an agent that a lean tool spawned.
const mainConversation = "main"

type leanSpawnIn struct {
	Place
	Prompt         string `json:"prompt" jsonschema:"the work, with everything that the agent has to know"`
	Model          string `json:"model,omitempty"`
	ApprovalPolicy string `json:"approvalPolicy,omitempty" jsonschema:"when it asks; default on-request"`

	Sandbox string `json:"sandbox,omitempty" jsonschema:"default workspace-write; danger-full-access only if permitted"`
}

type leanSendIn struct {
	AgentID string `json:"agentId"`
	Prompt  string `json:"prompt"`
	ID      string `json:"id,omitempty" jsonschema:"of your choice; a second call with it sends nothing"`
}

type leanDecideIn struct {
	RequestID string   `json:"requestId"`
	Decision  string   `json:"decision" jsonschema:"approve_for_session also approves later requests like it"`
	Answers   []string `json:"answers,omitempty" jsonschema:"one for each question, in order, for the decision answer"`
	Reason    string   `json:"reason,omitempty" jsonschema:"of a denial"`
}

// leanTools are the few tools with which a model uses agents of a single conversation each.
type leanTools struct {
	conversations conversationTools
	decisions     decisionTools
	starter       starter
	elicitor      *elicitor
}

// addTo registers the tools of this group that other groups do not have.
func (l leanTools) addTo(t *calls.Tools) {
	calls.AddForHost(t, calls.Tool{
		Name:   "spawn_agent",
		Effect: calls.Works,
		Description: "Start a coding agent of symphony in the background with a prompt, and return immediately. " +
			"Use it to delegate work, also to several agents in parallel, each with a worktree; " +
			"unlike a subagent of yours it goes on when you end. " +
			"Do not use it for an agent that exists: send_message gives that one more work.",
	}, l.spawn)
	calls.Add(t, calls.Tool{
		Name:   "send_message",
		Effect: calls.Works,
		Description: "Send a prompt to an agent: it is added to the running turn, or begins one. " +
			"Use it to correct an agent or to give it more work. " +
			"It returns immediately and not with the reply: wait_agent waits for that.",
	}, l.send)
	if !l.decisions.byPerson {
		calls.Add(t, calls.Tool{
			Name:   "decide_request",
			Effect: calls.Permits,
			Description: "Approve, deny or answer what an agent asks. " +
				"Ask your user first, unless you were told what you may approve. " +
				"Do not use it for a secret: a person answers that in a terminal.",
		}, l.decide)
	}
	calls.Add(t, calls.Tool{
		Name:   "interrupt",
		Effect: calls.Ends,
		Description: "End the running turn of an agent, and those that wait. " +
			"Use it if the agent does the wrong thing. " +
			"Do not use it to correct the agent while it works: send_message does.",
	}, func(ctx context.Context, in agentIn) (interruptOut, error) {
		return l.conversations.interrupt(ctx, in.AgentID, mainConversation)
	})
}

func (l leanTools) spawn(
	ctx context.Context,
	req *mcp.CallToolRequest,
	in leanSpawnIn,
) (*mcp.CallToolResult, turnOut, error) {
	prompt, err := promptItems(in.Prompt)
	if err != nil { // before there is an agent
		return nil, turnOut{}, err
	}
	_, err = policiesFor(agents.Agent{}, in.settings(), l.conversations.fullAccess)
	if err != nil {
		return nil, turnOut{}, err
	}
	in.ID = cmp.Or(in.ID, answeredAgent(req))
	began := l.starter.env.Now()
	l.elicitor.takeAnswers(ctx, req)
	call := newSpawning(l.elicitor.asker(req), req, began, in.Prompt)
	a, toAsk, err := l.starter.start(ctx, call, in.Place)
	if err != nil || len(toAsk) > 0 {
		return call.asker.inputRequired(toAsk), turnOut{AgentID: a.Identifier}, err
	}
	out, err := l.firstTurn(ctx, a.Identifier, in, prompt)
	if err == nil {
		return nil, out, nil
	}
	// An agent without a conversation is of no use, and one whose id the host does not know
	// could not be ended.
	if in.ID == "" || l.isUseless(ctx, a.Identifier) {
		err = errors.Join(err, l.starter.agents.Kill(context.WithoutCancel(ctx), a.Identifier))
	}
	return nil, out, err
}

// isUseless reports whether the only conversation of an agent could not be opened.
func (l leanTools) isUseless(ctx context.Context, agentID string) bool {
	main, found, err := l.conversations.find(context.WithoutCancel(ctx), agentID, mainConversation)
	return err == nil && found && main.Status == reconcile.CallFailed
}

// settings are those of the agent's conversation.
func (in leanSpawnIn) settings() Settings {
	return Settings{Model: in.Model, ApprovalPolicy: in.ApprovalPolicy, Sandbox: in.Sandbox}
}

// firstTurn gives a new agent its prompt.
func (l leanTools) firstTurn(
	ctx context.Context,
	agentID string,
	in leanSpawnIn,
	prompt []item,
) (turnOut, error) {
	_, err := l.conversations.open(ctx, agentID, conversationParams{ID: mainConversation, Settings: in.settings()})
	if err != nil {
		return turnOut{}, err
	}
	message := MessageParams{ConversationID: mainConversation, Items: prompt, ID: "first"}
	return l.conversations.turn(ctx, agentID, turnParams{MessageParams: message})
}

// promptItems returns a prompt as the items of a turn.
func promptItems(prompt string) ([]item, error) {
	if strings.TrimSpace(prompt) == "" {
		return nil, reconcile.NewError(agents.CodeInvalid, "prompt is empty", "say what the agent is to do")
	}
	items := []item{{Type: "text", Text: prompt}}
	_, err := inputs(items)
	return items, err
}

func (l leanTools) send(ctx context.Context, in leanSendIn) (turnOut, error) {
	items, err := promptItems(in.Prompt)
	if err != nil {
		return turnOut{}, err
	}
	return l.conversations.message(ctx, in.AgentID, MessageParams{
		ConversationID: mainConversation,
		Items:          items,
		ID:             in.ID,
	})
}

func (l leanTools) decide(ctx context.Context, in leanDecideIn) (decidedOut, error) {
	d := requests.Decision{
		How:    reconcile.RequestDecision(in.Decision),
		Reason: in.Reason,
		Texts:  in.Answers,
	}
	switch d.How {
	case reconcile.DecideApprove, reconcile.DecideForSession, reconcile.DecideDeny, reconcile.DecideAnswer:
		return l.decisions.decide(ctx, in.RequestID, d)
	}
	return decidedOut{}, reconcile.NewError(
		agents.CodeInvalid,
		fmt.Sprintf("unknown decision %q", in.Decision),
		"use approve, approve_for_session, deny or answer",
	)
}
