package workflow

import (
	"encoding/json"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/internal/text"
)

// agent reads its section. It comes after the workspace, which the writable roots must leave alone.
func (r *reader) agent(cfg *Config) {
	cfg.Codex.ApprovalPolicy = r.approvalPolicy()
	onApproval := Fail
	if string(cfg.Codex.ApprovalPolicy) == `"never"` {
		onApproval = Approve
	}
	cfg.Agent = Agent{
		MaxConcurrent:   int(r.integer("agent.max_concurrent_agents")),
		MaxByState:      r.stateLimits("agent.max_concurrent_agents_by_state"),
		MaxTurns:        int(r.integer("agent.max_turns")),
		MaxRetryBackoff: r.milliseconds("agent.max_retry_backoff_ms"),
		MaxFailures:     int(r.integer("agent.max_failures")),
		MaxIdleRuns:     int(r.integer("agent.max_idle_runs")),
		MaxRuns:         int(r.integer("agent.max_runs")),
		MaxTokens:       r.integer("agent.max_tokens"),
		OnApproval:      r.choice("agent.on_approval", onApproval, Approve, Deny, Fail, Ask),
		OnQuestion:      r.choice("agent.on_question", Fail, Fail, Ask),
		AnswerTimeout:   r.milliseconds("agent.answer_timeout_ms"),
		Network:         r.boolean("agent.network"),
		WritableRoots:   r.writableRoots(cfg.Workspace.Root),
		PassEnv:         r.passEnv(cfg.keyVars, cfg.Tracker.APIKey),
		TrustRepository: r.boolean("agent.trust_repository"),
		KeepGitConfig:   r.boolean("agent.keep_git_config"),
		ResumeThread:    r.boolean("agent.resume_thread"),
		Prices:          r.prices(),
	}
	r.askHints(cfg)
}

// askHints warns about settings by which nobody is ever asked.
func (r *reader) askHints(cfg *Config) {
	if cfg.Agent.OnApproval == Ask && string(cfg.Codex.ApprovalPolicy) == `"never"` {
		r.warn(r.lines["agent.on_approval"], "agent.on_approval", "no effect: codex asks for no approval under codex.approval_policy never; on-request is what it asks under")
	}
	if line, set := r.lines["agent.answer_timeout_ms"]; set && cfg.Agent.OnApproval != Ask && cfg.Agent.OnQuestion != Ask {
		r.warn(line, "agent.answer_timeout_ms", "no effect: neither agent.on_approval nor agent.on_question is ask")
	}
}

// writableRoots refuses a directory that holds the workspace root: it would open the other workspaces.
func (r *reader) writableRoots(root string) []string {
	paths := []string{}
	r.list("agent.writable_roots") // reports what is no list of strings
	f, _, ok := r.get("agent.writable_roots")
	if !ok || f.node.Kind != yaml.SequenceNode {
		return paths
	}
	for _, item := range f.node.Content {
		item = deref(item)
		if item.Kind != yaml.ScalarNode || strings.TrimSpace(item.Value) == "" || null(item) {
			continue
		}
		path := r.path(f, item)
		if path != "" && (text.PathInside(path, root) || text.PathInside(root, path)) {
			r.fail(CodeInvalid, r.line(item), f.key, path+" overlaps workspace.root "+root+", and so the workspaces of other issues",
				"name a directory apart from the workspaces")
			continue
		}
		if path != "" && r.opensMore(f, item, path, paths) {
			continue
		}
		paths = append(paths, path)
	}
	return paths
}

// opensMore refuses a directory by which an agent could open more for itself than is named: by writing WORKFLOW.md, or by
// putting a link in the place of a directory that lies in another one.
func (r *reader) opensMore(f field, item *yaml.Node, path string, others []string) bool {
	if text.PathInside(path, r.src.Path) {
		r.fail(CodeInvalid, r.line(item), f.key, path+" holds "+r.src.Path+", whose hooks run outside of the sandbox", "name a directory apart from it")
		return true
	}
	for _, other := range others {
		if other != "" && (text.PathInside(other, path) || text.PathInside(path, other)) {
			r.fail(CodeInvalid, r.line(item), f.key, path+" and "+other+": one lies in the other, and could be replaced by a link", "name the outer one alone")
			return true
		}
	}
	return false
}

// approvalPolicy passes codex's value through (specification 5.3.6).
func (r *reader) approvalPolicy() json.RawMessage {
	policy := r.passThrough("codex.approval_policy", true)
	f, k, _ := r.get("codex.approval_policy")
	switch {
	case policy == nil:
		return quoteJSON(k.Default)
	case string(policy) == `"on-failure"` || strings.HasPrefix(string(policy), `{"reject":`):
		r.warn(f.line, f.key, "present versions of codex no longer know this value: use untrusted, on-request, never or {granular: …}")
	case string(policy) == `""`:
		r.fail(CodeInvalid, f.line, f.key, "empty", "leave it out for never")
	}
	return policy
}

func (r *reader) codex(cfg *Config) {
	c := &cfg.Codex
	c.Command = r.text("codex.command")
	if f, _, ok := r.get("codex.command"); ok && strings.TrimSpace(c.Command) == "" {
		r.fail(CodeInvalid, f.line, f.key, "empty", "leave it out for `codex app-server`")
	}
	if f, _, ok := r.get("codex.home"); ok && f.node.Kind == yaml.ScalarNode {
		c.Home = r.path(f, f.node)
	} else if ok {
		r.wrong(f, typePath, kindName(f.node))
	}
	c.ThreadSandbox = strings.TrimSpace(r.text("codex.thread_sandbox"))
	c.TurnSandboxPolicy = r.passThrough("codex.turn_sandbox_policy", false)
	r.sandboxHints(c)
	c.TurnTimeout = r.milliseconds("codex.turn_timeout_ms")
	c.ReadTimeout = r.milliseconds("codex.read_timeout_ms")
	_, c.ReadTimeoutSet = r.fields["codex.read_timeout_ms"]
	c.StallTimeout = max(0, r.milliseconds("codex.stall_timeout_ms"))
}

// sandboxHints warns about settings that codex would refuse or that have no effect together.
func (r *reader) sandboxHints(c *Codex) {
	if line, set := r.lines["agent.trust_repository"]; set && c.ThreadSandbox == "" {
		r.warn(line, "agent.trust_repository", "no effect without codex.thread_sandbox")
	}
	if c.TurnSandboxPolicy == nil {
		return
	}
	var policy struct {
		Type          string           `json:"type"`
		WritableRoots *json.RawMessage `json:"writableRoots"`
	}
	if err := json.Unmarshal(c.TurnSandboxPolicy, &policy); err != nil || policy.Type == "" {
		r.warn(r.lines["codex.turn_sandbox_policy"], "codex.turn_sandbox_policy", "has no `type` that is a word, which codex wants")
	}
	const replaced = "no effect: codex.turn_sandbox_policy says it"
	if line, set := r.lines["agent.network"]; set {
		r.warn(line, "agent.network", replaced)
	}
	// Design 9: the directories are added to a workspaceWrite that names none.
	if line, set := r.lines["agent.writable_roots"]; set && (policy.Type != "workspaceWrite" || policy.WritableRoots != nil) {
		r.warn(line, "agent.writable_roots", replaced)
	}
}
