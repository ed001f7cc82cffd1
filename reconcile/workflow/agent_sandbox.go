package workflow

import (
	"encoding/json"
	"slices"
	"strings"
)

// The sandboxes of agents.
const (
	sandboxBwrap = "bwrap" // of symphony itself
	sandboxNone  = "none"
)

// noSandboxPolicy is the sandbox policy of turns without a sandbox, in the words of policies.
var noSandboxPolicy = json.RawMessage(`{"type":"dangerFullAccess"}`)

// sandboxed reports whether a kind of agent works in a sandbox.
func (c *Config) sandboxed(kind string) bool {
	if kind != DefaultAgent {
		return c.Agent.Sandbox != sandboxNone
	}
	if c.Agent.Sandbox == sandboxBwrap {
		return true
	}
	var policy struct{ Type string }
	if c.Session.TurnSandboxPolicy == nil || json.Unmarshal(c.Session.TurnSandboxPolicy, &policy) != nil {
		return true
	}
	return !slices.Contains(noSandbox, policy.Type)
}

// requireLinux refuses symphony's sandbox on other systems.
func (r *reader) requireLinux(kind, without string) {
	system := r.env.system()
	if system == "linux" {
		return
	}
	f := r.field("agent.sandbox")
	what := sandboxBwrap
	if f.node == nil {
		f = r.field("agent.kind")
		what = "agent.sandbox: bwrap"
	}
	if kind != DefaultAgent {
		what += ", the default of " + kind + ","
	}
	r.fail(CodeUnsupportedKey, f, what+" works on Linux alone, not on "+system, without)
}

// checkSandbox checks the sandbox of the kinds besides the default. It refuses agents without a
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
	case sandboxOwn:
		r.invalid(f, ownSandboxOnly, "remove the key; or, "+trust)
	case sandboxNone:
		if !own.Trust {
			r.invalid(f, "none needs agent.trust: true, because the agent can do whatever this account can", trust)
		}
		r.refuseObedient(f, kinds)
	}
	if !slices.Contains(own.kinds(), DefaultAgent) {
		for _, key := range ofSandboxes {
			r.warnKey(key, "no effect with agent.sandbox: none")
		}
	}
	if own.keyVar != "" {
		r.invalid(
			r.field("agent.key"),
			"needs agent.sandbox: bwrap, because an agent without a sandbox can read it",
			"remove agent.sandbox: none, or put the key into agent.env",
		)
	}
}

// refuseObedient refuses agents without a sandbox that start what files of the repository name.
func (r *reader) refuseObedient(f field, kinds []string) {
	for _, kind := range kinds {
		if kindNamed(kind).obeysRepository {
			r.invalid(
				f,
				"none does not work with agent.kind: "+kind+", in which files of the repository start programs without a question",
				"remove agent.sandbox",
			)
		}
	}
}

// checkBwrap checks the keys of symphony's own sandbox.
func (r *reader) checkBwrap(kinds []string, trust string) {
	own := r.cfg.Agent
	kind := kindNamed(kinds[0])
	r.requireLinux(kind.name, "use agent.kind: "+DefaultAgent+"; or, "+trust)
	r.warnKey("agent.trust", "no effect without agent.sandbox: none")
	if own.keyVar == "" {
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
