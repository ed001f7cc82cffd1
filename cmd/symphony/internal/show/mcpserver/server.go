// Package mcpserver offers agents as tools to any host that speaks the Model Context Protocol
// over stdin and stdout. It holds no state: it reads everything from the database of the
// agents, so that a new server continues where another was killed.
package mcpserver

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/mcpserver/calls"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
)

// Server is the server of a host.
type Server struct {
	starter  starter
	elicitor *elicitor
	events   bool // the host gets events even if it did not ask for them
	mcp      *mcp.Server
	log      *slog.Logger
}

// New opens the state of the agents and registers the tools. The server logs to stderr.
func New(ctx context.Context, env *environ.Env, stderr io.Writer, o Options) (*Server, error) {
	groups, err := o.groups()
	if err != nil {
		return nil, err
	}
	starter, err := newStarter(ctx, env, o)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	s := &Server{
		starter:  starter,
		elicitor: newElicitor(starter.agents, log, o.decidingTools(groups)),
		events:   o.Events,
		mcp:      newMCP(groups, !o.overHTTP),
		log:      log,
	}
	registry := calls.New(s.mcp, calls.Options{
		Timeout:       o.CallTimeout,
		Log:           log,
		OutputSchemas: o.outputSchemas,
	})
	s.addTools(registry, groups, env, o)
	return s, nil
}

// newMCP returns the SDK's server, without tools. sendsEvents: hosts may ask for events as
// notifications.
func newMCP(groups []string, sendsEvents bool) *mcp.Server {
	options := &mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}}
	if sendsEvents {
		options.Capabilities.Experimental = map[string]any{eventMethod: struct{}{}}
	}
	switch { // the tools of issues explain themselves
	case slices.Contains(groups, GroupAgents):
		options.Instructions = instructions
	case slices.Contains(groups, GroupLean):
		options.Instructions = leanInstructions
	}
	return mcp.NewServer(&mcp.Implementation{
		Name:    "symphony",
		Title:   "Symphony",
		Version: wiring.Version(),
	}, options)
}

// addTools registers the tools of each group. A tool is in the file of its subject.
func (s *Server) addTools(t *calls.Tools, groups []string, env *environ.Env, o Options) {
	agents := caller{agents: s.starter.agents, timeout: o.CallTimeout}
	conversations := conversationTools{caller: agents, fullAccess: o.FullAccess}
	decisions := decisionTools{
		agents:   s.starter.agents,
		byPerson: o.ByPerson,
		tools:    o.decidingTools(groups),
	}
	changes := changeTools{
		agents:  s.starter.agents,
		project: o.Project,
		deliver: o.Deliver,
		timeout: o.CallTimeout,
	}
	for _, group := range groups {
		switch group {
		case GroupAgents:
			addSpawnTool(t, s.starter, s.elicitor)
			addAgentTools(t, s.starter.agents)
			conversations.addTo(t)
			addWaitTool(t, s.elicitor)
			addEventTool(t, s.starter.agents)
			decisions.addTo(t)
			machineTools{caller: agents, fullAccess: o.FullAccess}.addTo(t)
			changes.addTo(t)
		case GroupLean:
			leanTools{
				conversations: conversations,
				decisions:     decisions,
				starter:       s.starter,
				elicitor:      s.elicitor,
			}.addTo(t)
			addAgentTools(t, s.starter.agents)
			addWaitTool(t, s.elicitor)
			addEventTool(t, s.starter.agents)
			changes.addTo(t)
		case GroupIssues:
			issueTools{env: env, project: o.Project}.addTo(t)
		}
	}
}

// The instructions are one line each: the agent shows its model the first line, before the model
// has searched for tools. The model searches by words such as delegate, background, parallel
// and worktree.
const (
	whatItIs = "Symphony delegates work to coding agents (codex) in the background, to several in parallel, " +
		"each in a directory or a git worktree of its own. They outlive this server. "

	instructions = whatItIs + "spawn_agent starts one, new_conversation opens a conversation with it, " +
		"send_user_turn gives it work and returns at once. wait_agent waits for its end or a request, " +
		"read_events reads what the agent has done. list_agents shows agents that an earlier host has started."

	leanInstructions = whatItIs + "spawn_agent starts one with a prompt and returns at once. " +
		"wait_agent waits for its end or a request, read_changes shows what it has changed."
)

// closePatience is how long the connection may take to close after a signal. A host that does
// not read blocks it for ever.
const closePatience = time.Second

// Serve answers the host until in ends or ctx is canceled. It writes nothing but messages of
// the protocol to out. Then it ends the agents that are to end with it.
func (s *Server) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := newTransport(in, out, s.log)
	events := forwardEvents(ctx, s.starter.agents, s.log, t, s.events)
	s.mcp.AddReceivingMiddleware(events, s.elicitor.middleware(ctx))
	ended := make(chan error, 1)
	go func() { ended <- s.mcp.Run(ctx, t) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		select {
		case err = <-ended:
		case <-time.After(closePatience):
		}
	}
	if ctx.Err() != nil {
		err = nil // a signal is how a host ends a server
	}
	cancel() // the followers of agents must not read a database that is closed
	return errors.Join(err, s.starter.endAll(context.WithoutCancel(ctx)), s.starter.agents.Close())
}
