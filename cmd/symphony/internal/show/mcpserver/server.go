// Package mcpserver offers agents as tools to any host that speaks the Model Context Protocol over stdin and stdout. It holds no state:
// what it knows it reads from the database of the agents, so that a new server continues where another was killed.
package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// The groups of tools.
const (
	GroupAgents = "agents"
	GroupIssues = "issues" // needs a workflow
	GroupCodex  = "codex"
)

// Groups are all groups of tools.
func Groups() []string { return []string{GroupAgents, GroupIssues, GroupCodex} }

// Options of the server.
type Options struct {
	Groups []string // of tools; empty for all that are possible
	// CallTimeout limits each call of a tool.
	CallTimeout, ApprovalTimeout, IdleTimeout time.Duration
	// Ephemeral: the agents that this server has spawned end with it.
	Ephemeral bool
	// FullAccess permits conversations without a sandbox.
	FullAccess bool
	// Events: the host gets the events of agents as notifications even if it has not asked for them.
	Events  bool
	Project *project.Project // of the issues; nil without a workflow
}

// Server is the server of one host.
type Server struct {
	Options
	env    *environ.Env
	agents *agents.Agents
	mcp    *mcp.Server
	log    *slog.Logger
	self   *reconcile.Handle // this process, if agents are to end with it

	// autoApprove: the agents that it spawns get every approval that they ask for.
	autoApprove bool
	asked       asked
}

// New opens the state of the agents and registers the tools. The server logs to stderr.
func New(ctx context.Context, w *environ.Env, stderr io.Writer, o Options) (*Server, error) {
	if len(o.Groups) == 0 {
		o.Groups = slices.DeleteFunc(Groups(), func(g string) bool { return g == GroupIssues && o.Project == nil })
	}
	if o.Project == nil && slices.Contains(o.Groups, GroupIssues) {
		return nil, exit.Usage("mcp: the tools of the group issues need a workflow")
	}
	s := &Server{
		Options: o, env: w, log: slog.New(slog.NewTextHandler(stderr, nil)),
		asked: asked{waiting: map[string]context.CancelFunc{}, over: map[string]bool{}, person: askedPerson},
	}
	if o.Ephemeral {
		self, err := proc.Self()
		if err != nil {
			return nil, fmt.Errorf("this process: %w", err)
		}
		s.self = &self
	}
	var err error
	if s.autoApprove, err = autoApprove(w.Getenv("ORCH_AUTO_APPROVE")); err != nil {
		return nil, err
	}
	if s.agents, err = agents.Open(ctx, w); err != nil {
		return nil, err
	}
	s.mcp = mcp.NewServer(
		&mcp.Implementation{Name: "symphony", Title: "Symphony", Version: project.Version()},
		&mcp.ServerOptions{Instructions: instructionsFor(o.Groups), Capabilities: &mcp.ServerCapabilities{
			Tools: &mcp.ToolCapabilities{}, Experimental: map[string]any{eventMethod: struct{}{}},
		}},
	)
	s.mcp.AddReceivingMiddleware(s.checkCalls)
	for _, group := range s.Groups {
		s.addGroup(group)
	}
	return s, nil
}

const instructions = `Each agent is a coding agent (codex) that works in a directory and outlives this server. spawn_agent starts one,
new_conversation opens a conversation with it, send_user_turn gives it work and returns at once. wait_agent waits
for its end or a request, read_events reads what the agent has done. list_agents shows agents that an earlier host has started.`

// instructionsFor are the instructions of a server with these groups of tools. The tools of the others explain themselves.
func instructionsFor(groups []string) string {
	if slices.Contains(groups, GroupAgents) {
		return instructions
	}
	return ""
}

// addGroup registers the tools of a group.
func (s *Server) addGroup(group string) {
	switch group {
	case GroupAgents:
		s.addAgentTools()
		s.addTurnTools()
		s.addWaitTools()
		s.addEventTools()
		s.addRequestTools()
		s.addMachineTools()
	case GroupIssues:
		s.addIssueTools()
	case GroupCodex:
		s.addCodexTools()
	}
}

// closePatience is how long the connection may take to close after a signal. A host that does not read blocks it for ever.
const closePatience = time.Second

// Serve answers the host until in ends or ctx is canceled. It writes nothing but messages of the protocol to out. Then it ends the
// agents that are to end with it.
func (s *Server) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := newTransport(in, out, s.log)
	s.mcp.AddReceivingMiddleware(forwardEvents(ctx, s.agents, s.log, t, s.Events), s.sendRequests(ctx))
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
	return errors.Join(err, s.endAgents(context.WithoutCancel(ctx)), s.agents.Close())
}

// endAgents ends the agents that are to end with this process.
func (s *Server) endAgents(ctx context.Context) error {
	if s.self == nil {
		return nil
	}
	list, err := s.agents.List(ctx)
	var mu sync.Mutex
	var ending sync.WaitGroup
	for _, a := range list {
		if a.Outcome == "" && a.Settings.Host != nil && *a.Settings.Host == *s.self {
			ending.Go(func() {
				failed := s.agents.Kill(ctx, a.Identifier)
				mu.Lock()
				err = errors.Join(err, failed)
				mu.Unlock()
			})
		}
	}
	ending.Wait()
	return err
}

// ParseGroups reads a list of groups as on the command line.
func ParseGroups(list []string) ([]string, error) {
	for _, g := range list {
		if !slices.Contains(Groups(), g) {
			return nil, exit.Usage("mcp: --tools takes agents, issues and codex, not %q", g)
		}
	}
	return list, nil
}
