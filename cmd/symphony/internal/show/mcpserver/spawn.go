package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
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
	ID     string `json:"id,omitempty" jsonschema:"of your choice; a second call with it returns the same agent"`
	Cwd    string `json:"cwd,omitempty" jsonschema:"absolute, where it works; default: the server's directory"`
	Shared bool   `json:"shared,omitempty" jsonschema:"other agents may work in the same directory"`

	Worktree bool `json:"worktree,omitempty" jsonschema:"it works and commits in a clone of the repository around cwd"`
	// Branch and Base are for a worktree.
	Branch string `json:"branch,omitempty" jsonschema:"of its commits; default: symphony/ and its id"`
	Base   string `json:"base,omitempty" jsonschema:"the branch where it begins; default: the one that is checked out"`
}

type spawnAgentOut struct {
	AgentID string `json:"agentId"`
	Cwd     string `json:"cwd"`
	Branch  string `json:"branch,omitempty" jsonschema:"of its worktree"`
	Base    string `json:"base,omitempty"`
}

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
	began := s.env.Now()
	e.takeAnswers(ctx, req)
	call := newSpawning(e.asker(req), req, began, "")
	agent, toAsk, err := s.start(ctx, call, in)
	out := spawnAgentOut{AgentID: agent.Identifier, Cwd: agent.WorkspacePath}
	if tree := agent.Settings.Worktree; tree != nil {
		out.Branch = tree.Branch
		out.Base = tree.Base
	}
	return call.asker.inputRequired(toAsk), out, err
}

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
	s.permissions = permissions{agents: s.agents, env: env, dirs: o.Dirs, overHTTP: o.overHTTP}
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
		Permit:          func(dir paths.Place) (bool, error) { return s.permissions.permit(ctx, dir) },
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
