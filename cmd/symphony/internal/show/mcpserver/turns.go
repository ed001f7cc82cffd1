package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
)

type (
	// NewConversationIn are the arguments of new_conversation.
	NewConversationIn struct {
		AgentID string             `json:"agentId"`
		Params  ConversationParams `json:"params,omitempty"`
	}
	// ConversationParams are the settings of a conversation.
	ConversationParams struct {
		ID             string `json:"id,omitempty" jsonschema:"an id of your choice; a second call with it returns the same conversation"`
		ConversationID string `json:"conversationId,omitempty" jsonschema:"continue this conversation, such as one of an agent that has ended"`
		Settings
		Config                map[string]any `json:"config,omitempty" jsonschema:"harmless keys of codex's config.toml, such as model_verbosity"`
		BaseInstructions      string         `json:"baseInstructions,omitempty" jsonschema:"replace codex's own instructions"`
		DeveloperInstructions string         `json:"developerInstructions,omitempty"`
	}
	// Settings are those of a conversation, or of one turn in it.
	Settings struct {
		Model          string `json:"model,omitempty"`
		Cwd            string `json:"cwd,omitempty" jsonschema:"an absolute path in the directory of the agent; default: that directory"`
		ApprovalPolicy string `json:"approvalPolicy,omitempty" jsonschema:"untrusted, on-request (default) or never"`
		Sandbox        string `json:"sandbox,omitempty" jsonschema:"read-only, workspace-write (default); danger-full-access if permitted"`
	}
	// NewConversationOut is the result of new_conversation.
	NewConversationOut struct {
		AgentID        string `json:"agentId"`
		ConversationID string `json:"conversationId"`
		Model          string `json:"model,omitempty"`
		Resumed        bool   `json:"resumed,omitempty" jsonschema:"it has earlier turns"`
	}
	// Item is one piece of input.
	Item struct {
		Type     string `json:"type" jsonschema:"text, image or localImage"`
		Text     string `json:"text,omitempty" jsonschema:"of a text"`
		URL      string `json:"url,omitempty" jsonschema:"of an image: a data or https URL"`
		ImageURL string `json:"image_url,omitempty" jsonschema:"the same, as older versions of codex call it"`
		Path     string `json:"path,omitempty" jsonschema:"of a localImage: an absolute path"`
	}
	// SendUserMessageIn are the arguments of send_user_message.
	SendUserMessageIn struct {
		AgentID string        `json:"agentId"`
		Params  MessageParams `json:"params"`
	}
	// MessageParams are a message to a conversation.
	MessageParams struct {
		ConversationID string `json:"conversationId"`
		Items          []Item `json:"items"`
		ID             string `json:"id,omitempty" jsonschema:"an id of your choice; a second call with it sends nothing"`
	}
	// SendUserTurnIn are the arguments of send_user_turn.
	SendUserTurnIn struct {
		AgentID string     `json:"agentId"`
		Params  TurnParams `json:"params"`
	}
	// TurnParams are a turn, with settings of its own.
	TurnParams struct {
		MessageParams
		Settings
		Effort string `json:"effort,omitempty" jsonschema:"how much the model thinks: a level that it knows, such as low or high"`
	}
	// TurnOut is a turn that was accepted.
	TurnOut struct {
		AgentID        string `json:"agentId"`
		ConversationID string `json:"conversationId"`
		TurnID         string `json:"turnId"`
		Status         string `json:"status" jsonschema:"queued, running, completed, failed or interrupted"`
		Steered        bool   `json:"steered,omitempty" jsonschema:"the input was added to this turn, which was running"`
	}
	// InterruptIn are the arguments of interrupt.
	InterruptIn struct {
		AgentID string          `json:"agentId"`
		Params  InterruptParams `json:"params"`
	}
	// InterruptParams name a conversation.
	InterruptParams struct {
		ConversationID string `json:"conversationId"`
	}
	// InterruptOut is the result of interrupt.
	InterruptOut struct {
		AgentID        string   `json:"agentId"`
		ConversationID string   `json:"conversationId"`
		TurnIDs        []string `json:"turnIds" jsonschema:"the turns that were running or waiting, and have ended"`
	}
)

// addTurnTools registers the tools that open conversations and carry out turns in them.
func (s *Server) addTurnTools() {
	addTool(s, &mcp.Tool{
		Name: "new_conversation", Annotations: hints(false, false, false),
		Description: "Open a conversation with an agent. An agent can have several, each with one turn at a time.",
	}, s.newConversation)
	addTool(s, &mcp.Tool{
		Name: "send_user_message", Annotations: works(),
		Description: "Send input to a conversation: it is added to the running turn, or begins one. Returns immediately.",
	}, s.sendUserMessage)
	addTool(s, &mcp.Tool{
		Name: "send_user_turn", Annotations: works(),
		Description: "Begin a turn in a conversation, with its own settings. It waits for turns before it. Returns immediately.",
	}, s.sendUserTurn)
	addTool(s, &mcp.Tool{
		Name: "interrupt", Annotations: hints(false, true, true),
		Description: "End the running turn of a conversation, and the waiting ones.",
	}, s.interrupt)
}

// paramsTools are the tools with arguments in params.
var paramsTools = []string{
	"new_conversation", "send_user_message", "send_user_turn", "interrupt", "git_diff_to_remote", "exec_one_off_command",
}

func (s *Server) newConversation(
	ctx context.Context, _ *mcp.CallToolRequest, in NewConversationIn,
) (*mcp.CallToolResult, NewConversationOut, error) {
	out, err := s.converse(ctx, in.AgentID, in.Params)
	return nil, out, err
}

// converse opens a conversation, and waits until that is done.
func (s *Server) converse(ctx context.Context, agentID string, p ConversationParams) (out NewConversationOut, err error) {
	a, err := s.agents.Find(ctx, agentID)
	if err != nil {
		return out, err
	}
	params, err := s.conversationCall(a, p)
	if err != nil {
		return out, err
	}
	call := reconcile.Call{ID: callID(agentID, p.ID), Verb: reconcile.CallConversation}
	if p.ConversationID != "" {
		known, open, err := s.resumable(ctx, agentID, p.ConversationID)
		switch {
		case err != nil:
			return out, err
		case open:
			call.ID = known.ID
		case known.ThreadID != "":
			params.ThreadID = known.ThreadID
		}
	}
	if call, err = s.agents.Call(ctx, agentID, call, params); err == nil {
		again := fmt.Sprintf("it continues: new_conversation with the id %q waits for it again", strings.TrimPrefix(call.ID, agentID+"."))
		call, err = s.await(ctx, call.ID, again)
	}
	if err != nil {
		return out, err
	}
	var result runner.ConversationResult
	if err = json.Unmarshal(call.Result, &result); err != nil {
		return out, fmt.Errorf("result of the call %s: %w", call.ID, err)
	}
	return NewConversationOut{AgentID: agentID, ConversationID: result.ThreadID, Model: result.Model, Resumed: result.Resumed}, nil
}

// resumable finds a conversation that an agent is to continue, which may be unknown here. open: this agent has it already. One that
// another live agent has is refused.
func (s *Server) resumable(ctx context.Context, agentID, id string) (known reconcile.Call, open bool, err error) {
	known, found, err := s.findConversation(ctx, agentID, id)
	if err != nil || !found {
		return known, false, err
	}
	other, err := s.agents.Find(ctx, known.Agent)
	if err == nil && other.Outcome == "" && known.Agent != agentID {
		err = exit.Fault(agents.CodeConflict, fmt.Sprintf("conversation %s is open in agent %s", id, known.Agent),
			"use that agent, or kill it before")
	}
	return known, known.Agent == agentID && known.Status != reconcile.CallFailed, err
}

// conversationCall checks the settings of a conversation.
func (s *Server) conversationCall(a agents.Agent, p ConversationParams) (out runner.ConversationCall, err error) {
	out = runner.ConversationCall{
		ThreadID: p.ConversationID, Model: p.Model, Config: p.Config,
		BaseInstructions: p.BaseInstructions, DeveloperInstructions: p.DeveloperInstructions,
	}
	if out.Cwd, err = directory(a, p.Cwd); err == nil {
		out.ApprovalPolicy, err = approvalPolicy(p.ApprovalPolicy)
	}
	if err == nil {
		out.SandboxPolicy, err = s.sandboxPolicy(p.Sandbox)
	}
	return out, err
}

// directory checks that a directory is in that of the agent, because two agents in one directory are refused. "" is the agent's.
func directory(a agents.Agent, dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	resolved, err := filepath.EvalSymlinks(dir)
	switch {
	case !filepath.IsAbs(dir):
		err = exit.Fault(agents.CodeInvalid, fmt.Sprintf("cwd %q is not an absolute path", dir),
			"give the absolute path of an existing directory")
	case err != nil:
		err = exit.Fault(agents.CodeInvalid, "cwd: "+err.Error(), "give the absolute path of an existing directory")
	case resolved != a.WorkspacePath && !paths.Inside(a.WorkspacePath, resolved):
		err = exit.Fault(agents.CodeInvalid, fmt.Sprintf("cwd %s is not in %s, where agent %s works", dir, a.WorkspacePath, a.Identifier),
			"spawn an agent in that directory")
	}
	return resolved, err
}

func approvalPolicy(word string) (json.RawMessage, error) {
	switch word {
	case "":
		return nil, nil
	case "untrusted", "on-request", "never":
		return json.Marshal(word)
	case "on-failure":
		return nil, exit.Fault(agents.CodeInvalid, "codex no longer has the approvalPolicy on-failure", "use on-request")
	}
	return nil, exit.Fault(agents.CodeInvalid, fmt.Sprintf("unknown approvalPolicy %q", word), "use untrusted, on-request or never")
}

// fullAccess is codex's policy for danger-full-access.
var fullAccess = json.RawMessage(`{"type":"dangerFullAccess"}`)

// sandboxPolicy returns codex's policy for the name of a sandbox, nil for that of a run.
func (s *Server) sandboxPolicy(word string) (json.RawMessage, error) {
	switch {
	case word == "" || word == "workspace-write":
		return nil, nil
	case word == "read-only":
		return json.RawMessage(`{"type":"readOnly","networkAccess":false}`), nil
	case word == "danger-full-access" && s.FullAccess:
		return fullAccess, nil
	case word == "danger-full-access":
		return nil, exit.Fault(agents.CodeInvalid, "the sandbox danger-full-access is not permitted",
			"use workspace-write, or start symphony mcp with --allow-full-access")
	}
	return nil, exit.Fault(agents.CodeInvalid, fmt.Sprintf("unknown sandbox %q", word), "use read-only or workspace-write")
}

// inputs checks the items of a turn.
func inputs(items []Item) (list []agent.Input, err error) {
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
			return nil, exit.Fault(agents.CodeInvalid, fmt.Sprintf("items[%d] is not valid", i),
				`an item is {"type":"text","text":…}, {"type":"image","url":…} or {"type":"localImage","path":an absolute path}`)
		}
		list = append(list, in)
	}
	if len(list) == 0 {
		err = exit.Fault(agents.CodeInvalid, "items is empty", `send at least {"type":"text","text":…}`)
	}
	return list, err
}

// callID is the id of a call. One that a client has chosen counts for one agent.
func callID(agentID, chosen string) string { return agentID + "." + cmp.Or(chosen, newID()) }

// findConversation finds a conversation by its thread, by its call, or by the id that the client has chosen.
func (s *Server) findConversation(ctx context.Context, agentID, id string) (reconcile.Call, bool, error) {
	known, found, err := s.agents.DB.Clients.Conversation(ctx, callID(agentID, id))
	if err == nil && !found {
		known, found, err = s.agents.DB.Clients.Conversation(ctx, id)
	}
	return known, found, err
}

// conversation returns an agent and one of its conversations.
func (s *Server) conversation(ctx context.Context, agentID, id string) (a agents.Agent, known reconcile.Call, err error) {
	if a, err = s.agents.Find(ctx, agentID); err != nil {
		return a, known, err
	}
	known, found, err := s.findConversation(ctx, agentID, id)
	switch {
	case err != nil:
	case !found:
		err = exit.Fault("unknown_conversation", fmt.Sprintf("agent %s has no conversation %q", agentID, id), "new_conversation opens one")
	case known.Agent != agentID:
		err = exit.Fault("unknown_conversation", fmt.Sprintf("conversation %s is one of agent %s", id, known.Agent),
			"name that agent; if it has ended, new_conversation with this conversationId continues it here")
	default:
		err = agents.Failure(known)
	}
	return a, known, err
}

// await waits for the end of a call. Its error is that of the call, or reports with hint that the time is up.
func (s *Server) await(ctx context.Context, id, hint string) (reconcile.Call, error) {
	call, err := s.agents.Await(ctx, id)
	switch {
	case err != nil:
	case !call.Ended() && errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = exit.Fault(agents.CodeTimeout, fmt.Sprintf("%s has not ended within %s", call.Verb, text.Took(s.CallTimeout.Milliseconds())), hint)
	case !call.Ended():
		err = ctx.Err()
	default:
		err = agents.Failure(call)
	}
	return call, err
}

func (s *Server) sendUserTurn(ctx context.Context, _ *mcp.CallToolRequest, in SendUserTurnIn) (*mcp.CallToolResult, TurnOut, error) {
	out, err := s.turn(ctx, in.AgentID, in.Params)
	return nil, out, err
}

// turn begins a turn.
func (s *Server) turn(ctx context.Context, agentID string, p TurnParams) (out TurnOut, err error) {
	a, known, err := s.conversation(ctx, agentID, p.ConversationID)
	if err != nil {
		return out, err
	}
	params := runner.TurnCall{Model: p.Model, Effort: p.Effort}
	if params.Items, err = inputs(p.Items); err == nil {
		params.Cwd, err = directory(a, p.Cwd)
	}
	if err == nil {
		params.ApprovalPolicy, err = approvalPolicy(p.ApprovalPolicy)
	}
	if err == nil {
		params.SandboxPolicy, err = s.sandboxPolicy(p.Sandbox)
	}
	if err == nil && p.Sandbox != "" && params.SandboxPolicy == nil {
		err = inheritsSandbox(known)
	}
	if err != nil {
		return out, err
	}
	call := reconcile.Call{ID: callID(agentID, p.ID), Verb: reconcile.CallTurn, Conversation: known.ID}
	turn, err := s.agents.Call(ctx, agentID, call, params)
	return turnOut(turn, known), err
}

// inheritsSandbox refuses workspace-write for a turn of a conversation with another sandbox: a turn without a policy has that of its
// conversation.
func inheritsSandbox(conversation reconcile.Call) error {
	var p runner.ConversationCall
	if err := json.Unmarshal(conversation.Params, &p); err != nil {
		return fmt.Errorf("parameters of the conversation %s: %w", conversation.ID, err)
	}
	if p.SandboxPolicy != nil {
		return exit.Fault(agents.CodeInvalid, "the conversation was opened with another sandbox than workspace-write",
			"open another conversation")
	}
	return nil
}

func turnOut(turn, conversation reconcile.Call) TurnOut {
	return TurnOut{
		AgentID: turn.Agent, ConversationID: cmp.Or(conversation.ThreadID, conversation.ID), TurnID: turn.ID, Status: string(turn.Status),
	}
}

func (s *Server) sendUserMessage(ctx context.Context, _ *mcp.CallToolRequest, in SendUserMessageIn) (*mcp.CallToolResult, TurnOut, error) {
	out, steered, err := s.steer(ctx, in.AgentID, in.Params)
	if err == nil && !steered {
		out, err = s.turn(ctx, in.AgentID, TurnParams{MessageParams: in.Params})
	}
	return nil, out, err
}

// steer adds a message to the running turn of a conversation; false if there is none, or if the message has begun a turn before.
func (s *Server) steer(ctx context.Context, agentID string, p MessageParams) (out TurnOut, steered bool, err error) {
	_, known, err := s.conversation(ctx, agentID, p.ConversationID)
	if err != nil {
		return out, false, err
	}
	params := runner.TurnCall{}
	if params.Items, err = inputs(p.Items); err != nil {
		return out, false, err
	}
	calls, err := s.agents.DB.Clients.CallsOf(ctx, known.RunID)
	if err != nil {
		return out, false, err
	}
	call := reconcile.Call{ID: callID(agentID, p.ID) + steerSuffix, Verb: reconcile.CallSteer, Conversation: known.ID}
	turn, done := steerTarget(calls, call)
	if turn == nil {
		return out, false, nil
	}
	if !done {
		if call, err = s.agents.Call(ctx, agentID, call, params); err == nil {
			_, err = s.await(ctx, call.ID, "send it again with the same id")
		}
		if err != nil && exit.From(err).Code == "no_turn" {
			return out, false, nil
		}
	}
	out = turnOut(*turn, known)
	out.Steered = true
	return out, true, err
}

const steerSuffix = ".steer" // so that a message can begin a turn after its turn to steer has just ended

// steerTarget returns the turn that a message is to be added to, nil if it is to begin one or has begun one. done: it was added.
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

func (s *Server) interrupt(ctx context.Context, _ *mcp.CallToolRequest, in InterruptIn) (*mcp.CallToolResult, InterruptOut, error) {
	out := InterruptOut{AgentID: in.AgentID, TurnIDs: []string{}}
	_, known, err := s.conversation(ctx, in.AgentID, in.Params.ConversationID)
	if err != nil {
		return nil, out, err
	}
	out.ConversationID = cmp.Or(known.ThreadID, known.ID)
	calls, err := s.agents.DB.Clients.CallsOf(ctx, known.RunID)
	if err != nil {
		return nil, out, err
	}
	for _, c := range calls {
		if c.Verb == reconcile.CallTurn && c.Conversation == known.ID && !c.Ended() {
			out.TurnIDs = append(out.TurnIDs, c.ID)
		}
	}
	call := reconcile.Call{ID: callID(in.AgentID, ""), Verb: reconcile.CallInterrupt, Conversation: known.ID}
	if call, err = s.agents.Call(ctx, in.AgentID, call, struct{}{}); err == nil {
		_, err = s.await(ctx, call.ID, "call interrupt again; kill_agent ends the agent in any case")
	}
	return nil, out, err
}
