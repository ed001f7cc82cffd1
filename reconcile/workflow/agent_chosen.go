package workflow

import (
	"cmp"
	"encoding/json"
)

// Chosen is the agent that works with a configuration, and what it may do: what the file says
// for its kind.
type Chosen struct {
	AgentChoice
	MaxTurns int
	// Boxed says that symphony's own sandbox confines it.
	Boxed bool
	// Inherit gives it its home itself, not only the login in it.
	Inherit bool
	// TrustLauncher starts Command even if files that an agent can write decide which program
	// that is.
	TrustLauncher   bool
	TrustRepository bool
	// ApprovalPolicy and TurnSandboxPolicy are in the words of the specification's agent, which the
	// other kinds are given in theirs.
	ApprovalPolicy    json.RawMessage // never nil
	ThreadSandbox     string          // empty if it is not passed to thread/start
	TurnSandboxPolicy json.RawMessage // nil for symphony's default
	OnApproval        string
	OnQuestion        string
	Network           bool
	Allow             []string // the hosts that it may reach
	WritableRoots     []string
	PassEnv           []string
	Env               map[string]string
	Key               Secret // of the model; "" if it has its own login
}

// withAgent returns the configuration with which an agent works.
func (c *Config) withAgent(a AgentChoice) *Config {
	own := *c
	isBoxed := c.Agent.Sandbox == sandboxBwrap || a.Kind != DefaultAgent && c.sandboxed(a.Kind)
	if a.Kind == DefaultAgent {
		own.Chosen = c.chosenDefault(isBoxed)
	} else {
		own.Chosen = c.chosenOther(isBoxed)
	}
	own.Chosen.AgentChoice = a
	own.Chosen.MaxTurns = c.Agent.MaxTurns
	own.Chosen.Boxed = isBoxed
	return &own
}

// chosenOther returns what another kind of agent may do. Even in a sandbox files of the
// repository must not replace the agent.
func (c *Config) chosenOther(isBoxed bool) Chosen {
	chosen := Chosen{
		Inherit:         true,
		TrustRepository: c.Agent.TrustRepository,
		ApprovalPolicy:  json.RawMessage(`"never"`), // nothing that it asks leads out of the sandbox
		OnApproval:      cmp.Or(c.Agent.OnApproval, Approve),
		OnQuestion:      Fail,
		Env:             c.Agent.Env,
		Key:             c.Agent.Key,
	}
	if !isBoxed {
		chosen.TurnSandboxPolicy = noSandboxPolicy
		chosen.Network = true
		return chosen
	}
	chosen.Network = c.Agent.Network
	chosen.Allow = c.Agent.Allow
	chosen.WritableRoots = c.Agent.WritableRoots
	chosen.PassEnv = c.Agent.PassEnv
	return chosen
}
