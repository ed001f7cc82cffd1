package mcpserver

import (
	"context"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/mcpserver/calls"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
)

type (
	authStatusOut struct {
		AgentID  string `json:"agentId"`
		LoggedIn bool   `json:"loggedIn"`
		Account  string `json:"account,omitempty" jsonschema:"the kind and the user of the login"`
		Needed   bool   `json:"needed" jsonschema:"the model can't be used without a login"`
		Provider string `json:"provider,omitempty" jsonschema:"the service that runs the model, without a login"`
		EnvKey   string `json:"envKey,omitempty" jsonschema:"the name of the variable with the key of the provider"`
	}
	userAgentOut struct {
		AgentID   string `json:"agentId"`
		UserAgent string `json:"userAgent" jsonschema:"the name and version of codex, and the system"`
	}
	diffParams struct {
		Cwd string `json:"cwd,omitempty" jsonschema:"absolute; default: the agent's directory"`
	}
	diffOut struct {
		AgentID string `json:"agentId"`
		SHA     string `json:"sha" jsonschema:"the newest commit that the remote repository has, too"`
		Diff    string `json:"diff" jsonschema:"from that commit to the files as they are"`
	}
	execParams struct {
		Command   []string `json:"command" jsonschema:"a program and its arguments; no shell reads them"`
		Cwd       string   `json:"cwd,omitempty" jsonschema:"absolute; default: the agent's directory"`
		Sandbox   string   `json:"sandbox,omitempty" jsonschema:"default: workspace-write"`
		TimeoutMS int64    `json:"timeoutMs,omitempty" jsonschema:"default 30000"`
	}
	execOut struct {
		AgentID string `json:"agentId"`
		agent.ExecResult
	}
)

// machineTools are the tools about the machine of an agent, which need no conversation.
type machineTools struct {
	caller
	fullAccess bool // commands without a sandbox are permitted
}

func (m machineTools) addTo(t *calls.Tools) {
	calls.Add(t, calls.Tool{
		Name:   "get_auth_status",
		Effect: calls.Reads,
		Description: "Return how the codex of an agent reaches its model. " +
			"Use it if turns fail because of a login. " +
			"To log in, run codex login in a terminal.",
	}, m.authStatus)
	calls.Add(t, calls.Tool{
		Name:        "get_user_agent",
		Effect:      calls.Reads,
		Description: "Return the version of an agent's codex. Use it to report a problem.",
	}, m.userAgent)
	calls.Add(t, calls.Tool{
		Name:   "git_diff_to_remote",
		Effect: calls.Reads,
		Description: "Return what differs between the directory of an agent and its remote git repository. " +
			"Use it to see what was changed. " +
			"Do not use it where git knows no remote branch: read_changes needs none.",
	}, m.diffToRemote)
	calls.Add(t, calls.Tool{
		Name:   "exec_one_off_command",
		Effect: calls.Works,
		Description: "Run one command in the sandbox of an agent, without its model. " +
			"Use it to check a result. " +
			"Do not use it for what takes longer than a call: give the agent a turn.",
	}, m.execOnce)
}

func (m machineTools) authStatus(ctx context.Context, in agentIn) (authStatusOut, error) {
	var login runner.LoginResult
	err := m.ask(ctx, in.AgentID, reconcile.CallLogin, struct{}{}, &login)
	return authStatusOut{
		AgentID:  in.AgentID,
		LoggedIn: login.Account != "",
		Account:  login.Account,
		Needed:   login.Needed,
		Provider: login.Provider,
		EnvKey:   login.EnvKey,
	}, err
}

func (m machineTools) userAgent(ctx context.Context, in agentIn) (userAgentOut, error) {
	var login runner.LoginResult
	err := m.ask(ctx, in.AgentID, reconcile.CallLogin, struct{}{}, &login)
	return userAgentOut{AgentID: in.AgentID, UserAgent: login.UserAgent}, err
}

func (m machineTools) diffToRemote(
	ctx context.Context,
	in calls.NestedOptional[diffParams],
) (diffOut, error) {
	out := diffOut{AgentID: in.AgentID}
	call, err := m.execCall(ctx, in.AgentID, Settings{Cwd: in.Params.Cwd})
	if err != nil {
		return out, err
	}
	var diff runner.DiffResult
	if err := m.ask(ctx, in.AgentID, reconcile.CallDiff, call, &diff); err != nil {
		return out, err
	}
	out.SHA = diff.SHA
	out.Diff = cutCaptured(
		diff.Diff, maxRead, resultTokens, agent.MostOutput-len(diff.SHA)-1, "run git diff with exec_one_off_command",
	)
	return out, nil
}

func (m machineTools) execOnce(ctx context.Context, in calls.Nested[execParams]) (execOut, error) {
	out := execOut{AgentID: in.AgentID}
	p := in.Params
	if len(p.Command) == 0 || p.Command[0] == "" {
		return out, reconcile.NewError(
			agents.CodeInvalid,
			"command is empty",
			`send a program and its arguments: ["git", "status"]`,
		)
	}
	limit := (m.timeout - time.Second).Milliseconds()
	if p.TimeoutMS < 0 || p.TimeoutMS > limit {
		return out, reconcile.NewError(
			agents.CodeInvalid,
			fmt.Sprintf("timeoutMs %d is not between 0 and %d", p.TimeoutMS, limit),
			"a turn can take longer",
		)
	}
	call, err := m.execCall(ctx, in.AgentID, Settings{Cwd: p.Cwd, Sandbox: p.Sandbox})
	if err != nil {
		return out, err
	}
	call.Command = p.Command
	call.TimeoutMS = p.TimeoutMS
	if err := m.ask(ctx, in.AgentID, reconcile.CallExec, call, &out.ExecResult); err != nil {
		return out, err
	}
	out.limit()
	return out, nil
}

// limit cuts both outputs of a command so that together they fit into an answer.
func (o *execOut) limit() {
	const tokens = resultTokens/2 - noteTokens
	const how = "let the command print less"
	o.Stdout = cutCaptured(o.Stdout, maxRead/2, tokens, agent.MostOutput, how)
	o.Stderr = cutCaptured(o.Stderr, maxRead/2, tokens, agent.MostOutput, how)
}

// execCall returns the parameters of a command with these settings.
func (m machineTools) execCall(ctx context.Context, agentID string, s Settings) (runner.ExecCall, error) {
	a, err := m.agents.Find(ctx, agentID)
	if err != nil {
		return runner.ExecCall{}, err
	}
	policies, err := policiesFor(a, s, m.fullAccess)
	if err != nil {
		return runner.ExecCall{}, err
	}
	return runner.ExecCall{Cwd: policies.cwd, SandboxPolicy: policies.sandbox}, nil
}
