package mcpserver

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
)

// Settings of a conversation, or of a single turn in it.
type Settings struct {
	Model          string `json:"model,omitempty"`
	Cwd            string `json:"cwd,omitempty" jsonschema:"absolute; default: the agent's directory"`
	ApprovalPolicy string `json:"approvalPolicy,omitempty" jsonschema:"default: on-request"`
	Sandbox        string `json:"sandbox,omitempty" jsonschema:"default: workspace-write"`
}

// policies are settings in the agent's words. An empty setting means the same as in a run.
type policies struct {
	cwd      string // without symbolic links
	approval json.RawMessage
	sandbox  json.RawMessage
}

// policiesFor checks settings for an agent.
func policiesFor(a agents.Agent, s Settings, fullAccessPermitted bool) (policies, error) {
	cwd, err := directory(a, s.Cwd)
	if err != nil {
		return policies{}, err
	}
	approval, err := approvalPolicy(s.ApprovalPolicy)
	if err != nil {
		return policies{}, err
	}
	sandbox, err := sandboxPolicy(s.Sandbox, fullAccessPermitted)
	if err != nil {
		return policies{}, err
	}
	return policies{cwd: cwd, approval: approval, sandbox: sandbox}, nil
}

// directory checks that a directory is inside the agent's directory, because two agents in the
// same directory are refused. "" stands for the agent's directory.
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
	if err != nil {
		return "", reconcile.NewError(agents.CodeInvalid, "cwd: "+err.Error(), hint)
	}
	if !place.Exists {
		missing := &fs.PathError{Op: "find", Path: dir, Err: fs.ErrNotExist}
		return "", reconcile.NewError(agents.CodeInvalid, "cwd: "+missing.Error(), hint)
	}
	space, err := paths.Find(a.WorkspacePath)
	if err != nil {
		return "", fmt.Errorf("find the directory of agent %s: %w", a.Identifier, err)
	}
	below := place.Below(space)
	if len(below) == 0 {
		return "", reconcile.NewError(
			agents.CodeInvalid,
			fmt.Sprintf("cwd %s is not in %s, where agent %s works", dir, a.WorkspacePath, a.Identifier),
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
	}
	return nil, reconcile.NewError(
		agents.CodeInvalid,
		fmt.Sprintf("unknown approvalPolicy %q", word),
		"use untrusted, on-request or never",
	)
}

// sandboxPolicy returns the agent's policy for the name of a sandbox; nil for the sandbox of runs.
func sandboxPolicy(word string, fullAccessPermitted bool) (json.RawMessage, error) {
	switch word {
	case "", "workspace-write":
		return nil, nil
	case "read-only":
		return json.RawMessage(`{"type":"readOnly","networkAccess":false}`), nil
	case "danger-full-access":
		if !fullAccessPermitted {
			return nil, reconcile.NewError(
				agents.CodeInvalid,
				"the sandbox danger-full-access is not permitted",
				"use workspace-write; your user permits it by symphony mcp --allow-full-access",
			)
		}
		return json.RawMessage(`{"type":"dangerFullAccess"}`), nil
	}
	return nil, reconcile.NewError(
		agents.CodeInvalid,
		fmt.Sprintf("unknown sandbox %q", word),
		"use read-only or workspace-write",
	)
}
