package script

// Request is a call of a model of the tests.
type Request struct {
	Model  string
	Thread string // prompt_cache_key
	// the client's turns, without the agent's own context; [image] stands for an image
	Prompts []string
	Context []string // the agent's additions to the turns, such as AGENTS.md
	Orders  []string // the agent's own instructions
	Outputs []string // of tools since the last prompt; of a command the newest
	Tools   []string // names of the tools that the model may call
}
