// Package mcpserver offers agents as tools to any host that speaks the Model Context Protocol
// over stdin and stdout. It holds no state: what it knows it reads from the database of the
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
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
)

// Options of the server.
type Options struct {
	Groups []string // of tools; empty for all that are possible
	// CallTimeout limits each call of a tool.
	CallTimeout, ApprovalTimeout, IdleTimeout time.Duration
	// Ephemeral: the agents that this server has spawned end with it.
	Ephemeral bool
	// ByPerson: no tool decides requests, only a person at the host, at the page or in a
	// terminal.
	ByPerson bool
	// FullAccess permits conversations without a sandbox.
	FullAccess bool
	// Events: the host gets the events of agents as notifications even if it has not asked for
	// them.
	Events bool
	// Deliver permits to push the work of agents to the origin of the operator's repository.
	Deliver bool
	// Dirs are directories in which agents may work, beside that of the server and the roots
	// of the host.
	Dirs    []string
	Project *wiring.Project // of the issues; nil without a workflow
	// overHTTP: the hosts get no events as notifications, which the SDK can't send there.
	overHTTP bool
	// outputSchemas: the list of tools has them, for the documentation.
	outputSchemas bool
}

// Server is the server of one host.
type Server struct {
	starter  starter
	elicitor *elicitor
	mcp      *mcp.Server
	log      *slog.Logger
}

// New opens the state of the agents and registers the tools. The server logs to stderr.
func New(ctx context.Context, w *environ.Env, stderr io.Writer, o Options) (*Server, error) {
	if len(o.Groups) == 0 {
		o.Groups = slices.DeleteFunc(
			Groups(),
			func(g string) bool { return g == GroupLean || g == GroupIssues && o.Project == nil },
		)
	}
	if o.Project == nil && slices.Contains(o.Groups, GroupIssues) {
		return nil, exit.Usage("mcp: the tools of the group issues need a workflow")
	}
	starter, err := newStarter(ctx, w, o)
	if err != nil {
		return nil, err
	}
	a := starter.agents
	log := slog.New(slog.NewTextHandler(stderr, nil))
	s := &Server{starter: starter, elicitor: newElicitor(a, log), log: log}
	options := &mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}}
	if !o.overHTTP {
		options.Capabilities.Experimental = map[string]any{eventMethod: struct{}{}}
	}
	switch {
	case slices.Contains(o.Groups, GroupAgents):
		options.Instructions = instructions
	case slices.Contains(o.Groups, GroupLean): // the others explain themselves
		options.Instructions = leanInstructions
	}
	s.mcp = mcp.NewServer(&mcp.Implementation{
		Name:    "symphony",
		Title:   "Symphony",
		Version: wiring.Version(),
	}, options)
	t := &tools{
		server:   s.mcp,
		byPerson: o.ByPerson,
		timeout:  o.CallTimeout,
		log:      log,
		inParams: map[string]bool{},
	}
	s.mcp.AddReceivingMiddleware(t.call, o.describeTools)
	addTools(t, caller{
		agents:     a,
		timeout:    o.CallTimeout,
		fullAccess: o.FullAccess,
	}, starter, s.elicitor)
	return s, nil
}

const instructions = `Each agent is a coding agent (codex) that works in a directory and outlives this server. spawn_agent starts one,
new_conversation opens a conversation with it, send_user_turn gives it work and returns at once. wait_agent waits
for its end or a request, read_events reads what the agent has done. list_agents shows agents that an earlier host has started.`

const leanInstructions = `Each agent is a coding agent (codex) that works in a directory and outlives this server. spawn_agent starts one
with a prompt and returns at once. wait_agent waits for its end or a request, read_changes shows what it has changed.`

// closePatience is how long the connection may take to close after a signal. A host that does
// not read blocks it for ever.
const closePatience = time.Second

// Serve answers the host until in ends or ctx is canceled. It writes nothing but messages of
// the protocol to out. Then it ends the agents that are to end with it.
func (s *Server) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := newTransport(in, out, s.log)
	events := forwardEvents(ctx, s.starter.agents, s.log, t, s.starter.options.Events)
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
	cancel() // what follows the agents must not read a database that is closed
	return errors.Join(err, s.starter.endAll(context.WithoutCancel(ctx)), s.starter.agents.Close())
}
