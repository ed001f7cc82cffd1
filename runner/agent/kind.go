package agent

// Kind is a kind of agent. Fields without a value are abilities that it does not have.
type Kind struct {
	Name string // in agent.kind, such as "claude"
	// Command starts it if the workflow names no other, such as "claude-agent-acp".
	Command string
	// Start makes a session with its process.
	Start Starter
	// NeedsModel: agent.model must be set.
	NeedsModel bool
	// Env returns the variables that it gets for a model, which the workflow may replace.
	Env func(model string) []string

	// PrepareHome makes a home of agents that shares the login of the operator's. Nil: it has
	// no home of its own.
	PrepareHome func(operators, agents string) error
	// OperatorOnly lists the settings of a home that agents do not get.
	OperatorOnly func(home string) ([]string, error)
	// LoginInFile reports whether the login of a home can be shared.
	LoginInFile func(home string) bool
}
