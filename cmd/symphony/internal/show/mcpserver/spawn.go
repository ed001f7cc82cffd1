package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/mcpserver/calls"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/proc"
)

// Place is the id of a new agent, and where it works.
type Place struct {
	ID     string `json:"id,omitempty" jsonschema:"to repeat the call safely"`
	Cwd    string `json:"cwd,omitempty" jsonschema:"absolute; default: the server's directory"`
	Shared bool   `json:"shared,omitempty" jsonschema:"other agents may work in the same directory"`

	Worktree bool `json:"worktree,omitempty" jsonschema:"it works and commits in a clone of the repository around cwd"`
	// Branch and Base are for a worktree.
	Branch string `json:"branch,omitempty" jsonschema:"of its commits; default: symphony/ and its id"`
	Base   string `json:"base,omitempty" jsonschema:"the branch where it begins; default: the one that is checked out"`
}

type spawnAgentIn struct {
	Place
	Prompt         string `json:"prompt,omitempty" jsonschema:"the work, with everything that the agent has to know"`
	Model          string `json:"model,omitempty"`
	ApprovalPolicy string `json:"approvalPolicy,omitempty" jsonschema:"default: on-request"`

	Sandbox string `json:"sandbox,omitempty" jsonschema:"default: workspace-write"`
}

// settings are those of the conversation for the prompt.
func (in spawnAgentIn) settings() Settings {
	return Settings{Model: in.Model, ApprovalPolicy: in.ApprovalPolicy, Sandbox: in.Sandbox}
}

type spawnAgentOut struct {
	AgentID string `json:"agentId"`
	Cwd     string `json:"cwd,omitempty"`
	Branch  string `json:"branch,omitempty" jsonschema:"of its worktree"`
	Base    string `json:"base,omitempty"`

	ConversationID string `json:"conversationId,omitempty" jsonschema:"in which the agent works on the prompt"`

	TurnID string `json:"turnId,omitempty" jsonschema:"of the prompt"`
	Status string `json:"status,omitempty" jsonschema:"of that turn"`
}

// mainConversation is the conversation in which an agent works on its first prompt.
const mainConversation = "main"

// spawnTool starts agents, and gives them their first prompt.
type spawnTool struct {
	conversations conversationTools
	starter       starter
	elicitor      *elicitor
}

func (s spawnTool) addTo(t *calls.Tools) {
	calls.AddForHost(t, calls.Tool{
		Name:   "spawn_agent",
		Effect: calls.Works,
		Description: "Start a coding agent of symphony in the background with a prompt, and return immediately. " +
			"Use it to delegate work, also to several agents in parallel, each with a worktree; " +
			"unlike a subagent of yours it goes on when you end. " +
			"send_user_message gives it more work.",
	}, s.spawn)
}

func (s spawnTool) spawn(
	ctx context.Context,
	req *mcp.CallToolRequest,
	in spawnAgentIn,
) (*mcp.CallToolResult, spawnAgentOut, error) {
	if err := s.check(in); err != nil { // before there is an agent
		return nil, spawnAgentOut{}, err
	}
	in.ID = cmp.Or(in.ID, answeredAgent(req))
	began := s.starter.env.Now()
	s.elicitor.takeAnswers(ctx, req)
	call := newSpawning(s.elicitor.asker(req), req, began, in.Prompt)
	one, toAsk, err := s.starter.start(ctx, call, in.Place)
	out := spawnAgentOut{AgentID: one.Identifier, Cwd: one.WorkspacePath}
	if tree := one.Settings.Worktree; tree != nil {
		out.Branch = tree.Branch
		out.Base = tree.Base
	}
	if err != nil || len(toAsk) > 0 || in.Prompt == "" {
		return call.asker.inputRequired(toAsk), out, err
	}
	turn, err := s.firstTurn(ctx, one.Identifier, in)
	out.ConversationID = turn.ConversationID
	out.TurnID = turn.TurnID
	out.Status = turn.Status
	if err == nil {
		return nil, out, nil
	}
	// An agent without a conversation is of no use, and one whose id the host does not know
	// could not be ended.
	isUseless := s.isUseless(ctx, one.Identifier)
	if isUseless {
		failed := *exit.From(err)
		failed.Hint = "spawn_agent tries again, also with the same id"
		err = &failed
	}
	if isUseless || in.ID == "" {
		err = errors.Join(err, s.starter.agents.Kill(context.WithoutCancel(ctx), one.Identifier))
	}
	return nil, out, err
}

// check refuses a prompt that the agent would not take, and settings that it would not use.
func (s spawnTool) check(in spawnAgentIn) error {
	settings := in.settings()
	if in.Prompt == "" && settings != (Settings{}) {
		return reconcile.NewError(
			agents.CodeInvalid,
			"model, approvalPolicy and sandbox are for a prompt, and there is none",
			"give them to new_conversation, or add the prompt",
		)
	}
	if in.Prompt == "" {
		return nil
	}
	if strings.TrimSpace(in.Prompt) == "" {
		return reconcile.NewError(agents.CodeInvalid, "prompt is empty", "say what the agent is to do")
	}
	if _, err := inputs(promptItems(in.Prompt)); err != nil {
		return err
	}
	_, err := policiesFor(agents.Agent{}, settings, s.conversations.fullAccess)
	return err
}

// isUseless reports whether the only conversation of an agent could not be opened.
func (s spawnTool) isUseless(ctx context.Context, agentID string) bool {
	main, found, err := s.conversations.find(context.WithoutCancel(ctx), agentID, mainConversation)
	return err == nil && found && main.Status == reconcile.CallFailed
}

// firstTurn gives a new agent its prompt.
func (s spawnTool) firstTurn(ctx context.Context, agentID string, in spawnAgentIn) (turnOut, error) {
	main := conversationParams{ID: mainConversation, Settings: in.settings()}
	if _, err := s.conversations.open(ctx, agentID, main); err != nil {
		return turnOut{}, err
	}
	return s.conversations.turn(ctx, agentID, turnParams{MessageParams: MessageParams{
		ConversationID: mainConversation,
		Items:          promptItems(in.Prompt),
		ID:             "first",
	}})
}

// promptItems returns a prompt as the items of a turn.
func promptItems(prompt string) []item { return []item{{Type: "text", Text: prompt}} }

// starter starts agents with the options of the server, and ends them.
type starter struct {
	agents      *agents.Agents
	env         *environ.Env
	options     Options
	permissions permissions
	autoApprove bool              // its agents get every approval that they ask for
	self        *reconcile.Handle // this process, if its agents are to end with it
}

// newStarter opens the state of the agents.
func newStarter(ctx context.Context, env *environ.Env, o Options) (starter, error) {
	s := starter{env: env, options: o}
	if o.Ephemeral {
		self, err := proc.Self()
		if err != nil {
			return s, fmt.Errorf("this process: %w", err)
		}
		s.self = &self
	}
	approve, err := autoApprove(env.Getenv("ORCH_AUTO_APPROVE"))
	if err != nil {
		return s, err
	}
	s.autoApprove = approve
	s.agents, err = agents.Open(ctx, env)
	if err != nil {
		return s, err
	}
	s.permissions = newPermissions(s.agents, env, o.Dirs)
	return s, nil
}

// autoApprove reads ORCH_AUTO_APPROVE.
func autoApprove(value string) (bool, error) {
	if value == "" {
		return false, nil
	}
	approve, err := strconv.ParseBool(value)
	if err != nil {
		return false, exit.Usage("mcp: ORCH_AUTO_APPROVE must be 1 or 0, not %q", value)
	}
	return approve, nil
}

// start starts an agent in a place, and waits until it may work there. toAsk is as in
// permissions.await.
func (s starter) start(
	ctx context.Context,
	call spawning,
	p Place,
) (one agents.Agent, toAsk []reconcile.Request, err error) {
	permit := func(dir paths.Place, byName bool) (bool, error) {
		return s.permissions.permit(ctx, dir, byName)
	}
	settings := agents.Settings{
		ID:              cmp.Or(p.ID, "agent-"+newID()),
		Cwd:             cmp.Or(p.Cwd, s.env.Dir),
		Shared:          p.Shared,
		IdleTimeout:     s.options.IdleTimeout,
		Program:         s.env.Getenv(wiring.DefaultAgent().ProgramVar),
		AutoApprove:     s.autoApprove,
		Host:            s.self,
		ApprovalTimeout: s.options.ApprovalTimeout,
		CallTimeout:     s.options.CallTimeout,
		Permit:          permit,
		Permission:      agents.NewPermission(call.host, call.prompt),
	}
	if p.Worktree {
		settings.Worktree = &agents.Worktree{Branch: p.Branch, Base: p.Base}
	} else if p.Branch != "" || p.Base != "" {
		return one, nil, reconcile.NewError(
			agents.CodeInvalid,
			"branch and base are for a worktree",
			"set worktree: true",
		)
	}
	one, err = s.agents.Spawn(ctx, settings)
	if err != nil {
		return one, nil, err
	}
	toAsk, err = s.permissions.await(ctx, call, one)
	return one, toAsk, err
}

// endAll ends the agents that are to end with this process.
func (s starter) endAll(ctx context.Context) error {
	if s.self == nil {
		return nil
	}
	list, err := s.agents.List(ctx)
	if err != nil {
		return fmt.Errorf("list the agents of this server: %w", err)
	}
	errs := make([]error, len(list))
	var ending sync.WaitGroup
	for i, a := range list {
		if a.Outcome == "" && a.Settings.Host != nil && *a.Settings.Host == *s.self {
			ending.Go(func() { errs[i] = s.agents.Kill(ctx, a.Identifier) })
		}
	}
	ending.Wait()
	return errors.Join(errs...)
}
