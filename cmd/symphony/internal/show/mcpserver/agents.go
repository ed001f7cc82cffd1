package mcpserver

import (
	"context"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/mcpserver/calls"
	"github.com/symphony-cron/symphony/reconcile"
)

type (
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

// addAgentTools registers the tools that list and end agents.
func addAgentTools(t *calls.Tools, all *agents.Agents) {
	calls.Add(t, calls.Tool{
		Name:        "list_agents",
		Effect:      calls.Reads,
		Description: "List the live agents of symphony, also those of other hosts, with their conversations.",
	}, func(ctx context.Context, in listAgentsIn) (listAgentsOut, error) {
		return listAgents(ctx, all, in)
	})
	calls.Add(t, calls.Tool{
		Name:        "kill_agent",
		Effect:      calls.Ends,
		Description: "End an agent with all its processes; its files stay. interrupt ends only a turn.",
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
