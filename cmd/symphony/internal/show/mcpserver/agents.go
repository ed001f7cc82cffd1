package mcpserver

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/mcpserver/calls"
	"github.com/symphony-cron/symphony/reconcile"
)

type (
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

// addSpawnTool registers the tool that starts an agent without a prompt.
func addSpawnTool(t *calls.Tools, s starter, e *elicitor) {
	calls.AddForHost(t, calls.Tool{
		Name:   "spawn_agent",
		Effect: calls.Sets,
		Description: "Start a coding agent of symphony in the background, in a directory, and return immediately. " +
			"Use it to delegate work, also in parallel, and before new_conversation; " +
			"unlike a subagent it outlives this host. " +
			"Do not use it in a directory where another agent works: " +
			"set worktree, so that each works in a clone, or shared.",
	}, func(ctx context.Context, req *mcp.CallToolRequest, in Place) (*mcp.CallToolResult, spawnAgentOut, error) {
		return spawnAgent(ctx, s, e, req, in)
	})
}

func spawnAgent(
	ctx context.Context,
	s starter,
	e *elicitor,
	req *mcp.CallToolRequest,
	in Place,
) (*mcp.CallToolResult, spawnAgentOut, error) {
	in.ID = cmp.Or(in.ID, answeredAgent(req))
	call := newSpawning(ctx, s.env.Now(), e, req, "")
	agent, toAsk, err := s.start(ctx, call, in)
	out := spawnAgentOut{AgentID: agent.Identifier, Cwd: agent.WorkspacePath}
	if tree := agent.Settings.Worktree; tree != nil {
		out.Branch = tree.Branch
		out.Base = tree.Base
	}
	return call.asker.inputRequired(toAsk), out, err
}

// addAgentTools registers the tools that list and end agents.
func addAgentTools(t *calls.Tools, all *agents.Agents) {
	calls.Add(t, calls.Tool{
		Name:   "list_agents",
		Effect: calls.Reads,
		Description: "List the live agents of symphony, those of other hosts, too, with their conversations. " +
			"Use it after a restart. Do not use it to wait for agents: wait_agent does.",
	}, func(ctx context.Context, in listAgentsIn) (listAgentsOut, error) {
		return listAgents(ctx, all, in)
	})
	calls.Add(t, calls.Tool{
		Name:   "kill_agent",
		Effect: calls.Ends,
		Description: "End an agent with all its processes; files stay. " +
			"Use it when the agent is not needed any more. " +
			"Do not use it to end only a turn: interrupt does.",
	}, func(ctx context.Context, in agentIn) (killAgentOut, error) {
		return killAgentOut{AgentID: in.AgentID, State: stateEnded}, all.Kill(ctx, in.AgentID)
	})
}

func listAgents(ctx context.Context, all *agents.Agents, in listAgentsIn) (listAgentsOut, error) {
	out := listAgentsOut{AgentIDs: []string{}, Agents: []agentInfo{}}
	list, err := all.List(ctx)
	if err != nil {
		return out, err
	}
	for _, a := range list {
		if a.Outcome != "" && !in.All {
			continue
		}
		info, err := newAgentInfo(ctx, all, a)
		if err != nil {
			return out, err
		}
		out.AgentIDs = append(out.AgentIDs, info.AgentID)
		out.Agents = append(out.Agents, info)
	}
	return out, nil
}

func newAgentInfo(ctx context.Context, all *agents.Agents, a agents.Agent) (agentInfo, error) {
	info := agentInfo{
		AgentID:         a.Identifier,
		State:           stateIdle,
		Cwd:             a.WorkspacePath,
		ConversationIDs: []string{},
		StartedAt:       a.StartedAt,
		EndedAt:         a.EndedAt,
		Outcome:         string(a.Outcome),
		Error:           a.ErrorText,
	}
	sent, err := all.DB.Clients.CallsOf(ctx, a.ID)
	if err != nil {
		return info, fmt.Errorf("read the calls of agent %s: %w", a.Identifier, err)
	}
	for _, call := range sent {
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
	return info, nil
}
