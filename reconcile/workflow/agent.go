package workflow

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
)

// root reads the workspace root. A variable that is not set gives the default.
func (r *reader) root(k Key, cfg *Config) {
	cfg.Workspace.Root = DefaultRoot(r.env.Temp)
	f, value, given := r.scalar(k)
	if !given {
		return
	}
	if name, isVar := reference(value); isVar && r.variable(name, "") == "" {
		r.warn(f.line, f.key, "the environment variable "+name+" is not set, or empty: "+cfg.Workspace.Root+" is used")
		return
	}
	cfg.Workspace.Root = r.path(f, f.line, value)
}

// path expands one path of a field. It is empty, with an error reported, where that fails.
func (r *reader) path(f field, line int, value string) string {
	path, err := r.env.expandPath(value, filepath.Dir(r.src.Path))
	if err != nil {
		r.fail(CodeInvalid, line, f.key, err.Error(), "")
	}
	return path
}

// hookTimeout falls back to the default where the file has no positive number (specification 5.3.4).
func (r *reader) hookTimeout(k Key, cfg *Config) {
	if f, given := r.fields[k.Name]; given {
		if n, err := digits(f.node); err == nil && n <= 0 {
			r.warn(f.line, f.key, fmt.Sprintf("%d is no limit, %s ms are used", n, k.Default))
			delete(r.fields, k.Name)
		}
	}
	cfg.Hooks.Timeout = r.milliseconds(k)
}

// writableRoots refuses directories through which an agent could reach more than they name: those that overlap the
// workspaces of other issues, hold WORKFLOW.md, or lie in another one, where a link could replace them.
func (r *reader) writableRoots(k Key, cfg *Config) {
	cfg.Agent.WritableRoots = []string{}
	f := r.fields[k.Name]
	items, _ := r.items(k)
	for _, item := range items {
		path := r.path(f, item.line, item.text)
		if path != "" && r.opensMore(f, item.line, path, cfg) {
			continue
		}
		cfg.Agent.WritableRoots = append(cfg.Agent.WritableRoots, path)
	}
}

func (r *reader) opensMore(f field, line int, path string, cfg *Config) bool {
	overlap := func(other string) bool {
		return other != "" && (text.PathInside(other, path) || text.PathInside(path, other))
	}
	if root := cfg.Workspace.Root; overlap(root) {
		r.fail(CodeInvalid, line, f.key, path+" overlaps workspace.root "+root+", and so the workspaces of other issues",
			"name a directory apart from the workspaces")
		return true
	}
	if text.PathInside(path, r.src.Path) {
		r.fail(CodeInvalid, line, f.key, path+" holds "+r.src.Path+", whose hooks run outside of the sandbox", "name a directory apart from it")
		return true
	}
	if i := slices.IndexFunc(cfg.Agent.WritableRoots, overlap); i >= 0 {
		r.fail(CodeInvalid, line, f.key, path+" and "+cfg.Agent.WritableRoots[i]+": one lies in the other, and could be replaced by a link", "name the outer one alone")
		return true
	}
	return false
}

// ownVars is the prefix of symphony's own variables.
const ownVars = "SYMPHONY_"

// passEnv reads the names of the variables that the agent's commands get. The tracker's key and symphony's own variables are
// refused: no work of an agent needs them, and often more people may edit a workflow than may see the key. Whether a
// variable is set is not checked, because the schedule has another environment than the command that checks the file.
func (r *reader) passEnv(k Key, cfg *Config) {
	cfg.Agent.PassEnv = []string{}
	items, _ := r.items(k)
	for _, item := range items {
		name, quoted := item.text, strconv.Quote(item.text)
		bare, dollar := strings.CutPrefix(name, "$")
		fail := func(message, hint string) { r.fail(CodeInvalid, item.line, k.Name, message, hint) }
		switch {
		case dollar && variableName(bare):
			fail(quoted+" is a value, not a name", "write "+bare)
		case !variableName(name):
			fail(quoted+" is no name of a variable", "a name is made of letters, digits and _, and begins with no digit")
		case slices.Contains(cfg.keyVars, name) || r.holds(name, cfg.Tracker.APIKey):
			fail(name+" holds the tracker's key, which no agent gets", "remove it; the tool linear_graphql works with that key without showing it")
		case strings.HasPrefix(name, ownVars):
			fail(name+" is one of symphony's own variables, which are not chosen here", "remove it")
		case !slices.Contains(cfg.Agent.PassEnv, name):
			cfg.Agent.PassEnv = append(cfg.Agent.PassEnv, name)
		}
	}
}

// holds reports whether the value that the variable has here contains the secret.
func (r *reader) holds(name string, secret Secret) bool {
	value, _ := r.env.lookup(name)
	return len(secret) >= shortestKey && strings.Contains(value, secret.Reveal())
}

func (r *reader) command(k Key, cfg *Config) {
	cfg.Codex.Command = r.text(k)
	f, given := r.fields[k.Name]
	if given && strings.TrimSpace(cfg.Codex.Command) == "" {
		r.fail(CodeInvalid, f.line, f.key, "empty", "leave it out for `codex app-server`")
	}
	if strings.Contains(cfg.Codex.Command, "shell_environment_policy") {
		r.warn(f.line, f.key, "symphony overrides its shell_environment_policy; agent.pass_env names the variables to pass")
	}
}

func (r *reader) home(k Key, cfg *Config) {
	if f, value, given := r.scalar(k); given {
		cfg.Codex.Home = r.path(f, f.line, value)
	}
}

// approvalPolicy passes codex's value through (specification 5.3.6).
func (r *reader) approvalPolicy(k Key, cfg *Config) {
	f := r.fields[k.Name]
	policy := r.passThrough(k, true)
	switch {
	case policy == nil:
		policy = quoteJSON(k.Default)
	case string(policy) == `"on-failure"` || strings.HasPrefix(string(policy), `{"reject":`):
		r.warn(f.line, f.key, "present versions of codex no longer know this value: use untrusted, on-request, never or {granular: …}")
	case string(policy) == `""`:
		r.fail(CodeInvalid, f.line, f.key, "empty", "leave it out for never")
	}
	cfg.Codex.ApprovalPolicy = policy
}

func (r *reader) turnSandboxPolicy(k Key, cfg *Config) {
	cfg.Codex.TurnSandboxPolicy = r.passThrough(k, false)
}
