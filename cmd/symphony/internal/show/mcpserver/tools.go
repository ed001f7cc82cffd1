package mcpserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/reconcile"
)

type (
	// SpawnAgentIn are the arguments of spawn_agent.
	SpawnAgentIn struct {
		ID     string `json:"id,omitempty" jsonschema:"an id of your choice; a second call with the same id returns the same agent"`
		Cwd    string `json:"cwd,omitempty" jsonschema:"the absolute path of the directory it works in; default: that of the server"`
		Shared bool   `json:"shared,omitempty" jsonschema:"other agents may work in the same directory"`
	}
	// SpawnAgentOut is the result of spawn_agent.
	SpawnAgentOut struct {
		AgentID string `json:"agentId"`
		Cwd     string `json:"cwd"`
	}
	// ListAgentsIn are the arguments of list_agents.
	ListAgentsIn struct {
		All bool `json:"all,omitempty" jsonschema:"also agents that have ended"`
	}
	// ListAgentsOut is the result of list_agents.
	ListAgentsOut struct {
		AgentIDs []string    `json:"agentIds"`
		Agents   []AgentInfo `json:"agents"`
	}
	// AgentInfo is an agent.
	AgentInfo struct {
		AgentID         string    `json:"agentId"`
		State           string    `json:"state" jsonschema:"active (a call is open), idle or ended"`
		Cwd             string    `json:"cwd"`
		ConversationIDs []string  `json:"conversationIds"`
		StartedAt       time.Time `json:"startedAt"`
		EndedAt         time.Time `json:"endedAt,omitzero"`
		Outcome         string    `json:"outcome,omitempty" jsonschema:"how it ended"`
		Error           string    `json:"error,omitempty" jsonschema:"why it ended"`
	}
	// AgentIn names an agent.
	AgentIn struct {
		AgentID string `json:"agentId"`
	}
	// KillAgentOut is the result of kill_agent.
	KillAgentOut struct {
		AgentID string `json:"agentId"`
		State   string `json:"state" jsonschema:"ended"`
	}
)

// addAgentTools registers the tools that start, list and end agents.
func (s *Server) addAgentTools() {
	addTool(s, &mcp.Tool{
		Name: "spawn_agent", Annotations: hints(false, false, true),
		Description: "Start a coding agent in a directory and return immediately. It continues when this host ends. " +
			"Two agents in one directory are refused unless shared is set.",
	}, s.spawnAgent)
	addTool(s, &mcp.Tool{
		Name: "list_agents", Annotations: reads(), Description: "List the live agents, including those of other hosts, with their conversations.",
	}, s.listAgents)
	addTool(s, &mcp.Tool{
		Name: "kill_agent", Annotations: hints(false, true, true),
		Description: "End an agent with all its processes. A running turn is lost; files stay as they are.",
	}, s.killAgent)
}

func (s *Server) spawnAgent(ctx context.Context, _ *mcp.CallToolRequest, in SpawnAgentIn) (*mcp.CallToolResult, SpawnAgentOut, error) {
	agent, err := s.spawn(ctx, agents.Settings{
		ID: cmp.Or(in.ID, "agent-"+newID()), Cwd: cmp.Or(in.Cwd, s.env.Dir), Shared: in.Shared, IdleTimeout: s.IdleTimeout,
	})
	return nil, SpawnAgentOut{AgentID: agent.Identifier, Cwd: agent.WorkspacePath}, err
}

// spawn starts an agent with the options of the server.
func (s *Server) spawn(ctx context.Context, settings agents.Settings) (agents.Agent, error) {
	settings.Codex, settings.AutoApprove = s.env.Getenv("CODEX_BIN"), s.autoApprove
	settings.ApprovalTimeout, settings.CallTimeout, settings.Host = s.ApprovalTimeout, s.CallTimeout, s.self
	return s.agents.Spawn(ctx, settings)
}

// newID is the id of something whose client has chosen none.
func newID() string { return strings.ToLower(rand.Text()[:10]) }

func (s *Server) listAgents(ctx context.Context, _ *mcp.CallToolRequest, in ListAgentsIn) (*mcp.CallToolResult, ListAgentsOut, error) {
	list, err := s.agents.List(ctx)
	out := ListAgentsOut{AgentIDs: []string{}, Agents: []AgentInfo{}}
	for _, a := range list {
		if a.Outcome != "" && !in.All {
			continue
		}
		info, err := s.agentInfo(ctx, a)
		if err != nil {
			return nil, out, err
		}
		out.AgentIDs, out.Agents = append(out.AgentIDs, info.AgentID), append(out.Agents, info)
	}
	return nil, out, err
}

func (s *Server) agentInfo(ctx context.Context, a agents.Agent) (AgentInfo, error) {
	info := AgentInfo{
		AgentID: a.Identifier, State: "idle", Cwd: a.WorkspacePath, ConversationIDs: []string{},
		StartedAt: a.StartedAt, EndedAt: a.EndedAt, Outcome: string(a.Outcome), Error: a.ErrorText,
	}
	calls, err := s.agents.DB.Clients.CallsOf(ctx, a.ID)
	for _, call := range calls {
		if !call.Ended() {
			info.State = "active"
		}
		if call.Verb == reconcile.CallConversation && call.ThreadID != "" {
			info.ConversationIDs = append(info.ConversationIDs, call.ThreadID)
		}
	}
	if a.Outcome != "" {
		info.State = "ended"
	}
	return info, err
}

func (s *Server) killAgent(ctx context.Context, _ *mcp.CallToolRequest, in AgentIn) (*mcp.CallToolResult, KillAgentOut, error) {
	return nil, KillAgentOut{AgentID: in.AgentID, State: "ended"}, s.agents.Kill(ctx, in.AgentID)
}
