package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/proc"
)

type (
	// Place is the id of a new agent, and where it works.
	Place struct {
		ID     string `json:"id,omitempty" jsonschema:"of your choice; a second call with it returns the same agent"`
		Cwd    string `json:"cwd,omitempty" jsonschema:"absolute, where it works; default: the server's directory"`
		Shared bool   `json:"shared,omitempty" jsonschema:"other agents may work in the same directory"`
		// The last two are for a worktree.
		Worktree bool   `json:"worktree,omitempty" jsonschema:"it works and commits in a clone of the repository around cwd"`
		Branch   string `json:"branch,omitempty" jsonschema:"of its commits; default: symphony/ and its id"`
		Base     string `json:"base,omitempty" jsonschema:"the branch where it begins; default: the one that is checked out"`
	}
	spawnAgentOut struct {
		AgentID string `json:"agentId"`
		Cwd     string `json:"cwd"`
		Branch  string `json:"branch,omitempty" jsonschema:"of its worktree"`
		Base    string `json:"base,omitempty"`
	}
	listAgentsIn struct {
		All bool `json:"all,omitempty" jsonschema:"also agents that have ended"`
	}
	listAgentsOut struct {
		AgentIDs []string    `json:"agentIds"`
		Agents   []agentInfo `json:"agents"`
	}
	agentInfo struct {
		AgentID         string    `json:"agentId"`
		State           string    `json:"state" jsonschema:"active (a call is open), idle or ended"`
		Cwd             string    `json:"cwd"`
		ConversationIDs []string  `json:"conversationIds"`
		StartedAt       time.Time `json:"startedAt"`
		EndedAt         time.Time `json:"endedAt,omitzero"`
		Outcome         string    `json:"outcome,omitempty" jsonschema:"how it ended"`
		Error           string    `json:"error,omitempty" jsonschema:"why it ended"`
	}
	agentIn struct {
		AgentID string `json:"agentId"`
	}
	killAgentOut struct {
		AgentID string `json:"agentId"`
		State   string `json:"state" jsonschema:"ended"`
	}
)

// starter starts agents with the options of the server, and ends them.
type starter struct {
	agents      *agents.Agents
	env         *environ.Env
	options     Options
	autoApprove bool              // its agents get every approval that they ask for
	self        *reconcile.Handle // this process, if its agents are to end with it
}

// newStarter opens the state of the agents.
func newStarter(ctx context.Context, env *environ.Env, o Options) (s starter, err error) {
	s = starter{env: env, options: o}
	if o.Ephemeral {
		self, err := proc.Self()
		if err != nil {
			return s, fmt.Errorf("this process: %w", err)
		}
		s.self = &self
	}
	if s.autoApprove, err = autoApprove(env.Getenv("ORCH_AUTO_APPROVE")); err == nil {
		s.agents, err = agents.Open(ctx, env)
	}
	return s, err
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

// addAgentTools registers the tools that start, list and end agents.
func addAgentTools(t *tools, s starter, e *elicitor) {
	type result = mcp.CallToolResult
	addCallTool(t, "spawn_agent", hints(false, true), func(
		ctx context.Context, req *mcp.CallToolRequest, in Place,
	) (*result, spawnAgentOut, error) {
		in.ID = cmp.Or(in.ID, answeredAgent(req))
		call := s.spawning(ctx, e, req, "")
		agent, toAsk, err := s.startIn(ctx, call, in)
		out := spawnAgentOut{AgentID: agent.Identifier, Cwd: agent.WorkspacePath}
		if tree := agent.Settings.Worktree; tree != nil {
			out.Branch = tree.Branch
			out.Base = tree.Base
		}
		return call.inputRequired(toAsk), out, err
	}, "Start a coding agent in a directory and return immediately. Use it before new_conversation; the agent outlives this host. "+
		"Do not use it in a directory where another agent works: set worktree, so that each works in a clone, or shared.")
	addListTools(t, s)
}

// addListTools registers the tools that list and end agents.
func addListTools(t *tools, s starter) {
	addTool(
		t,
		"list_agents",
		reads(),
		s.list,
		"List the live agents, those of other hosts, too, with their conversations. Use it after a restart. Do not "+
			"use it to wait for agents: wait_agent does.",
	)
	addTool(t, "kill_agent", hints(true, true), func(ctx context.Context, in agentIn) (killAgentOut, error) {
		return killAgentOut{AgentID: in.AgentID, State: stateEnded}, s.agents.Kill(ctx, in.AgentID)
	}, "End an agent with all its processes; files stay. Use it when the agent is not needed any more. Do not use it to end "+
		"only a turn: interrupt does.")
}

// startIn starts an agent in a place. toAsk is that of awaitPermission.
func (s starter) startIn(
	ctx context.Context, call spawning, p Place,
) (one agents.Agent, toAsk []reconcile.Request, err error) {
	settings := agents.Settings{
		ID:          cmp.Or(p.ID, "agent-"+newID()),
		Cwd:         cmp.Or(p.Cwd, s.env.Dir),
		Shared:      p.Shared,
		IdleTimeout: s.options.IdleTimeout,
	}
	if p.Worktree {
		settings.Worktree = &agents.Worktree{Branch: p.Branch, Base: p.Base}
	} else if p.Branch != "" || p.Base != "" {
		return one, nil, reconcile.NewError(agents.CodeInvalid, "branch and base are for a worktree", "set worktree: true")
	}
	return s.start(ctx, call, settings)
}

// start starts an agent with the options of the server. toAsk is that of awaitPermission.
func (s starter) start(
	ctx context.Context, call spawning, settings agents.Settings,
) (one agents.Agent, toAsk []reconcile.Request, err error) {
	settings.Codex = s.env.Getenv("CODEX_BIN")
	settings.AutoApprove = s.autoApprove
	settings.Host = s.self
	settings.ApprovalTimeout = s.options.ApprovalTimeout
	settings.CallTimeout = s.options.CallTimeout
	settings.Permit = func(dir paths.Place) (bool, error) { return s.permit(ctx, dir) }
	settings.Permission = agents.NewPermission(call.host, call.prompt)
	one, err = s.agents.Spawn(ctx, settings)
	if err != nil {
		return one, nil, err
	}
	toAsk, err = s.awaitPermission(ctx, call, one)
	return one, toAsk, err
}

// endAll ends the agents that are to end with this process.
func (s starter) endAll(ctx context.Context) error {
	if s.self == nil {
		return nil
	}
	list, err := s.agents.List(ctx)
	errs := make([]error, len(list))
	var ending sync.WaitGroup
	for i, a := range list {
		if a.Outcome == "" && a.Settings.Host != nil && *a.Settings.Host == *s.self {
			ending.Go(func() { errs[i] = s.agents.Kill(ctx, a.Identifier) })
		}
	}
	ending.Wait()
	return errors.Join(err, errors.Join(errs...))
}

// The states of agents.
const (
	stateIdle    = "idle"
	stateActive  = "active"
	stateWaiting = "waiting for approval"
	stateEnded   = "ended"
)

func (s starter) list(ctx context.Context, in listAgentsIn) (listAgentsOut, error) {
	list, err := s.agents.List(ctx)
	out := listAgentsOut{AgentIDs: []string{}, Agents: []agentInfo{}}
	for _, a := range list {
		if a.Outcome != "" && !in.All {
			continue
		}
		info, err := newAgentInfo(ctx, s.agents, a)
		if err != nil {
			return out, err
		}
		out.AgentIDs = append(out.AgentIDs, info.AgentID)
		out.Agents = append(out.Agents, info)
	}
	return out, err
}

func newAgentInfo(ctx context.Context, all *agents.Agents, a agents.Agent) (agentInfo, error) {
	info := agentInfo{
		AgentID: a.Identifier, State: stateIdle, Cwd: a.WorkspacePath, ConversationIDs: []string{},
		StartedAt: a.StartedAt, EndedAt: a.EndedAt, Outcome: string(a.Outcome), Error: a.ErrorText,
	}
	calls, err := all.DB.Clients.CallsOf(ctx, a.ID)
	for _, call := range calls {
		if !call.Ended() {
			info.State = stateActive
		}
		if call.Verb == reconcile.CallConversation && call.ThreadID != "" {
			info.ConversationIDs = append(info.ConversationIDs, call.ThreadID)
		}
	}
	if a.Outcome != "" {
		info.State = stateEnded
	}
	return info, err
}
