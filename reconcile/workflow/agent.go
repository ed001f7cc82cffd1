package workflow

import (
	"github.com/symphony-cron/symphony/internal/text"
)

// The kinds of agents. Each has a row in compose_agents.go of package wiring.
const (
	agentClaude   = "claude"
	agentOpenCode = "opencode"
	agentGemini   = "gemini"
	agentACP      = "acp" // any other that speaks the Agent Client Protocol
)

// AgentKinds lists the kinds of agents.
func AgentKinds() []string {
	return append([]string{DefaultAgent}, text.Map(agentKinds, func(k agentKind) string { return k.name })...)
}

// agentKind is a kind of agent besides the default.
type agentKind struct {
	name    string
	command string // by default; "" if the workflow must name it
	// where it keeps its login, below the home directory of the account, and the file there
	home, login string
	// without agent.model it would take any
	needsModel bool
	// it does not report the tokens of a turn
	countsNoTokens bool
	// symphony knows how it sends its key
	takesKey bool
	// files of the repository start programs in it without a question, and no switch stops that
	obeysRepository bool
	// a switch keeps it from obeying files of the repository
	hasTrustSwitch bool
}

var agentKinds = []agentKind{
	{
		name:           agentClaude,
		command:        "claude-agent-acp",
		home:           ".claude",
		login:          ".credentials.json",
		takesKey:       true,
		hasTrustSwitch: true,
	},
	{
		name:           agentOpenCode,
		command:        "opencode acp",
		home:           ".local/share/opencode",
		login:          "auth.json",
		needsModel:     true,
		countsNoTokens: true,
		takesKey:       true,
		hasTrustSwitch: true,
	},
	{
		name:            agentGemini,
		command:         "gemini --acp",
		home:            ".gemini",
		login:           "oauth_creds.json",
		takesKey:        true,
		obeysRepository: true,
	},
	{name: agentACP, home: ".config/acp"},
}

// kindNamed returns a kind besides the default; the zero value for others.
func kindNamed(name string) agentKind {
	return text.First(agentKinds, func(k agentKind) bool { return k.name == name })
}

// AgentCommand returns the command that starts a kind of agent by default, such as
// "opencode acp"; "" for a kind whose command the workflow must name.
func AgentCommand(kind string) string {
	if kind == DefaultAgent {
		return defaultCommand
	}
	return kindNamed(kind).command
}

// NeedsModel reports whether a kind of agent works only with agent.model.
func NeedsModel(kind string) bool {
	return kindNamed(kind).needsModel
}

// AgentChoice is an agent that may work on an issue.
type AgentChoice struct {
	Kind string // such as claude
	// Home is the directory of its login, "" for the agent's own default.
	Home                   string
	Command, Model, Effort string
}

// LoginFile returns the name of the file with the login in the home, "" if it is not known.
func (c AgentChoice) LoginFile() string {
	if c.Kind == DefaultAgent {
		return defaultLogin
	}
	return kindNamed(c.Kind).login
}

// String names the settings that the choice has, such as "claude model opus".
func (c AgentChoice) String() string {
	line := c.Kind
	for _, set := range [][2]string{{"command", c.Command}, {"model", c.Model}, {"effort", c.Effort}} {
		if set[1] != "" {
			line += " " + set[0] + " " + set[1]
		}
	}
	return line
}
