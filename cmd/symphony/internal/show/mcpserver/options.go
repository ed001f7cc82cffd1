package mcpserver

import (
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
)

// Options of the server.
type Options struct {
	// CallTimeout limits each call of a tool.
	CallTimeout time.Duration
	// ApprovalTimeout is how long a request of an agent waits for a decision.
	ApprovalTimeout time.Duration
	// IdleTimeout is how long an agent lives without a call; 0 for no limit.
	IdleTimeout time.Duration
	// Ephemeral: the agents that this server spawned end with it.
	Ephemeral bool
	// ByPerson: no tool decides requests, only a person at the host, at the page or in a
	// terminal.
	ByPerson bool
	// FullAccess permits conversations without a sandbox.
	FullAccess bool
	// Events: the host gets the events of agents as notifications even if it did not ask for
	// them.
	Events bool
	// Deliver permits to push the work of agents to the origin of the operator's repository.
	Deliver bool
	// Dirs are directories in which agents may work, beside the server's own and the roots of
	// the host.
	Dirs    []string
	Project *wiring.Project // of the issues; nil without a workflow
	// outputSchemas: the list of tools includes them, for the documentation.
	outputSchemas bool
}
