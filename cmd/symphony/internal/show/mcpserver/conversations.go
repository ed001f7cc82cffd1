package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/mcpserver/calls"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
)

type conversationParams struct {
	ID             string `json:"id,omitempty" jsonschema:"to repeat the call safely"`
	ConversationID string `json:"conversationId,omitempty" jsonschema:"one to continue, such as that of an ended agent"`
	Settings
	Config                map[string]any `json:"config,omitempty" jsonschema:"keys of the agent's config.toml"`
	BaseInstructions      string         `json:"baseInstructions,omitempty" jsonschema:"replace the agent's own"`
	DeveloperInstructions string         `json:"developerInstructions,omitempty"`
}

type newConversationOut struct {
	AgentID        string `json:"agentId"`
	ConversationID string `json:"conversationId"`
	Model          string `json:"model,omitempty"`
	Resumed        bool   `json:"resumed,omitempty" jsonschema:"it has earlier turns"`
}

// item is a part of the input of a turn.
type item struct {
	Type string `json:"type" jsonschema:"what it is"`
	Text string `json:"text,omitempty" jsonschema:"of a text"`
	URL  string `json:"url,omitempty" jsonschema:"of an image: data or https"`
	Path string `json:"path,omitempty" jsonschema:"of a localImage: absolute"`
}

// MessageParams are a message to a conversation.
type MessageParams struct {
	ConversationID string `json:"conversationId"`
	Items          []item `json:"items"`
	ID             string `json:"id,omitempty" jsonschema:"to repeat the call safely"`
}

// turnParams are a turn, with settings of its own.
type turnParams struct {
	MessageParams
	Settings
	Effort string `json:"effort,omitempty" jsonschema:"such as low or high"`
}

// turnOut is a turn that was accepted.
type turnOut struct {
	AgentID        string `json:"agentId"`
	ConversationID string `json:"conversationId"`
	TurnID         string `json:"turnId"`
	Status         string `json:"status" jsonschema:"queued, running, completed, failed or interrupted"`

	Steered bool `json:"steered,omitempty" jsonschema:"the input was added to this turn, which was running"`
}

type interruptParams struct {
	ConversationID string `json:"conversationId"`
}

type interruptOut struct {
	AgentID        string `json:"agentId"`
	ConversationID string `json:"conversationId"`

	TurnIDs []string `json:"turnIds" jsonschema:"the turns that were running or waiting, and have ended"`
}

// conversationTools open conversations with agents, and carry out turns in them.
type conversationTools struct {
	caller
	fullAccess bool // conversations without a sandbox are permitted
}

func (c conversationTools) addTo(t *calls.Tools) {
	calls.Add(t, calls.Tool{
		Name:        "new_conversation",
		Effect:      calls.Adds,
		Description: "Open a conversation with an agent: with settings of its own, or to continue one of an ended agent.",
	}, func(ctx context.Context, in calls.NestedOptional[conversationParams]) (newConversationOut, error) {
		return c.open(ctx, in.AgentID, in.Params)
	})
	calls.Add(t, calls.Tool{
		Name:   "send_user_message",
		Effect: calls.Works,
		Description: "Send input to a conversation: it is added to the running turn, or begins one. " +
			"Use it to correct an agent, or to give it more work.",
	}, func(ctx context.Context, in calls.Nested[MessageParams]) (turnOut, error) {
		return c.message(ctx, in.AgentID, in.Params)
	})
	calls.Add(t, calls.Tool{
		Name:   "send_user_turn",
		Effect: calls.Works,
		Description: "Begin a turn in a conversation, after those before it, and return immediately. " +
			"Use it for work that has to wait, or needs other settings.",
	}, func(ctx context.Context, in calls.Nested[turnParams]) (turnOut, error) {
		return c.turn(ctx, in.AgentID, in.Params)
	})
	calls.Add(t, calls.Tool{
		Name:        "interrupt",
		Effect:      calls.Ends,
		Description: "End the running turn of a conversation, and those that wait. kill_agent ends the agent.",
	}, func(ctx context.Context, in calls.Nested[interruptParams]) (interruptOut, error) {
		return c.interrupt(ctx, in.AgentID, in.Params.ConversationID)
	})
}

// open opens or continues a conversation, and waits until that is done.
func (c conversationTools) open(
	ctx context.Context,
	agentID string,
	p conversationParams,
) (newConversationOut, error) {
	a, err := c.agents.Find(ctx, agentID)
	if err != nil {
		return newConversationOut{}, err
	}
	policies, err := policiesFor(a, p.Settings, c.fullAccess)
	if err != nil {
		return newConversationOut{}, err
	}
	params := runner.ConversationCall{
		ThreadID:              p.ConversationID,
		Model:                 p.Model,
		Config:                p.Config,
		BaseInstructions:      p.BaseInstructions,
		DeveloperInstructions: p.DeveloperInstructions,
		Cwd:                   policies.cwd,
		ApprovalPolicy:        policies.approval,
		SandboxPolicy:         policies.sandbox,
	}
	call := reconcile.Call{ID: callID(agentID, p.ID), Verb: reconcile.CallConversation}
	if p.ConversationID != "" {
		known, open, err := c.resumable(ctx, agentID, p.ConversationID)
		switch {
		case err != nil:
			return newConversationOut{}, err
		case open:
			call.ID = known.ID
		case known.ThreadID != "":
			params.ThreadID = known.ThreadID
		}
	}
	var result runner.ConversationResult
	again := fmt.Sprintf(
		"it continues: new_conversation with the id %q waits for it again",
		chosenID(agentID, call.ID),
	)
	if err := c.do(ctx, agentID, call, params, &result, again); err != nil {
		return newConversationOut{}, err
	}
	return newConversationOut{
		AgentID:        agentID,
		ConversationID: result.ThreadID,
		Model:          result.Model,
		Resumed:        result.Resumed,
	}, nil
}

// resumable finds a conversation that an agent is to continue, which may be unknown here.
// open: it is open in this agent already. A conversation that is open in another live agent is
// refused.
func (c conversationTools) resumable(
	ctx context.Context,
	agentID, id string,
) (known reconcile.Call, open bool, err error) {
	known, found, err := c.find(ctx, agentID, id)
	if err != nil || !found {
		return known, false, err
	}
	if known.Agent == agentID {
		return known, known.Status != reconcile.CallFailed, nil
	}
	other, err := c.agents.Find(ctx, known.Agent)
	if err != nil {
		return known, false, err
	}
	if other.Outcome == "" {
		return known, false, reconcile.NewError(
			agents.CodeConflict,
			fmt.Sprintf("conversation %s is open in agent %s", id, known.Agent),
			"use that agent, or kill it before",
		)
	}
	return known, false, nil
}

// find finds a conversation by its thread, by its call, or by the id that the client chose.
func (c conversationTools) find(ctx context.Context, agentID, id string) (reconcile.Call, bool, error) {
	if id == "" { // a conversation that is being opened has no thread yet, which is empty, too
		return reconcile.Call{}, false, nil
	}
	for _, name := range []string{callID(agentID, id), id} {
		known, found, err := c.agents.DB.Clients.Conversation(ctx, name)
		if err != nil {
			return known, false, fmt.Errorf("find the conversation %s: %w", id, err)
		}
		if found {
			return known, true, nil
		}
	}
	return reconcile.Call{}, false, nil
}

// get returns a conversation of an agent.
func (c conversationTools) get(ctx context.Context, agentID, id string) (reconcile.Call, error) {
	known, found, err := c.find(ctx, agentID, id)
	if err != nil {
		return known, err
	}
	if !found {
		return known, reconcile.NewError(
			"not_found",
			fmt.Sprintf("agent %s has no conversation %q", agentID, id),
			"new_conversation opens one",
		)
	}
	if known.Agent != agentID {
		return known, reconcile.NewError(
			"not_found",
			fmt.Sprintf("conversation %s is one of agent %s", id, known.Agent),
			"name that agent, or continue it here with new_conversation",
		)
	}
	return known, agents.Failure(known)
}

// turn begins a turn.
func (c conversationTools) turn(ctx context.Context, agentID string, p turnParams) (turnOut, error) {
	a, err := c.agents.Find(ctx, agentID)
	if err != nil {
		return turnOut{}, err
	}
	known, err := c.get(ctx, agentID, p.ConversationID)
	if err != nil {
		return turnOut{}, err
	}
	items, err := inputs(p.Items)
	if err != nil {
		return turnOut{}, err
	}
	policies, err := policiesFor(a, p.Settings, c.fullAccess)
	if err != nil {
		return turnOut{}, err
	}
	// a turn without a policy uses the policy of its conversation
	if p.Sandbox != "" && policies.sandbox == nil {
		if err := opensInWorkspace(known); err != nil {
			return turnOut{}, err
		}
	}
	call := reconcile.Call{
		ID:           callID(agentID, p.ID),
		Verb:         reconcile.CallTurn,
		Conversation: known.ID,
	}
	turn, err := c.agents.Call(ctx, agentID, call, runner.TurnCall{
		Items:          items,
		Model:          p.Model,
		Effort:         p.Effort,
		Cwd:            policies.cwd,
		ApprovalPolicy: policies.approval,
		SandboxPolicy:  policies.sandbox,
	})
	return newTurnOut(turn, known), err
}

// opensInWorkspace refuses a conversation that was opened with another sandbox than
// workspace-write.
func opensInWorkspace(conversation reconcile.Call) error {
	var params runner.ConversationCall
	if err := json.Unmarshal(conversation.Params, &params); err != nil {
		return fmt.Errorf("parameters of the conversation %s: %w", conversation.ID, err)
	}
	if params.SandboxPolicy == nil {
		return nil
	}
	return reconcile.NewError(
		agents.CodeInvalid,
		"the conversation was opened with another sandbox than workspace-write",
		"open another conversation",
	)
}

func newTurnOut(turn, conversation reconcile.Call) turnOut {
	return turnOut{
		AgentID:        turn.Agent,
		ConversationID: cmp.Or(conversation.ThreadID, conversation.ID),
		TurnID:         turn.ID,
		Status:         string(turn.Status),
	}
}

// message adds a message to the running turn of a conversation. If there is none, or if the
// message began a turn before, it begins a turn.
func (c conversationTools) message(ctx context.Context, agentID string, p MessageParams) (turnOut, error) {
	if _, err := c.agents.Find(ctx, agentID); err != nil {
		return turnOut{}, err
	}
	known, err := c.get(ctx, agentID, p.ConversationID)
	if err != nil {
		return turnOut{}, err
	}
	items, err := inputs(p.Items)
	if err != nil {
		return turnOut{}, err
	}
	sent, err := c.agents.DB.Clients.CallsOf(ctx, known.RunID)
	if err != nil {
		return turnOut{}, fmt.Errorf("read the calls of agent %s: %w", agentID, err)
	}
	id := callID(agentID, p.ID)
	steer := reconcile.Call{
		ID:           id + steerSuffix,
		Verb:         reconcile.CallSteer,
		Conversation: known.ID,
	}
	turn, done := steerTarget(sent, steer)
	if turn == nil {
		return c.turn(ctx, agentID, turnParams{MessageParams: p})
	}
	out := newTurnOut(*turn, known)
	out.Steered = true
	if done {
		return out, nil
	}
	again := fmt.Sprintf("send it again with the id %q, so that it is not sent twice", chosenID(agentID, id))
	err = c.do(ctx, agentID, steer, runner.TurnCall{Items: items}, nil, again)
	if err != nil && exit.From(err).Code == "no_turn" {
		return c.turn(ctx, agentID, turnParams{MessageParams: p})
	}
	return out, err
}

// steerSuffix marks the call that steers a turn. If that turn just ended, the same message
// begins a new turn, in a call without the suffix.
const steerSuffix = ".steer"

// steerTarget returns the turn that a message is to be added to; nil if it is to begin a turn,
// or began a turn before. done: it was added.
func steerTarget(sent []reconcile.Call, steer reconcile.Call) (turn *reconcile.Call, done bool) {
	for _, c := range sent {
		switch {
		case c.ID+steerSuffix == steer.ID:
			return nil, false
		case c.ID == steer.ID && c.Status == reconcile.CallCompleted:
			return turn, true // calls are in the order of time
		case c.Verb == reconcile.CallTurn && c.Conversation == steer.Conversation && !c.StartedAt.IsZero():
			turn = &c
		}
	}
	if turn != nil && turn.Ended() {
		turn = nil
	}
	return turn, false
}

// interrupt ends the running turn of a conversation, and the waiting ones.
func (c conversationTools) interrupt(ctx context.Context, agentID, id string) (interruptOut, error) {
	out := interruptOut{AgentID: agentID, TurnIDs: []string{}}
	if _, err := c.agents.Find(ctx, agentID); err != nil {
		return out, err
	}
	known, err := c.get(ctx, agentID, id)
	if err != nil {
		return out, err
	}
	out.ConversationID = cmp.Or(known.ThreadID, known.ID)
	sent, err := c.agents.DB.Clients.CallsOf(ctx, known.RunID)
	if err != nil {
		return out, fmt.Errorf("read the calls of agent %s: %w", agentID, err)
	}
	for _, call := range sent {
		if call.Verb == reconcile.CallTurn && call.Conversation == known.ID && !call.Ended() {
			out.TurnIDs = append(out.TurnIDs, call.ID)
		}
	}
	call := reconcile.Call{
		ID:           callID(agentID, ""),
		Verb:         reconcile.CallInterrupt,
		Conversation: known.ID,
	}
	const hint = "call interrupt again; kill_agent ends the agent in any case"
	return out, c.do(ctx, agentID, call, struct{}{}, nil, hint)
}

// maxPrompt is how many characters of text the agent takes in a single input.
const maxPrompt = 1 << 20

// inputs checks the items of a turn.
func inputs(items []item) ([]agent.Input, error) {
	if len(items) == 0 {
		return nil, reconcile.NewError(
			agents.CodeInvalid,
			"items is empty",
			`send at least {"type":"text","text":…}`,
		)
	}
	var list []agent.Input
	length := 0
	for i, item := range items {
		in := agent.Input{Type: item.Type}
		switch item.Type {
		case "text":
			in.Text = item.Text
		case "image":
			in.URL = item.URL
		case "localImage":
			in.Path = item.Path
		}
		isEmpty := in.Text == "" && in.URL == "" && in.Path == ""
		if isEmpty || in.Path != "" && !filepath.IsAbs(in.Path) {
			return nil, reconcile.NewError(
				agents.CodeInvalid,
				fmt.Sprintf("items[%d] is not valid", i),
				`an item is {"type":"text","text":…}, {"type":"image","url":…} `+
					`or {"type":"localImage","path":an absolute path}`,
			)
		}
		list = append(list, in)
		length += utf8.RuneCountInString(in.Text)
	}
	if length > maxPrompt {
		return nil, reconcile.NewError(
			agents.CodeInvalid,
			fmt.Sprintf("the input has %d characters, and the agent takes %d", length, maxPrompt),
			"write the text to a file in its directory, and name the file in the prompt",
		)
	}
	return list, nil
}
