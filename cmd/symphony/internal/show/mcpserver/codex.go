package mcpserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
)

// codexIdle is how long an agent of the tool codex stays without a turn. It need not stay longer, because codex-reply resumes its
// thread in a new agent.
const codexIdle = 5 * time.Minute

// codexPrefix begins the ids of the agents of the tool codex.
const codexPrefix = "codex-"

type (
	// codexIn are those of the former codex mcp-server.
	codexIn struct {
		Prompt                string         `json:"prompt"`
		Cwd                   string         `json:"cwd,omitempty" jsonschema:"where it works; default: the server's directory"`
		Model                 string         `json:"model,omitempty"`
		Sandbox               string         `json:"sandbox,omitempty" jsonschema:"default: workspace-write"`
		ApprovalPolicy        string         `json:"approval-policy,omitempty" jsonschema:"default: on-request"`
		Config                map[string]any `json:"config,omitempty" jsonschema:"keys of codex's config.toml"`
		BaseInstructions      string         `json:"base-instructions,omitempty" jsonschema:"replace codex's own"`
		DeveloperInstructions string         `json:"developer-instructions,omitempty"`
		CompactPrompt         string         `json:"compact-prompt,omitempty" jsonschema:"how to summarize a long conversation"`
	}
	codexReplyIn struct {
		ThreadID       string `json:"threadId,omitempty" jsonschema:"of the result of codex"`
		ConversationID string `json:"conversationId,omitempty" jsonschema:"instead of threadId"`
		Prompt         string `json:"prompt,omitempty" jsonschema:"without it the call waits for the last turn"`
	}
	codexOut struct {
		ThreadID string         `json:"threadId"`
		Content  string         `json:"content" jsonschema:"the last message; while the turn is running, how to wait for it"`
		State    string         `json:"state" jsonschema:"completed or running"`
		AgentID  string         `json:"agentId"`
		TurnID   string         `json:"turnId"`
		Requests []requestState `json:"requests,omitempty" jsonschema:"what the agent asks that is not decided yet"`
	}
)

// codex offers what the former codex mcp-server did: one conversation with an agent of its own.
type codex struct {
	conversations
	starter  starter
	elicitor *elicitor
	canWait  bool // the host has wait_agent
}

// addTools registers the tools of the former codex mcp-server.
func (c codex) addTools(t *tools) {
	addCallTool(t, "codex", works(), handler(c.timeout, c.start),
		"Let codex carry out a prompt in a new agent, and return its last message. Use it for one task; the state running means that it "+
			"continues. Do not use it for several agents at once: spawn_agent does not block.")
	addCallTool(t, "codex-reply", works(), handler(c.timeout, c.reply),
		"Continue a thread of codex, or without a prompt wait for its last turn. Use it after codex, even if its agent "+
			"has ended. Do not use it for a new task: codex does that.")
}

// handler returns the handler of a tool that shows the last message of a turn. do ends a little before the call times out, so that there is
// time for its result.
func handler[In any](
	timeout time.Duration, do func(context.Context, *mcp.CallToolRequest, In) (codexOut, error),
) mcp.ToolHandlerFor[In, codexOut] {
	return func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, codexOut, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout-min(2*time.Second, timeout/4))
		defer cancel()
		out, err := do(ctx, req, in)
		if err != nil || out.State == stateRunning {
			return nil, out, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: out.Content}}}, out, nil
	}
}

func (c codex) start(ctx context.Context, req *mcp.CallToolRequest, in codexIn) (codexOut, error) {
	p := conversationParams{
		Settings:         Settings{Model: in.Model, Sandbox: in.Sandbox, ApprovalPolicy: in.ApprovalPolicy},
		BaseInstructions: in.BaseInstructions, DeveloperInstructions: in.DeveloperInstructions, Config: in.Config,
	}
	if in.CompactPrompt != "" {
		p.Config = map[string]any{"compact_prompt": in.CompactPrompt}
		maps.Copy(p.Config, in.Config)
	}
	var opened newConversationOut
	err := c.withAgent(ctx, req, c.starter.env.Absolute(in.Cwd), in.Prompt, func(id string) (err error) {
		opened, err = c.open(ctx, id, p)
		return err
	})
	if err != nil {
		return codexOut{}, err
	}
	return c.prompt(ctx, req, opened.ConversationID, in.Prompt)
}

// withAgent starts an agent in a directory and opens a conversation with it. Others may work in its directory, as with the former codex
// mcp-server.
func (c codex) withAgent(
	ctx context.Context, req *mcp.CallToolRequest, dir, prompt string, open func(id string) error,
) error {
	call := c.starter.spawning(ctx, c.elicitor, req, prompt)
	if call.byResult {
		call.session = nil // its answer would call codex, and so begin another turn
	}
	call.again = func(string) string { return "call " + req.Params.Name + " again with the same arguments" }
	id, err := c.waiting(ctx, dir, *agents.NewPermission(call.host, prompt))
	if err != nil {
		return err
	}
	settings := agents.Settings{ID: cmp.Or(id, codexPrefix+newID()), Cwd: dir, Shared: true, IdleTimeout: codexIdle}
	if limit := c.starter.options.IdleTimeout; limit > 0 {
		settings.IdleTimeout = min(codexIdle, limit)
	}
	a, _, err := c.starter.start(ctx, call, settings)
	if err != nil {
		return err
	}
	if err = open(a.Identifier); err != nil {
		_ = c.agents.Kill(context.WithoutCancel(ctx), a.Identifier) // else it ends when it has been idle
	}
	return err
}

// waiting returns the id of an agent that an earlier call has started for the same work, and
// that had no permission for its directory when that call ended; "" if there is none.
func (c codex) waiting(ctx context.Context, dir string, of agents.Permission) (id string, err error) {
	place, err := paths.Find(dir)
	if err != nil {
		return "", nil //nolint:nilerr // the start of an agent says why
	}
	list, err := c.agents.List(ctx)
	if err != nil {
		return "", err
	}
	for _, one := range list {
		asked := one.Settings.Permission
		if asked == nil || one.Outcome != "" || !strings.HasPrefix(one.Identifier, codexPrefix) {
			continue
		}
		if one.WorkspacePath != place.Path || asked.Host != of.Host || asked.Prompt != of.Prompt {
			continue
		}
		calls, err := c.agents.DB.Clients.CallsOf(ctx, one.ID)
		if err != nil {
			return "", err
		}
		if len(calls) == 0 {
			return one.Identifier, nil
		}
	}
	return "", nil
}

func (c codex) reply(ctx context.Context, req *mcp.CallToolRequest, in codexReplyIn) (codexOut, error) {
	id := cmp.Or(in.ThreadID, in.ConversationID)
	if id == "" {
		return codexOut{}, reconcile.NewError(agents.CodeInvalid, "threadId is missing", "the result of codex has it")
	}
	if in.Prompt != "" {
		return c.prompt(ctx, req, id, in.Prompt)
	}
	known, err := c.agents.Conversation(ctx, id)
	if err != nil {
		return codexOut{}, err
	}
	calls, err := c.agents.DB.Clients.CallsOf(ctx, known.RunID)
	if err != nil {
		return codexOut{}, err
	}
	for _, turn := range slices.Backward(calls) {
		if turn.Verb == reconcile.CallTurn && turn.Conversation == known.ID {
			return c.result(ctx, req, known, turn, true)
		}
	}
	return codexOut{}, reconcile.NewError("no_turn", "the thread has no turn to wait for", "send a prompt")
}

// prompt carries out a turn in a thread. If the agent of the thread has ended, the thread is resumed in a new one.
func (c codex) prompt(ctx context.Context, req *mcp.CallToolRequest, threadID, prompt string) (codexOut, error) {
	known, err := c.agents.Conversation(ctx, threadID)
	if err != nil {
		return codexOut{}, err
	}
	items, err := inputs([]item{{Type: "text", Text: prompt}})
	if err != nil {
		return codexOut{}, err
	}
	params := runner.TurnCall{Items: items}
	turn, err := c.begin(ctx, known, "", params)
	if err != nil && exit.From(err).Code == agents.CodeEnded {
		if known, err = c.resume(ctx, req, known, prompt); err == nil {
			turn, err = c.begin(ctx, known, "", params)
		}
	}
	if err != nil {
		return codexOut{}, err
	}
	return c.result(ctx, req, known, turn, false)
}

// resume opens the thread of an ended agent in a new one, with the same directory and settings.
func (c codex) resume(
	ctx context.Context, req *mcp.CallToolRequest, known reconcile.Call, prompt string,
) (reconcile.Call, error) {
	params, err := paramsOf(known)
	if err != nil {
		return known, err
	}
	if bytes.Equal(params.SandboxPolicy, fullAccess) && !c.fullAccess {
		return known, reconcile.NewError(agents.CodeInvalid, "the thread was opened with the sandbox danger-full-access, which is not permitted",
			"start symphony mcp with --allow-full-access")
	}
	ended, err := c.agents.Find(ctx, known.Agent)
	if err != nil {
		return known, err
	}
	params.ThreadID = known.ThreadID
	err = c.withAgent(ctx, req, ended.WorkspacePath, prompt, func(id string) (err error) {
		known = reconcile.Call{ID: callID(id, ""), Verb: reconcile.CallConversation}
		known, err = c.do(ctx, id, known, params, nil, "call codex-reply again")
		return err
	})
	return known, err
}

// result waits for the end of a turn and returns its last message. Before, it returns the state running if the agent asks for
// something or the time is up. asked is set if the host already knows the agent's present request.
func (c codex) result(
	ctx context.Context, req *mcp.CallToolRequest, known, turn reconcile.Call, asked bool,
) (codexOut, error) {
	out := codexOut{ThreadID: known.ThreadID, State: stateRunning, AgentID: turn.Agent, TurnID: turn.ID}
	requests, err := c.follow(ctx, req, &turn, asked)
	if err != nil {
		return out, err
	}
	again := "codex-reply with the threadId " + out.ThreadID + " continues the thread"
	switch turn.Status {
	case reconcile.CallQueued, reconcile.CallRunning:
		out.Requests = requests
		out.Content = fmt.Sprintf("The turn continues. To wait for its end, call codex-reply with the threadId %s and no prompt.", out.ThreadID)
		if c.canWait {
			out.Content += fmt.Sprintf(" Or call wait_agent with the agentIds [%q].", out.AgentID)
		}
		return out, nil
	case reconcile.CallInterrupted:
		return out, reconcile.NewError("interrupted", "the turn was interrupted", again)
	case reconcile.CallFailed:
		return out, reconcile.NewError(turn.ErrorCode, turn.ErrorText, again)
	case reconcile.CallCompleted:
	}
	var result runner.TurnResult
	if err := json.Unmarshal(turn.Result, &result); err != nil {
		return out, fmt.Errorf("result of the turn %s: %w", turn.ID, err)
	}
	out.State, out.Content = string(turn.Status), result.LastMessage
	return out, nil
}

// follow waits until a turn has ended, its agent asks for something, or ctx is about to end. It returns the open requests.
func (c codex) follow(ctx context.Context, req *mcp.CallToolRequest, turn *reconcile.Call, asked bool) ([]requestState, error) {
	began, now := time.Now(), 0.0
	in := waitAgentIn{AgentIDs: []string{turn.Agent}, TimeoutSeconds: &now} // first only for a cursor
	asker := c.elicitor.asker(req)
	if asker.byResult {
		asker.session = nil // its answer would call codex, and so begin another turn
	}
	for {
		w, err := newWaiting(asker, in)
		if err != nil {
			return nil, err
		}
		before := time.Since(began)
		tell := progressTo(ctx, req, c.timeout)
		seen, err := w.wait(ctx, func(elapsed time.Duration, message string) { tell(before+elapsed, message) })
		if err != nil {
			return nil, err
		}
		call, _, err := c.agents.DB.Clients.Call(ctx, turn.ID)
		if err != nil {
			return nil, err
		}
		*turn = call
		requests := seen.Agents[0].Requests
		asks := len(requests) > 0 && seen.State == stateDone && (in.Cursor != "" || !asked)
		deadline, _ := ctx.Deadline()
		if turn.Ended() || asks || time.Until(deadline) <= waitMargin {
			return requests, nil
		}
		in.Cursor, in.TimeoutSeconds = seen.Cursor, nil
	}
}
