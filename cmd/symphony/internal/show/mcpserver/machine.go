package mcpserver

import (
	"context"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
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

// addMachineTools registers the tools about the machine of an agent, which need no
// conversation.
func addMachineTools(t *tools, c caller) {
	addTool(t, "get_auth_status", reads(), func(ctx context.Context, in agentIn) (authStatusOut, error) {
		var login runner.LoginResult
		err := c.ask(ctx, in.AgentID, reconcile.CallLogin, struct{}{}, &login)
		return authStatusOut{
			AgentID:  in.AgentID,
			LoggedIn: login.Account != "",
			Account:  login.Account,
			Needed:   login.Needed,
			Provider: login.Provider,
			EnvKey:   login.EnvKey,
		}, err
	}, "Return how the codex of an agent reaches its model. Use it if turns fail because of a login. "+
		"To log in, run codex login in a terminal.")
	addTool(t, "get_user_agent", reads(), func(ctx context.Context, in agentIn) (userAgentOut, error) {
		var login runner.LoginResult
		err := c.ask(ctx, in.AgentID, reconcile.CallLogin, struct{}{}, &login)
		return userAgentOut{AgentID: in.AgentID, UserAgent: login.UserAgent}, err
	}, "Return the version of an agent's codex. Use it to report a problem.")
	addTool(
		t,
		"git_diff_to_remote",
		reads(),
		func(ctx context.Context, in optionalIn[diffParams]) (diffOut, error) {
			var diff runner.DiffResult
			call, err := c.execCall(ctx, in.AgentID, Settings{Cwd: in.Params.Cwd})
			if err == nil {
				err = c.ask(ctx, in.AgentID, reconcile.CallDiff, call, &diff)
			}
			return diffOut{
				AgentID: in.AgentID,
				SHA:     diff.SHA,
				Diff:    cutText(diff.Diff, maxRead, "run git diff with exec_one_off_command"),
			}, err
		},
		"Return what differs between the directory of an agent and its remote git repository. Use it to see what was changed. "+
			"Do not use it where git knows no remote branch: read_changes needs none.",
	)
	addTool(t, "exec_one_off_command", works(), c.execOnce,
		"Run one command in the sandbox of an agent, without its model. Use it to check a result. "+
			"Do not use it for what takes longer than a call: give the agent a turn.")
}

func (c caller) execOnce(ctx context.Context, in nestedIn[execParams]) (execOut, error) {
	out := execOut{AgentID: in.AgentID}
	p := in.Params
	if len(p.Command) == 0 || p.Command[0] == "" {
		return out, reconcile.NewError(
			agents.CodeInvalid,
			"command is empty",
			`send a program and its arguments: ["git", "status"]`,
		)
	}
	if limit := (c.timeout - time.Second).Milliseconds(); p.TimeoutMS < 0 || p.TimeoutMS > limit {
		return out, reconcile.NewError(
			agents.CodeInvalid,
			fmt.Sprintf("timeoutMs %d is not between 0 and %d", p.TimeoutMS, limit),
			"a turn can take longer",
		)
	}
	call, err := c.execCall(ctx, in.AgentID, Settings{Cwd: p.Cwd, Sandbox: p.Sandbox})
	if err == nil {
		call.Command = p.Command
		call.TimeoutMS = p.TimeoutMS
		err = c.ask(ctx, in.AgentID, reconcile.CallExec, call, &out.ExecResult)
		out.Stdout = cutText(out.Stdout, maxRead/2, "let the command print less")
		out.Stderr = cutText(out.Stderr, maxRead/2, "let the command print less")
	}
	return out, err
}

// execCall returns the parameters of a command with these settings.
func (c caller) execCall(ctx context.Context, agentID string, s Settings) (call runner.ExecCall, err error) {
	a, err := c.agents.Find(ctx, agentID)
	if err == nil {
		call.Cwd, _, call.SandboxPolicy, err = c.policies(a, s)
	}
	return call, err
}

// ask asks an agent something that needs no conversation, and waits for the result.
func (c caller) ask(ctx context.Context, agentID string, verb reconcile.CallVerb, params, result any) error {
	_, err := c.do(ctx, agentID, reconcile.Call{
		ID:   callID(agentID, ""),
		Verb: verb,
	}, params, result, "try again")
	return err
}
