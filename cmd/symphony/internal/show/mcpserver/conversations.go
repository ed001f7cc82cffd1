package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
)

type (
	conversationParams struct {
		ID             string `json:"id,omitempty" jsonschema:"of your choice; a second call with it returns the same conversation"`
		ConversationID string `json:"conversationId,omitempty" jsonschema:"one to continue, such as that of an ended agent"`
		Settings
		Config                map[string]any `json:"config,omitempty" jsonschema:"keys of codex's config.toml"`
		BaseInstructions      string         `json:"baseInstructions,omitempty" jsonschema:"replace codex's own"`
		DeveloperInstructions string         `json:"developerInstructions,omitempty"`
	}
	newConversationOut struct {
		AgentID        string `json:"agentId"`
		ConversationID string `json:"conversationId"`
		Model          string `json:"model,omitempty"`
		Resumed        bool   `json:"resumed,omitempty" jsonschema:"it has earlier turns"`
	}
	item struct {
		Type     string `json:"type" jsonschema:"what it is"`
		Text     string `json:"text,omitempty" jsonschema:"of a text"`
		URL      string `json:"url,omitempty" jsonschema:"of an image: data or https"`
		ImageURL string `json:"image_url,omitempty" jsonschema:"instead of url"`
		Path     string `json:"path,omitempty" jsonschema:"of a localImage: absolute"`
	}
	// MessageParams are a message to a conversation.
	MessageParams struct {
		ConversationID string `json:"conversationId"`
		Items          []item `json:"items"`
		ID             string `json:"id,omitempty" jsonschema:"of your choice; a second call with it sends nothing"`
	}
	// turnParams are a turn, with settings of its own.
	turnParams struct {
		MessageParams
		Settings
		Effort string `json:"effort,omitempty" jsonschema:"how much it thinks, such as low or high"`
	}
	// turnOut is a turn that was accepted.
	turnOut struct {
		AgentID        string `json:"agentId"`
		ConversationID string `json:"conversationId"`
		TurnID         string `json:"turnId"`
		Status         string `json:"status" jsonschema:"queued, running, completed, failed or interrupted"`
		Steered        bool   `json:"steered,omitempty" jsonschema:"the input was added to this turn, which was running"`
	}
	interruptParams struct {
		ConversationID string `json:"conversationId"`
	}
	interruptOut struct {
		AgentID        string   `json:"agentId"`
		ConversationID string   `json:"conversationId"`
		TurnIDs        []string `json:"turnIds" jsonschema:"the turns that were running or waiting, and have ended"`
	}
)

// conversations opens conversations with agents, and carries out turns in them.
type conversations struct{ caller }

// addTools registers the tools of conversations.
func (c conversations) addTools(t *tools) {
	addTool(t, "new_conversation", hints(false, false), func(
		ctx context.Context, in optionalIn[conversationParams],
	) (newConversationOut, error) {
		return c.open(ctx, in.AgentID, in.Params)
	}, "Open a conversation with an agent. Use it after spawn_agent, or with a conversationId to continue one of an ended agent. "+
		"Do not open another for more work on the same subject: each is a process.")
	addTool(
		t,
		"send_user_message",
		works(),
		func(ctx context.Context, in nestedIn[MessageParams]) (turnOut, error) {
			return c.message(ctx, in.AgentID, in.Params)
		},
		"Send input to a conversation: it is added to the running turn, or begins one. Use it to correct an agent while it works. Do not use "+
			"it for work that has to wait, or needs other settings: send_user_turn does that.",
	)
	addTool(
		t,
		"send_user_turn",
		works(),
		func(ctx context.Context, in nestedIn[turnParams]) (turnOut, error) {
			return c.turn(ctx, in.AgentID, in.Params)
		},
		"Begin a turn in a conversation, after those before it, and return immediately. Use it to give work; wait_agent waits for "+
			"the end. Do not use it to correct a running turn: send_user_message does.",
	)
	addTool(
		t,
		"interrupt",
		hints(true, true),
		func(ctx context.Context, in nestedIn[interruptParams]) (interruptOut, error) {
			return c.interrupt(ctx, in.AgentID, in.Params.ConversationID)
		},
		"End the running turn of a conversation, and those that wait. Use it if the agent does the wrong thing. Do not use it to end the "+
			"agent: kill_agent does.",
	)
}

// open opens a conversation, or continues one, and waits until that is done.
func (c conversations) open(
	ctx context.Context,
	agentID string,
	p conversationParams,
) (out newConversationOut, err error) {
	a, err := c.agents.Find(ctx, agentID)
	if err != nil {
		return out, err
	}
	params := runner.ConversationCall{
		ThreadID: p.ConversationID, Model: p.Model, Config: p.Config,
		BaseInstructions: p.BaseInstructions, DeveloperInstructions: p.DeveloperInstructions,
	}
	if params.Cwd, params.ApprovalPolicy, params.SandboxPolicy, err = c.policies(a, p.Settings); err != nil {
		return out, err
	}
	call := reconcile.Call{ID: callID(agentID, p.ID), Verb: reconcile.CallConversation}
	if p.ConversationID != "" {
		known, open, err := c.resumable(ctx, agentID, p.ConversationID)
		switch {
		case err != nil:
			return out, err
		case open:
			call.ID = known.ID
		case known.ThreadID != "":
			params.ThreadID = known.ThreadID
		}
	}
	var result runner.ConversationResult
	again := fmt.Sprintf(
		"it continues: new_conversation with the id %q waits for it again",
		strings.TrimPrefix(call.ID, agentID+"."),
	)
	if _, err = c.do(ctx, agentID, call, params, &result, again); err != nil {
		return out, err
	}
	return newConversationOut{
		AgentID:        agentID,
		ConversationID: result.ThreadID,
		Model:          result.Model,
		Resumed:        result.Resumed,
	}, nil
}

// resumable finds a conversation that an agent is to continue, which may be unknown here.
// open: this agent has it already. One that another live agent has is refused.
func (c conversations) resumable(
	ctx context.Context,
	agentID, id string,
) (known reconcile.Call, open bool, err error) {
	known, found, err := c.find(ctx, agentID, id)
	if err != nil || !found {
		return known, false, err
	}
	other, err := c.agents.Find(ctx, known.Agent)
	if err == nil && other.Outcome == "" && known.Agent != agentID {
		err = reconcile.NewError(
			agents.CodeConflict,
			fmt.Sprintf("conversation %s is open in agent %s", id, known.Agent),
			"use that agent, or kill it before",
		)
	}
	return known, known.Agent == agentID && known.Status != reconcile.CallFailed, err
}

// find finds a conversation by its thread, by its call, or by the id that the client has
// chosen.
func (c conversations) find(ctx context.Context, agentID, id string) (reconcile.Call, bool, error) {
	known, found, err := c.agents.DB.Clients.Conversation(ctx, callID(agentID, id))
	if err == nil && !found {
		known, found, err = c.agents.DB.Clients.Conversation(ctx, id)
	}
	return known, found, err
}

// get returns an agent and one of its conversations.
func (c conversations) get(
	ctx context.Context,
	agentID, id string,
) (a agents.Agent, known reconcile.Call, err error) {
	if a, err = c.agents.Find(ctx, agentID); err != nil {
		return a, known, err
	}
	known, found, err := c.find(ctx, agentID, id)
	switch {
	case err != nil:
	case !found:
		err = reconcile.NewError(
			"unknown_conversation",
			fmt.Sprintf("agent %s has no conversation %q", agentID, id),
			"new_conversation opens one",
		)
	case known.Agent != agentID:
		err = reconcile.NewError(
			"unknown_conversation",
			fmt.Sprintf("conversation %s is one of agent %s", id, known.Agent),
			"name that agent; if it has ended, new_conversation with this conversationId continues it here",
		)
	default:
		err = agents.Failure(known)
	}
	return a, known, err
}

// turn begins a turn.
func (c conversations) turn(ctx context.Context, agentID string, p turnParams) (out turnOut, err error) {
	a, known, err := c.get(ctx, agentID, p.ConversationID)
	if err != nil {
		return out, err
	}
	params := runner.TurnCall{Model: p.Model, Effort: p.Effort}
	if params.Items, err = inputs(p.Items); err == nil {
		params.Cwd, params.ApprovalPolicy, params.SandboxPolicy, err = c.policies(a, p.Settings)
	}
	// a turn without a policy has that of its conversation
	if err == nil && p.Sandbox != "" && params.SandboxPolicy == nil {
		var of runner.ConversationCall
		if of, err = paramsOf(known); err == nil && of.SandboxPolicy != nil {
			err = reconcile.NewError(
				agents.CodeInvalid,
				"the conversation was opened with another sandbox than workspace-write",
				"open another conversation",
			)
		}
	}
	if err != nil {
		return out, err
	}
	turn, err := c.begin(ctx, known, p.ID, params)
	return newTurnOut(turn, known), err
}

// begin begins a turn of a conversation, with an id that a client may have chosen.
func (c conversations) begin(
	ctx context.Context,
	known reconcile.Call,
	id string,
	params runner.TurnCall,
) (reconcile.Call, error) {
	call := reconcile.Call{
		ID:           callID(known.Agent, id),
		Verb:         reconcile.CallTurn,
		Conversation: known.ID,
	}
	return c.agents.Call(ctx, known.Agent, call, params)
}

// paramsOf returns the parameters with which a conversation was opened.
func paramsOf(conversation reconcile.Call) (p runner.ConversationCall, err error) {
	if err = json.Unmarshal(conversation.Params, &p); err != nil {
		err = fmt.Errorf("parameters of the conversation %s: %w", conversation.ID, err)
	}
	return p, err
}

func newTurnOut(turn, known reconcile.Call) turnOut {
	return turnOut{
		AgentID:        turn.Agent,
		ConversationID: cmp.Or(known.ThreadID, known.ID),
		TurnID:         turn.ID,
		Status:         string(turn.Status),
	}
}

// message adds a message to the running turn of a conversation. If there is none, or the
// message has begun a turn before, it begins a turn.
func (c conversations) message(
	ctx context.Context,
	agentID string,
	p MessageParams,
) (out turnOut, err error) {
	_, known, err := c.get(ctx, agentID, p.ConversationID)
	if err != nil {
		return out, err
	}
	var params runner.TurnCall
	if params.Items, err = inputs(p.Items); err != nil {
		return out, err
	}
	calls, err := c.agents.DB.Clients.CallsOf(ctx, known.RunID)
	if err != nil {
		return out, err
	}
	call := reconcile.Call{
		ID:           callID(agentID, p.ID) + steerSuffix,
		Verb:         reconcile.CallSteer,
		Conversation: known.ID,
	}
	turn, done := steerTarget(calls, call)
	if turn != nil && !done {
		_, err = c.do(ctx, agentID, call, params, nil, "send it again with the same id")
	}
	if turn == nil || err != nil && exit.From(err).Code == "no_turn" {
		return c.turn(ctx, agentID, turnParams{MessageParams: p})
	}
	out = newTurnOut(*turn, known)
	out.Steered = true
	return out, err
}

// so that a message can begin a turn after its turn to steer has just ended
const steerSuffix = ".steer"

// steerTarget returns the turn that a message is to be added to, nil if it is to begin one or
// has begun one. done: it was added.
func steerTarget(calls []reconcile.Call, steer reconcile.Call) (turn *reconcile.Call, done bool) {
	for _, c := range calls {
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
func (c conversations) interrupt(ctx context.Context, agentID, id string) (interruptOut, error) {
	out := interruptOut{AgentID: agentID, TurnIDs: []string{}}
	_, known, err := c.get(ctx, agentID, id)
	if err != nil {
		return out, err
	}
	out.ConversationID = cmp.Or(known.ThreadID, known.ID)
	calls, err := c.agents.DB.Clients.CallsOf(ctx, known.RunID)
	if err != nil {
		return out, err
	}
	for _, c := range calls {
		if c.Verb == reconcile.CallTurn && c.Conversation == known.ID && !c.Ended() {
			out.TurnIDs = append(out.TurnIDs, c.ID)
		}
	}
	call := reconcile.Call{
		ID:           callID(agentID, ""),
		Verb:         reconcile.CallInterrupt,
		Conversation: known.ID,
	}
	_, err = c.do(
		ctx,
		agentID,
		call,
		struct{}{},
		nil,
		"call interrupt again; kill_agent ends the agent in any case",
	)
	return out, err
}

// maxPrompt is how many characters of text codex takes in one input.
const maxPrompt = 1 << 20

// inputs checks the items of a turn.
func inputs(items []item) (list []agent.Input, err error) {
	length := 0
	for i, item := range items {
		in := agent.Input{Type: item.Type}
		switch item.Type {
		case "text":
			in.Text = item.Text
		case "image":
			in.URL = cmp.Or(item.URL, item.ImageURL)
		case "localImage":
			in.Path = item.Path
		}
		if in.Text+in.URL+in.Path == "" || in.Path != "" && !filepath.IsAbs(in.Path) {
			return nil, reconcile.NewError(
				agents.CodeInvalid,
				fmt.Sprintf("items[%d] is not valid", i),
				`an item is {"type":"text","text":…}, {"type":"image","url":…} or {"type":"localImage","path":an absolute path}`,
			)
		}
		list = append(list, in)
		length = length + utf8.RuneCountInString(in.Text)
	}
	switch {
	case length > maxPrompt:
		err = reconcile.NewError(
			agents.CodeInvalid,
			fmt.Sprintf("the input has %d characters, and codex takes %d", length, maxPrompt),
			"write the text to a file in the directory of the agent, and name the file in the prompt",
		)
	case len(list) == 0:
		err = reconcile.NewError(
			agents.CodeInvalid,
			"items is empty",
			`send at least {"type":"text","text":…}`,
		)
	}
	return list, err
}
