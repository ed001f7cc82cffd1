package workflow

import (
	"cmp"
	"encoding/json"
)

// written are the settings of agents as the file has them, without those of any choice.
type written struct {
	agent Agent
	codex Codex
}

// WithAgent returns the configuration with which an agent works. What the keys of other kinds
// say is then in the place of the keys of codex.
func (c *Config) WithAgent(a AgentChoice) *Config {
	own := *c
	own.Agent = c.written.agent
	own.Codex = c.written.codex
	codex := &own.Codex
	own.Agent.Kind = a.Kind
	codex.Home = a.Home
	codex.Command = a.Command
	codex.Model = a.Model
	codex.Effort = a.Effort
	own.Agent.Boxed = a.Kind != AgentCodex && c.sandboxed(a.Kind) || c.Agent.Sandbox == sandboxBwrap
	own.Agent.OnApproval = cmp.Or(own.Agent.OnApproval, own.standardApproval())
	if a.Kind == AgentCodex {
		own.Agent.Env = nil // codex and its commands have no use for another agent's key
		own.Agent.Key = ""
		if own.Agent.Boxed {
			codex.ThreadSandbox = ""
			codex.TurnSandboxPolicy = nil
			own.Agent.TrustRepository = false
		}
		return &own
	}
	codex.TrustLauncher = false // even in a sandbox files of the repository must not replace the agent
	codex.Inherit = true
	codex.ThreadSandbox = ""
	codex.ApprovalPolicy = json.RawMessage(`"never"`) // nothing that it asks leads out of the sandbox
	codex.TurnSandboxPolicy = nil
	own.Agent.TrustRepository = false
	own.Agent.OnQuestion = Fail
	if own.Agent.Boxed {
		return &own
	}
	codex.TurnSandboxPolicy = noSandboxPolicy
	own.Agent.Network = true
	own.Agent.Allow = nil
	own.Agent.WritableRoots = nil
	own.Agent.PassEnv = nil
	return &own
}

// standardApproval is agent.on_approval where the file does not say it.
func (c *Config) standardApproval() string {
	if c.Agent.Kind != AgentCodex || c.Codex.asksNothing() {
		return Approve
	}
	return Fail
}

// asksNothing reports whether codex asks for no approval.
func (c *Codex) asksNothing() bool { return string(c.ApprovalPolicy) == `"never"` }
