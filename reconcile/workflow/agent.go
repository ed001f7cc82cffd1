package workflow

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/internal/text"
)

// root reads the workspace root. A variable that is not set gives the default (specification 5.3.3).
func (r *reader) root(f field) {
	root := &r.cfg.Workspace.Root
	*root = filepath.Join(r.env.Temp, "symphony_workspaces")
	switch {
	case f.node == nil:
		return
	case f.node.Kind != yaml.ScalarNode:
		r.wrong(Key{Type: typePath}, f, "")
		return
	}
	if name, isVar := reference(strings.TrimSpace(f.node.Value)); isVar && r.variable(name, "") == "" {
		r.warn(f, "the environment variable "+name+" is not set, or empty: "+*root+" is used")
		return
	}
	*root = r.path(f, f.node.Value)
}

// path makes a path of a field absolute. It is empty, with an error reported, where that fails.
func (r *reader) path(f field, value string) string {
	path, err := r.env.expandPath(strings.TrimSpace(value), filepath.Dir(r.src.Path))
	if err != nil {
		r.invalid(f, err.Error(), "")
	}
	return path
}

// hookTimeout falls back to the default where the file has no positive number (specification 5.3.4).
func (r *reader) hookTimeout(f field) {
	if timeout := &r.cfg.Hooks.Timeout; *timeout <= 0 {
		r.warn(f, fmt.Sprintf("%d is no limit, 60000 ms are used", timeout.Milliseconds()))
		*timeout = time.Minute
	}
}

// writableRoots refuses directories through which an agent could reach more than they name: those that overlap the
// workspaces of other issues, hold WORKFLOW.md, or lie in another one, where a link could replace them.
func (r *reader) writableRoots(f field) {
	roots := []string{}
	for i, written := range r.cfg.Agent.WritableRoots {
		f := r.item(f, i)
		path := ""
		if written != "" {
			path = r.path(f, written)
		}
		overlap := func(other string) bool {
			return other != "" && (text.PathInside(other, path) || text.PathInside(path, other))
		}
		outer := slices.IndexFunc(roots, overlap)
		switch root := r.cfg.Workspace.Root; {
		case path == "":
		case overlap(root):
			r.invalid(f, path+" overlaps workspace.root "+root+", and so the workspaces of other issues",
				"name a directory apart from the workspaces")
		case text.PathInside(path, r.src.Path):
			r.invalid(f, path+" holds "+r.src.Path+", whose hooks run outside of the sandbox",
				"name a directory apart from it")
		case outer >= 0:
			r.invalid(f, path+" and "+roots[outer]+": one lies in the other, and could be replaced by a link",
				"name the outer one alone")
		default:
			roots = append(roots, path)
		}
	}
	r.cfg.Agent.WritableRoots = roots
}

// passEnv reads the names of the variables that the agent's commands get. The tracker's key and symphony's own variables are
// refused: no work of an agent needs them, and often more people may edit a workflow than may see the key. Whether a
// variable is set is not checked, because the schedule has another environment than the command that checks the file.
func (r *reader) passEnv(f field) {
	names := []string{}
	for i, name := range r.cfg.Agent.PassEnv {
		f, quoted := r.item(f, i), strconv.Quote(name)
		bare, dollar := strings.CutPrefix(name, "$")
		value, _ := r.env.lookup(name)
		key := r.cfg.Tracker.APIKey.Reveal()
		switch {
		case name == "":
		case dollar && variableName(bare):
			r.invalid(f, quoted+" is a value, not a name", "write "+bare)
		case !variableName(name):
			r.invalid(f, quoted+" is no name of a variable", "a name is made of letters, digits and _, and begins with no digit")
		case slices.Contains(r.cfg.SecretVars, name), len(key) >= shortestKey && strings.Contains(value, key):
			r.invalid(f, name+" holds the tracker's key, which no agent gets",
				"remove it; the tool linear_graphql works with that key without showing it")
		case strings.HasPrefix(name, "SYMPHONY_"):
			r.invalid(f, name+" is one of symphony's own variables, which are not chosen here", "remove it")
		case !slices.Contains(names, name):
			names = append(names, name)
		}
	}
	r.cfg.Agent.PassEnv = names
}

func (r *reader) command(f field) {
	if strings.TrimSpace(r.cfg.Codex.Command) == "" {
		r.invalid(f, "empty", "leave it out for `codex app-server`")
	}
	if strings.Contains(r.cfg.Codex.Command, "shell_environment_policy") {
		r.warn(f, "symphony overrides its shell_environment_policy; agent.pass_env names the variables to pass")
	}
}

// approvalPolicy passes codex's value through (specification 5.3.6).
func (r *reader) approvalPolicy(f field) {
	switch policy := string(r.cfg.Codex.ApprovalPolicy); {
	case policy == "":
		r.cfg.Codex.ApprovalPolicy = json.RawMessage(`"never"`)
	case policy == `"on-failure"` || strings.HasPrefix(policy, `{"reject":`):
		r.warn(f, "present versions of codex no longer know this value: use untrusted, on-request, never or {granular: …}")
	case policy == `""`:
		r.invalid(f, "empty", "leave it out for never")
	}
}

func (r *reader) turnSandboxPolicy(f field) {
	if f.node != nil && f.node.Kind == yaml.ScalarNode {
		r.invalid(f, "must be a map, is a single value", "write it as codex wants it, for instance {type: workspaceWrite}")
		r.cfg.Codex.TurnSandboxPolicy = nil
	}
}
