package mcpserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// nestedIn are the arguments of a tool that has its own ones in params.
type nestedIn[P any] struct {
	AgentID string `json:"agentId"`
	Params  P      `json:"params"`
}

// optionalIn are those of a tool for which params may be left out.
type optionalIn[P any] struct {
	AgentID string `json:"agentId"`
	Params  P      `json:"params,omitempty"`
}

// caller sends calls to agents.
type caller struct {
	agents     *agents.Agents
	timeout    time.Duration // of the call of a tool
	fullAccess bool          // conversations without a sandbox are permitted
}

// do sends a call to an agent, waits for its end, and decodes its result unless result is nil.
// Its error is that of the call, or reports with hint that the time is up.
func (c caller) do(
	ctx context.Context,
	agentID string,
	call reconcile.Call,
	params, result any,
	hint string,
) (reconcile.Call, error) {
	call, err := c.agents.Call(ctx, agentID, call, params)
	if err == nil {
		call, err = c.agents.Await(ctx, call.ID)
	}
	switch {
	case err != nil:
	case !call.Ended() && errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = reconcile.NewError(agents.CodeTimeout,
			fmt.Sprintf("%s has not ended within %s", call.Verb, text.Took(c.timeout.Milliseconds())), hint)
	case !call.Ended():
		err = ctx.Err()
	default:
		err = agents.Failure(call)
	}
	if err == nil && result != nil {
		if err = json.Unmarshal(call.Result, result); err != nil {
			err = fmt.Errorf("result of the call %s: %w", call.ID, err)
		}
	}
	return call, err
}

// newID is the id of something whose client has chosen none.
func newID() string { return strings.ToLower(rand.Text()[:10]) }

// callID is the id of a call. One that a client has chosen counts for one agent.
func callID(agentID, chosen string) string { return agentID + "." + cmp.Or(chosen, newID()) }

// Settings are those of a conversation, or of one turn in it.
type Settings struct {
	Model          string `json:"model,omitempty"`
	Cwd            string `json:"cwd,omitempty" jsonschema:"absolute; default: the agent's directory"`
	ApprovalPolicy string `json:"approvalPolicy,omitempty" jsonschema:"default: on-request"`
	Sandbox        string `json:"sandbox,omitempty" jsonschema:"default: workspace-write"`
}

// policies returns the directory of settings without symbolic links, and what codex calls
// their approval policy and sandbox; nothing for those of a run.
func (c caller) policies(
	a agents.Agent,
	s Settings,
) (cwd string, approval, sandbox json.RawMessage, err error) {
	if cwd, err = directory(a, s.Cwd); err == nil {
		approval, err = approvalPolicy(s.ApprovalPolicy)
	}
	if err == nil {
		sandbox, err = sandboxPolicy(s.Sandbox, c.fullAccess)
	}
	return cwd, approval, sandbox, err
}

// directory checks that a directory is in that of the agent, because two agents in one
// directory are refused. "" is the agent's.
func directory(a agents.Agent, dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	const hint = "give the absolute path of an existing directory"
	if !filepath.IsAbs(dir) {
		return "", reconcile.NewError(
			agents.CodeInvalid,
			fmt.Sprintf("cwd %q is not an absolute path", dir),
			hint,
		)
	}
	place, err := paths.Find(dir)
	if err == nil && !place.Exists {
		err = &fs.PathError{Op: "find", Path: dir, Err: fs.ErrNotExist}
	}
	if err != nil {
		return "", reconcile.NewError(agents.CodeInvalid, "cwd: "+err.Error(), hint)
	}
	space, err := paths.Find(a.WorkspacePath)
	if err != nil {
		return "", fmt.Errorf("find the directory of agent %s: %w", a.Identifier, err)
	}
	below := place.Below(space)
	if len(below) == 0 {
		return "", reconcile.NewError(
			agents.CodeInvalid,
			fmt.Sprintf(
				"cwd %s is not in %s, where agent %s works",
				dir,
				a.WorkspacePath,
				a.Identifier,
			),
			"spawn an agent in that directory",
		)
	}
	return filepath.Join(a.WorkspacePath, below[0]), nil
}

func approvalPolicy(word string) (json.RawMessage, error) {
	switch word {
	case "":
		return nil, nil
	case "untrusted", "on-request", "never":
		return json.Marshal(word)
	case "on-failure":
		return nil, reconcile.NewError(
			agents.CodeInvalid,
			"codex no longer has the approvalPolicy on-failure",
			"use on-request",
		)
	}
	return nil, reconcile.NewError(
		agents.CodeInvalid,
		fmt.Sprintf("unknown approvalPolicy %q", word),
		"use untrusted, on-request or never",
	)
}

// fullAccess is codex's policy for danger-full-access.
var fullAccess = json.RawMessage(`{"type":"dangerFullAccess"}`)

// sandboxPolicy returns codex's policy for the name of a sandbox, nil for that of a run.
func sandboxPolicy(word string, fullAccessPermitted bool) (json.RawMessage, error) {
	switch {
	case word == "" || word == "workspace-write":
		return nil, nil
	case word == "read-only":
		return json.RawMessage(`{"type":"readOnly","networkAccess":false}`), nil
	case word == "danger-full-access" && fullAccessPermitted:
		return fullAccess, nil
	case word == "danger-full-access":
		return nil, reconcile.NewError(agents.CodeInvalid, "the sandbox danger-full-access is not permitted",
			"use workspace-write, or start symphony mcp with --allow-full-access")
	}
	return nil, reconcile.NewError(
		agents.CodeInvalid,
		fmt.Sprintf("unknown sandbox %q", word),
		"use read-only or workspace-write",
	)
}
