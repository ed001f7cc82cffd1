// Package mcpserver offers agents as tools to any host that speaks the Model Context Protocol
// over stdin and stdout. It holds no state: it reads everything from the database of the
// agents, so that a new server continues where another was killed.
package mcpserver

import (
	"context"
	"errors"
	"io"
	"log/slog"
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
	starter, err := newStarter(ctx, env, o)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	s := &Server{
		starter:  starter,
		elicitor: newElicitor(starter.agents, log, o.ByPerson),
		events:   o.Events,
		mcp:      newMCP(),
		log:      log,
	}
	registry := calls.New(s.mcp, calls.Options{
		Timeout:       o.CallTimeout,
		Log:           log,
		OutputSchemas: o.outputSchemas,
	})
	s.addTools(registry, env, o)
	return s, nil
}

// newMCP returns the SDK's server, without tools.
func newMCP() *mcp.Server {
	return mcp.NewServer(
		&mcp.Implementation{
			Name:    "symphony",
			Title:   "Symphony",
			Version: wiring.Version(),
		},
		&mcp.ServerOptions{
			Instructions: instructions,
			Capabilities: &mcp.ServerCapabilities{
				Tools:        &mcp.ToolCapabilities{},
				Experimental: map[string]any{eventMethod: struct{}{}},
			},
		},
	)
}

// addTools registers the tools. A tool is in the file of its subject.
func (s *Server) addTools(t *calls.Tools, env *environ.Env, o Options) {
	conversations := conversationTools{
		caller:     caller{agents: s.starter.agents, timeout: o.CallTimeout},
		fullAccess: o.FullAccess,
	}
	spawnTool{conversations: conversations, starter: s.starter, elicitor: s.elicitor}.addTo(t)
	addAgentTools(t, s.starter.agents)
	conversations.addTo(t)
	addWaitTool(t, s.elicitor)
	addEventTool(t, s.starter.agents)
	if !o.ByPerson {
		addDecisionTool(t, s.starter.agents)
	}
	changeTools{
		agents:  s.starter.agents,
		project: o.Project,
		deliver: o.Deliver,
		timeout: o.CallTimeout,
	}.addTo(t)
	if o.Project != nil {
		issueTools{env: env, project: o.Project}.addTo(t)
	}
}

// The instructions are one line: the agent shows its model the first line, before the model has
// searched for tools. The model searches by words such as delegate, background, parallel and
// worktree.
const instructions = "Symphony delegates work to coding agents (codex) in the background, to several in parallel, " +
	"each in a directory or a git worktree of its own. They outlive this server. " +
	"spawn_agent starts one with a prompt and returns at once. " +
	"wait_agent waits for its end or a request, read_changes shows what it has changed. " +
	"list_agents shows agents that an earlier host has started. " +
	"A command in an error, such as symphony status, is for your user."

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
	s.mcp.AddReceivingMiddleware(events)
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
