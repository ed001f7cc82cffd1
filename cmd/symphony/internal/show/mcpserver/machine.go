package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
)

type (
	// AuthStatusOut is the result of get_auth_status.
	AuthStatusOut struct {
		AgentID  string `json:"agentId"`
		LoggedIn bool   `json:"loggedIn"`
		Account  string `json:"account,omitempty" jsonschema:"the kind and the user of the login"`
		Needed   bool   `json:"needed" jsonschema:"the model can't be used without a login"`
		Provider string `json:"provider,omitempty" jsonschema:"the service that runs the model, without a login"`
		EnvKey   string `json:"envKey,omitempty" jsonschema:"the name of the variable with the key of the provider"`
	}
	// UserAgentOut is the result of get_user_agent.
	UserAgentOut struct {
		AgentID   string `json:"agentId"`
		UserAgent string `json:"userAgent" jsonschema:"the name and version of codex, and the system"`
	}
	// DiffIn are the arguments of git_diff_to_remote.
	DiffIn struct {
		AgentID string     `json:"agentId"`
		Params  DiffParams `json:"params,omitempty"`
	}
	// DiffParams name a directory.
	DiffParams struct {
		Cwd string `json:"cwd,omitempty" jsonschema:"an absolute path in the directory of the agent; default: that directory"`
	}
	// DiffOut is the result of git_diff_to_remote.
	DiffOut struct {
		AgentID string `json:"agentId"`
		SHA     string `json:"sha" jsonschema:"the newest commit that the remote repository has, too"`
		Diff    string `json:"diff" jsonschema:"from that commit to the files as they are"`
	}
	// ExecIn are the arguments of exec_one_off_command.
	ExecIn struct {
		AgentID string     `json:"agentId"`
		Params  ExecParams `json:"params"`
	}
	// ExecParams are a command.
	ExecParams struct {
		Command   []string `json:"command" jsonschema:"a program and its arguments; no shell reads them"`
		Cwd       string   `json:"cwd,omitempty" jsonschema:"an absolute path in the directory of the agent; default: that directory"`
		Sandbox   string   `json:"sandbox,omitempty" jsonschema:"read-only, workspace-write (default); danger-full-access if permitted"`
		TimeoutMS int64    `json:"timeoutMs,omitempty" jsonschema:"default 30000"`
	}
	// ExecOut is the result of exec_one_off_command.
	ExecOut struct {
		AgentID string `json:"agentId"`
		agent.ExecResult
	}
)

// addMachineTools registers the tools about the machine of an agent, which need no conversation.
func (s *Server) addMachineTools() {
	addTool(s, &mcp.Tool{
		Name: "get_auth_status", Annotations: reads(), Description: "Return how the codex of an agent reaches its model.",
	}, s.authStatus)
	addTool(s, &mcp.Tool{Name: "get_user_agent", Annotations: reads(), Description: "Return the version of an agent's codex."}, s.userAgent)
	addTool(s, &mcp.Tool{
		Name: "git_diff_to_remote", Annotations: reads(),
		Description: "Return the differences between the directory of an agent and its remote git repository.",
	}, s.diffToRemote)
	addTool(s, &mcp.Tool{
		Name: "exec_one_off_command", Annotations: works(),
		Description: "Run one command in the sandbox of an agent, without its model, and return its output.",
	}, s.execOnce)
}

func (s *Server) authStatus(ctx context.Context, _ *mcp.CallToolRequest, in AgentIn) (*mcp.CallToolResult, AuthStatusOut, error) {
	var login runner.LoginResult
	err := s.askAgent(ctx, in.AgentID, reconcile.CallLogin, struct{}{}, &login)
	return nil, AuthStatusOut{
		AgentID: in.AgentID, LoggedIn: login.Account != "", Account: login.Account, Needed: login.Needed,
		Provider: login.Provider, EnvKey: login.EnvKey,
	}, err
}

func (s *Server) userAgent(ctx context.Context, _ *mcp.CallToolRequest, in AgentIn) (*mcp.CallToolResult, UserAgentOut, error) {
	var login runner.LoginResult
	err := s.askAgent(ctx, in.AgentID, reconcile.CallLogin, struct{}{}, &login)
	return nil, UserAgentOut{AgentID: in.AgentID, UserAgent: login.UserAgent}, err
}

func (s *Server) diffToRemote(ctx context.Context, _ *mcp.CallToolRequest, in DiffIn) (*mcp.CallToolResult, DiffOut, error) {
	var diff agent.Diff
	cwd, err := s.directoryOf(ctx, in.AgentID, in.Params.Cwd)
	if err == nil {
		err = s.askAgent(ctx, in.AgentID, reconcile.CallDiff, runner.ExecCall{Cwd: cwd}, &diff)
	}
	return nil, DiffOut{AgentID: in.AgentID, SHA: diff.SHA, Diff: diff.Diff}, err
}

func (s *Server) execOnce(ctx context.Context, _ *mcp.CallToolRequest, in ExecIn) (*mcp.CallToolResult, ExecOut, error) {
	out := ExecOut{AgentID: in.AgentID}
	call := runner.ExecCall{Command: in.Params.Command, TimeoutMS: in.Params.TimeoutMS}
	limit := (s.CallTimeout - time.Second).Milliseconds()
	var err error
	switch {
	case len(call.Command) == 0 || call.Command[0] == "":
		err = exit.Fault(agents.CodeInvalid, "command is empty", `send a program and its arguments: ["git", "status"]`)
	case call.TimeoutMS < 0 || call.TimeoutMS > limit:
		err = exit.Fault(agents.CodeInvalid, fmt.Sprintf("timeoutMs %d is not between 0 and %d", call.TimeoutMS, limit), "a turn can take longer")
	}
	if err == nil {
		call.Cwd, err = s.directoryOf(ctx, in.AgentID, in.Params.Cwd)
	}
	if err == nil {
		call.SandboxPolicy, err = s.sandboxPolicy(in.Params.Sandbox)
	}
	if err == nil {
		err = s.askAgent(ctx, in.AgentID, reconcile.CallExec, call, &out.ExecResult)
	}
	return nil, out, err
}

func (s *Server) directoryOf(ctx context.Context, agentID, dir string) (string, error) {
	a, err := s.agents.Find(ctx, agentID)
	if err != nil {
		return "", err
	}
	return directory(a, dir)
}

// askAgent asks an agent something that needs no conversation, and waits for the result.
func (s *Server) askAgent(ctx context.Context, agentID string, verb reconcile.CallVerb, params, result any) error {
	call, err := s.agents.Call(ctx, agentID, reconcile.Call{ID: callID(agentID, ""), Verb: verb}, params)
	if err == nil {
		call, err = s.await(ctx, call.ID, "try again")
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(call.Result, result); err != nil {
		return fmt.Errorf("result of the call %s: %w", call.ID, err)
	}
	return nil
}
