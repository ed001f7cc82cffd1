package workflow

import (
	"encoding/json"
	"path/filepath"
	"slices"

	"github.com/symphony-cron/symphony/internal/paths"
)

// folder checks provider.path.
func (r trackerReader) folder(f field) {
	switch dir := r.cfg.Tracker.folder; {
	case dir == "" && f.node != nil: // reported
	case dir == "":
		r.invalid(f, "missing", "write the path of a folder with Markdown files, such as backlog/tasks")
	default:
		r.cfg.Tracker.Folder = dir
		r.place(f, dir, "file "+dir)
	}
}

// protectFolder refuses settings that let agents write the folder of the issues: they could answer themselves.
func (r trackerReader) protectFolder() {
	dir := r.cfg.Tracker.Folder
	if dir == "" {
		return
	}
	overlaps := func(path string) bool { return paths.Overlap(path, dir) }
	f := r.field("tracker.provider.path")
	const hint = "keep the issues where agents cannot write"
	if root := r.cfg.Workspace.Root; overlaps(root) {
		r.invalid(f, dir+" overlaps workspace.root "+root+", where agents write", hint)
	}
	for _, root := range r.agentRoots(dir) {
		if filepath.IsAbs(root) && overlaps(root) {
			r.invalid(f, dir+" overlaps "+root+", which agents may write", hint)
		}
	}
}

// agentRoots returns the directories beside the workspaces that agents may write. It warns if they may write anywhere, and thereby
// what keeps the issues.
func (r trackerReader) agentRoots(issues string) []string {
	everywhere := "agents can write " + issues + ", and thereby move and answer every issue"
	roots := r.cfg.Agent.WritableRoots
	var policy struct {
		Type          string   `json:"type"`
		WritableRoots []string `json:"writableRoots"`
	}
	if r.cfg.Codex.TurnSandboxPolicy != nil && json.Unmarshal(r.cfg.Codex.TurnSandboxPolicy, &policy) == nil {
		roots = slices.Concat(roots, policy.WritableRoots)
		if policy.Type != "workspaceWrite" && policy.Type != "readOnly" {
			r.warn(r.field("codex.turn_sandbox_policy"), everywhere)
		}
	}
	if r.cfg.Agent.OnApproval == Approve && string(r.cfg.Codex.ApprovalPolicy) != `"never"` {
		r.warn(r.field("agent.on_approval"), "approved commands run outside the sandbox: "+everywhere)
	}
	return roots
}
