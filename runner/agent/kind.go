package agent

// Kind is a kind of agent. A field without a value is an ability that the kind does not have.
type Kind struct {
	Name       string // in agent.kind, such as "claude"
	Title      string // as people call it, such as "Claude Code"
	Section    string // of the workflow with its keys: "agent", or its own
	CommandKey string // the key of the workflow with its command, such as "agent.command"
	Starts     string // what the command must start, such as "opencode acp"
	Install    string // the next step if it is missing, such as "npm install -g opencode-ai"
	LogIn      string // the step that logs it in, such as "opencode auth login"
	// The error codes of a command that is not found, and of an agent that can't be used.
	NotFound, Incompatible Code
	// Package is what npm installs, such as opencode-ai; "" if nothing says so.
	Package string
	// ProgramVar is the variable with its program for conversations, and ProgramArgs are what
	// the program gets then; "" if it has none.
	ProgramVar, ProgramArgs string
	// VersionCommand prints its version, and LoginCommand how it is logged in; "" if no command
	// does.
	VersionCommand, LoginCommand string
	// Start makes a session with its process.
	Start Starter
	// Env returns the variables that it gets for a model. The workflow may replace them.
	Env func(model string) []string
	// Untrusting keeps it from obeying files of the repository, such as hooks and MCP servers.
	Untrusting Untrusting
	// Terminal returns the command of its own terminal, on a session or with "" on a new one,
	// such as claude --resume SESSION.
	Terminal func(session, model string) []string
	// NoTerminal says why Terminal is nil and what to do, if takeover can't open one.
	NoTerminal string
	// Service returns where its model is, and how the agent reaches it; nil if that is not known.
	Service func(model string) Service
	// LoginFiles are the files of a home with its login, such as .claude/.credentials.json.
	LoginFiles []string
	// HomeVars are variables that lead it to another home, such as CLAUDE_CONFIG_DIR.
	HomeVars []string
	// HomeVar is the variable that names its home; "" if symphony names it no home. Without the
	// variable its home is HomeDir below the home of the account. HomeInBox is its home below
	// the home of a sandbox.
	HomeVar, HomeDir, HomeInBox string
	// Sandboxes: it runs commands in a sandbox of its own, and git outside of that.
	Sandboxes bool

	// PrepareHome makes a home of agents that shares the login of the operator's. PrepareBox
	// does it for a sandbox of symphony, with a copy.
	PrepareHome, PrepareBox func(operators, agents string) error
	// OperatorOnly lists the settings of a home that agents do not get.
	OperatorOnly func(home string) ([]string, error)
	// LoginInFile reports whether the login of a home can be shared.
	LoginInFile func(home string) bool
}

// Service is where the model of an agent is.
type Service struct {
	Hosts []string // that the agent needs, such as api.anthropic.com
	URL   string   // of the model, such as https://api.anthropic.com; "" if it is not known
	// BaseVar is the variable that names another URL, such as ANTHROPIC_BASE_URL; "" for none.
	BaseVar string
	// Header has the key in requests, such as X-Api-Key, behind Prefix, such as "Bearer ".
	Header, Prefix string
	// LoginVars are the variables with the login, such as ANTHROPIC_API_KEY.
	LoginVars []string
	// Through returns the variables with which the agent reaches its model by another URL,
	// where it needs no key; nil if it can't.
	Through func(url string) []string
}

// Key returns the name of a key in the section of the kind, such as "agent.model".
func (k Kind) Key(name string) string { return k.Section + "." + name }

// Untrusting is how an agent is told to obey no files of the repository. It is empty for an
// agent that has no switch for that, or to which a session says it.
type Untrusting struct {
	Env   []string // variables, such as OPENCODE_DISABLE_PROJECT_CONFIG=1
	Words []string // at the end of the command of its terminal
}
