package mcpserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
)

// codexIdle is how long an agent of the tool codex stays without a turn. It need not stay longer, because codex-reply resumes its
// thread in a new agent.
const codexIdle = 5 * time.Minute

type (
	// CodexIn are the arguments of codex, those of the former codex mcp-server.
	CodexIn struct {
		Prompt                string         `json:"prompt"`
		Cwd                   string         `json:"cwd,omitempty" jsonschema:"where it works; default: in the directory of the server"`
		Model                 string         `json:"model,omitempty"`
		Sandbox               string         `json:"sandbox,omitempty" jsonschema:"read-only, workspace-write (default) or danger-full-access"`
		ApprovalPolicy        string         `json:"approval-policy,omitempty" jsonschema:"untrusted, on-request (default) or never"`
		Config                map[string]any `json:"config,omitempty" jsonschema:"keys of codex's config.toml, such as model_verbosity"`
		BaseInstructions      string         `json:"base-instructions,omitempty" jsonschema:"replace codex's own instructions"`
		DeveloperInstructions string         `json:"developer-instructions,omitempty"`
		CompactPrompt         string         `json:"compact-prompt,omitempty" jsonschema:"how codex is to summarize a long conversation"`
	}
	// CodexReplyIn are the arguments of codex-reply.
	CodexReplyIn struct {
		ThreadID       string `json:"threadId,omitempty" jsonschema:"of the result of codex"`
		ConversationID string `json:"conversationId,omitempty" jsonschema:"the same, as older versions call it"`
		Prompt         string `json:"prompt,omitempty" jsonschema:"without it the call waits for the last turn of the thread"`
	}
	// CodexOut is the result of codex and codex-reply.
	CodexOut struct {
		ThreadID string         `json:"threadId"`
		Content  string         `json:"content" jsonschema:"the last message; while the turn is running, how to wait for it"`
		State    string         `json:"state" jsonschema:"completed or running"`
		AgentID  string         `json:"agentId"`
		TurnID   string         `json:"turnId"`
		Requests []RequestState `json:"requests,omitempty" jsonschema:"what the agent asks that is not decided yet"`
	}
)

// addCodexTools registers the tools of the former codex mcp-server.
func (s *Server) addCodexTools() {
	addTool(s, &mcp.Tool{
		Name: "codex", Annotations: works(),
		Description: "Let codex carry out a prompt in a new agent, and return its last message. If a turn takes longer than a call, it " +
			"continues, and the result has the state running.",
	}, s.codex)
	addTool(s, &mcp.Tool{
		Name: "codex-reply", Annotations: works(),
		Description: "Continue a thread of codex with another prompt, or without a prompt wait for its last turn. If its agent has ended, " +
			"the thread is resumed in a new one.",
	}, s.codexReply)
}

func (s *Server) codex(ctx context.Context, req *mcp.CallToolRequest, in CodexIn) (*mcp.CallToolResult, CodexOut, error) {
	ctx, cancel := s.beforeTimeout(ctx)
	defer cancel()
	a, err := s.spawnCodex(ctx, s.env.Absolute(in.Cwd))
	if err != nil {
		return nil, CodexOut{}, err
	}
	opened, err := s.converse(ctx, a.Identifier, in.conversation())
	if err != nil {
		_ = s.agents.Kill(context.WithoutCancel(ctx), a.Identifier) // else it ends when it has been idle
		return nil, CodexOut{}, err
	}
	return s.codexTurn(ctx, req, opened.ConversationID, in.Prompt)
}

// conversation returns the arguments without the prompt and the directory, which is the agent's.
func (in CodexIn) conversation() ConversationParams {
	p := ConversationParams{
		Settings:         Settings{Model: in.Model, Sandbox: in.Sandbox, ApprovalPolicy: in.ApprovalPolicy},
		BaseInstructions: in.BaseInstructions, DeveloperInstructions: in.DeveloperInstructions, Config: in.Config,
	}
	if in.CompactPrompt != "" {
		p.Config = map[string]any{"compact_prompt": in.CompactPrompt}
		maps.Copy(p.Config, in.Config)
	}
	return p
}

func (s *Server) codexReply(ctx context.Context, req *mcp.CallToolRequest, in CodexReplyIn) (*mcp.CallToolResult, CodexOut, error) {
	ctx, cancel := s.beforeTimeout(ctx)
	defer cancel()
	id := cmp.Or(in.ThreadID, in.ConversationID)
	if id == "" {
		return nil, CodexOut{}, exit.Fault(agents.CodeInvalid, "threadId is missing", "the result of codex has it")
	}
	if in.Prompt != "" {
		return s.codexTurn(ctx, req, id, in.Prompt)
	}
	known, err := s.agents.Conversation(ctx, id)
	if err != nil {
		return nil, CodexOut{}, err
	}
	calls, err := s.agents.DB.Clients.CallsOf(ctx, known.RunID)
	if err != nil {
		return nil, CodexOut{}, err
	}
	var turn reconcile.Call
	for _, c := range calls {
		if c.Verb == reconcile.CallTurn && c.Conversation == known.ID {
			turn = c
		}
	}
	if turn.ID == "" {
		return nil, CodexOut{}, exit.Fault("no_turn", "the thread has no turn to wait for", "send a prompt")
	}
	return s.codexResult(ctx, req, known, turn, true)
}

// spawnCodex starts an agent for one conversation. Others may work in its directory, as with the former codex mcp-server.
func (s *Server) spawnCodex(ctx context.Context, dir string) (agents.Agent, error) {
	settings := agents.Settings{ID: "codex-" + newID(), Cwd: dir, Shared: true, IdleTimeout: codexIdle}
	if s.IdleTimeout > 0 {
		settings.IdleTimeout = min(codexIdle, s.IdleTimeout)
	}
	return s.spawn(ctx, settings)
}

// codexTurn carries out a turn in a thread. If the agent of the thread has ended, the thread is resumed in a new one.
func (s *Server) codexTurn(ctx context.Context, req *mcp.CallToolRequest, threadID, prompt string) (*mcp.CallToolResult, CodexOut, error) {
	known, err := s.agents.Conversation(ctx, threadID)
	if err != nil {
		return nil, CodexOut{}, err
	}
	params := runner.TurnCall{Items: []agent.Input{{Type: "text", Text: prompt}}}
	begin := func() (reconcile.Call, error) {
		call := reconcile.Call{ID: callID(known.Agent, ""), Verb: reconcile.CallTurn, Conversation: known.ID}
		return s.agents.Call(ctx, known.Agent, call, params)
	}
	turn, err := begin()
	if err != nil && exit.From(err).Code == agents.CodeEnded {
		if known, err = s.resumeThread(ctx, known); err == nil {
			turn, err = begin()
		}
	}
	if err != nil {
		return nil, CodexOut{}, err
	}
	return s.codexResult(ctx, req, known, turn, false)
}

// resumeThread opens the thread of an ended agent in a new one, with the same directory and settings.
func (s *Server) resumeThread(ctx context.Context, known reconcile.Call) (reconcile.Call, error) {
	var params runner.ConversationCall
	if err := json.Unmarshal(known.Params, &params); err != nil {
		return known, fmt.Errorf("parameters of the conversation %s: %w", known.ID, err)
	}
	if bytes.Equal(params.SandboxPolicy, fullAccess) && !s.FullAccess {
		return known, exit.Fault(agents.CodeInvalid, "the thread was opened with the sandbox danger-full-access, which is not permitted",
			"start symphony mcp with --allow-full-access")
	}
	ended, err := s.agents.Find(ctx, known.Agent)
	if err != nil {
		return known, err
	}
	a, err := s.spawnCodex(ctx, ended.WorkspacePath)
	if err != nil {
		return known, err
	}
	params.ThreadID = known.ThreadID
	call := reconcile.Call{ID: callID(a.Identifier, ""), Verb: reconcile.CallConversation}
	if call, err = s.agents.Call(ctx, a.Identifier, call, params); err == nil {
		call, err = s.await(ctx, call.ID, "call codex-reply again")
	}
	if err != nil {
		_ = s.agents.Kill(context.WithoutCancel(ctx), a.Identifier) // else it ends when it has been idle
	}
	return call, err
}

// beforeTimeout returns a context that ends a little before the call of the tool times out, so that there is time for a result.
func (s *Server) beforeTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.CallTimeout-min(2*time.Second, s.CallTimeout/4))
}

// codexResult waits for the end of a turn and returns its last message. Before, it returns the state running if the agent asks for
// something or the time is up. again is set if the host already knows the agent's present request.
func (s *Server) codexResult(
	ctx context.Context, req *mcp.CallToolRequest, known, turn reconcile.Call, again bool,
) (*mcp.CallToolResult, CodexOut, error) {
	out := CodexOut{ThreadID: known.ThreadID, State: "running", AgentID: turn.Agent, TurnID: turn.ID}
	requests, err := s.followTurn(ctx, req, &turn, again)
	if err != nil {
		return nil, out, err
	}
	switch turn.Status {
	case reconcile.CallQueued, reconcile.CallRunning:
		out.Requests = requests
		out.Content = fmt.Sprintf("The turn continues. To wait for its end, call codex-reply with the threadId %s and no prompt.", out.ThreadID)
		if slices.Contains(s.Groups, GroupAgents) {
			out.Content += fmt.Sprintf(" Or call wait_agent with the agentIds [%q].", out.AgentID)
		}
		return nil, out, nil
	case reconcile.CallInterrupted:
		return nil, out, exit.Fault("interrupted", "the turn was interrupted",
			"codex-reply with the threadId "+out.ThreadID+" continues the thread")
	case reconcile.CallFailed:
		return nil, out, exit.Fault(turn.ErrorCode, turn.ErrorText, "codex-reply with the threadId "+out.ThreadID+" continues the thread")
	case reconcile.CallCompleted:
	}
	var result runner.TurnResult
	if err := json.Unmarshal(turn.Result, &result); err != nil {
		return nil, out, fmt.Errorf("result of the turn %s: %w", turn.ID, err)
	}
	out.State, out.Content = string(turn.Status), result.LastMessage
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: out.Content}}}, out, nil
}

// followTurn waits until a turn has ended, its agent asks for something, or ctx is about to end. It returns the open requests.
func (s *Server) followTurn(ctx context.Context, req *mcp.CallToolRequest, turn *reconcile.Call, again bool) ([]RequestState, error) {
	began, now := time.Now(), 0.0
	in := WaitAgentIn{AgentIDs: []string{turn.Agent}, TimeoutSeconds: &now} // first only for a cursor
	for {
		w, err := newWaiting(s.agents, in)
		if err != nil {
			return nil, err
		}
		if w.asker = s.askerOf(req); w.asker.byResult {
			w.asker.session = nil // its answer would call codex, and so begin another turn
		}
		before := time.Since(began)
		tell := progressTo(ctx, req, s.CallTimeout)
		seen, err := w.wait(ctx, func(elapsed time.Duration, message string) { tell(before+elapsed, message) })
		if err != nil {
			return nil, err
		}
		call, _, err := s.agents.DB.Clients.Call(ctx, turn.ID)
		if err != nil {
			return nil, err
		}
		*turn = call
		requests := seen.Agents[0].Requests
		asks := len(requests) > 0 && seen.State == "done" && (in.Cursor != "" || !again)
		deadline, _ := ctx.Deadline()
		if turn.Ended() || asks || time.Until(deadline) <= waitMargin {
			return requests, nil
		}
		in.Cursor, in.TimeoutSeconds = seen.Cursor, nil
	}
}
