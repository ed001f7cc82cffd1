package workflow

import (
	"encoding/json"
	"slices"
	"strings"
)

// The sandboxes of agents.
const (
	sandboxBwrap = "bwrap" // of symphony itself
	sandboxCodex = "codex" // of codex
	sandboxNone  = "none"
)

// noSandboxPolicy is the sandbox policy of turns without a sandbox, in the words of codex.
var noSandboxPolicy = json.RawMessage(`{"type":"dangerFullAccess"}`)

// ofCodexSandbox are the keys of codex's own sandbox.
var ofCodexSandbox = []string{"codex.thread_sandbox", "codex.turn_sandbox_policy", "agent.trust_repository"}

// sandboxed reports whether a kind of agent works in a sandbox.
func (c *Config) sandboxed(kind string) bool {
	if kind != AgentCodex {
		return c.Agent.Sandbox != sandboxNone
	}
	if c.Agent.Sandbox == sandboxBwrap {
		return true
	}
	var policy struct{ Type string }
	if c.Codex.TurnSandboxPolicy == nil || json.Unmarshal(c.Codex.TurnSandboxPolicy, &policy) != nil {
		return true
	}
	return !slices.Contains(noSandbox, policy.Type)
}

// checkCodexSandbox checks the keys of codex's sandbox, which is its own unless the workflow
// asks for symphony's.
func (r *reader) checkCodexSandbox() {
	own := r.cfg.Agent
	isAlone := len(own.others()) == 0
	if own.Sandbox != sandboxBwrap {
		if own.Allow != nil {
			r.fail(
				CodeUnsupportedKey,
				r.field("agent.network"),
				"codex's own sandbox can't allow single hosts",
				"write agent.sandbox: bwrap; or true or false",
			)
		}
		for _, key := range ofBoxes {
			if isAlone {
				r.warnKey(key, "no effect with codex's own sandbox: write agent.sandbox: bwrap")
			}
		}
		return
	}
	if isAlone {
		r.requireLinux(AgentCodex, "remove agent.sandbox: codex has a sandbox of its own")
	}
	for _, key := range ofCodexSandbox {
		r.warnKey(key, "no effect with agent.sandbox: bwrap")
	}
	refuse := func(f field, without string) {
		if f.node != nil {
			r.fail(CodeUnsupportedKey, f, "not built yet for codex with agent.sandbox: bwrap", without)
		}
	}
	if r.cfg.Codex.Inherit {
		refuse(r.field("codex.inherit"), "remove the key: the sandbox shows nothing of codex.home but the login")
	}
	if isAlone { // of other kinds refuseUnbuilt refuses them
		refuse(r.field("worker.ssh_hosts"), "remove agent.sandbox")
		refuse(r.field("worker.engine.kind"), "remove agent.sandbox")
	}
	for i, row := range own.ByLabel {
		if row.Sandbox != nil && (isAlone || row.Kind == AgentCodex) {
			refuse(r.item(r.field("agent.by_label"), i), "remove its sandbox")
		}
	}
}

// requireLinux refuses symphony's sandbox on other systems.
func (r *reader) requireLinux(kind, without string) {
	system := r.env.system()
	if system == "linux" {
		return
	}
	f := r.field("agent.sandbox")
	if f.node == nil {
		f = r.field("agent.kind")
	}
	what := "agent.sandbox: bwrap"
	if kind != AgentCodex {
		what += ", the default of " + kind + ","
	}
	r.fail(CodeUnsupportedKey, f, what+" works on Linux alone, not on "+system, without)
}

// checkSandbox checks the sandbox of the kinds besides codex. It refuses agents without a
// sandbox, unless the operator trusts them.
func (r *reader) checkSandbox(kinds []string) {
	own := &r.cfg.Agent
	f := r.field("agent.sandbox")
	const trust = "if you trust the agent with everything that this account can do, " +
		"write agent.sandbox: none and agent.trust: true"
	switch own.Sandbox {
	case "", sandboxBwrap:
		r.checkBwrap(kinds, trust)
		return
	case sandboxCodex:
		r.invalid(f, "codex's sandbox is only for agent.kind: codex", "remove the key; or, "+trust)
	case sandboxNone:
		if !own.Trust {
			r.invalid(f, "none needs agent.trust: true, because the agent can do whatever this account can", trust)
		}
	}
	if !slices.Contains(own.kinds(), AgentCodex) {
		for _, key := range ofSandboxes {
			r.warnKey(key, "no effect with agent.sandbox: none")
		}
	}
	if own.Key != "" {
		r.invalid(
			r.field("agent.key"),
			"needs agent.sandbox: bwrap, because an agent without a sandbox can read it",
			"remove agent.sandbox: none, or put the key into agent.env",
		)
	}
}

// checkBwrap checks the keys of symphony's own sandbox.
func (r *reader) checkBwrap(kinds []string, trust string) {
	own := r.cfg.Agent
	kind := kindNamed(kinds[0])
	r.requireLinux(kind.name, "use agent.kind: codex; or, "+trust)
	r.warnKey("agent.trust", "no effect without agent.sandbox: none")
	if own.Key == "" {
		return
	}
	f := r.field("agent.key")
	switch {
	case len(kinds) > 1:
		r.invalid(
			f,
			"is the key of a single kind, and the agents may be "+strings.Join(kinds, " and "),
			"put the keys into agent.env, where the agents and their commands can read them",
		)
	case len(r.cfg.providers()) > 1:
		r.invalid(
			f,
			"is the key of a single provider, and the models are of "+strings.Join(r.cfg.providers(), " and "),
			"name models of one provider, or put the keys into agent.env, where the agents can read them",
		)
	case !kind.takesKey:
		r.fail(
			CodeUnsupportedKey,
			f,
			"symphony does not know how agent.kind: "+kind.name+" sends its key",
			"put the key into agent.env, where the agent and its commands can read it",
		)
	case own.Network:
		r.invalid(
			f,
			"needs a network that symphony serves, which agent.network: true is not",
			"write agent.network: {allow: [HOSTS]}",
		)
	}
}
