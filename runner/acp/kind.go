package acp

import (
	"cmp"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/wire"
)

// kind is what differs between agents that speak the protocol.
type kind struct {
	name    string
	title   string // as people call it
	install string // the command that installs it
	logIn   string // the step that logs it in
	// agentInfo.name that the agent reports; "" accepts any
	agentName string
	// the oldest version that was tried; "" accepts any
	oldest string
	// the mode in which the agent asks before it acts; "" leaves it as it is
	mode string
	// without a model the agent would choose one itself, perhaps at another provider
	needsModel bool
	// a rejected permission ends the turn without a word
	endsAtReject bool
	// _meta of session/new, session/resume and session/load that keeps out the settings, hooks and
	// servers of the repository; nil for none
	untrusting map[string]any
	// the same for the environment, and for the words of the command of its terminal
	untrustingEnv   []string
	untrustingWords []string
	// the command of its own terminal on a session, or with "" on a new one; nil with a reason
	terminal   func(session, model string) []string
	noTerminal string
	// the environment, in which it does not update itself
	env func(model string) []string
	// where its model is; nil if that is not known
	service func(model string) agent.Service
	// the files of a home with its login
	loginFiles []string
	// the files with which a home of agents begins
	homeFiles map[string]string
	// the variables that lead it to another home
	homeVars []string
	// where it names a tool of an MCP server
	tool toolName
	// the tokens of a turn, zero if the agent does not report them
	usage  func(*promptAnswer) agent.Usage
	faults []fault
}

// toolName finds the MCP server and the tool of a call.
type toolName struct {
	in func(*toolCall) string
	// with the groups server and tool
	pattern func() *regexp.Regexp
	// the place may contain words of the model: it gives no permission
	isTitle bool
}

// find returns the MCP server and its tool, "" if the call is another.
func (n toolName) find(c *toolCall) (server, tool string) {
	if c.Kind != "other" { // the title of a command is the model's own text
		return "", ""
	}
	m := n.pattern().FindStringSubmatch(n.in(c))
	if m == nil {
		return "", ""
	}
	return m[1], m[2]
}

// fault classifies errors of a turn: by a code of JSON-RPC, by Claude's errorKind, or by words
// of the message. One of them is set.
type fault struct {
	class agent.Code
	codes []int
	kinds []string
	words func() *regexp.Regexp
}

func inName(c *toolCall) string  { return c.Name }
func inTitle(c *toolCall) string { return c.Title }
func inID(c *toolCall) string    { return c.ToolCallID }

var (
	claudeTool   = text.Pattern(`^mcp__(.+?)__(.+)$`)
	opencodeTool = text.Pattern(`^(` + toolsName + `)_(.+)$`)
	geminiTool   = text.Pattern(`^mcp_(` + toolsName + `)_(.+?)__`)
)

// Words of models' servers, which agents pass on.
var (
	loginWords = text.Pattern(`(?i)invalid x-api-key|invalid api key|api key (not valid|is missing)|unauthorized|authentication|status 40[13]`)
	quotaWords = text.Pattern(`(?i)rate.?limit|too many requests|quota|credit balance|usage limit|` +
		`insufficient (balance|credits|funds)|You(['’]ve| have) (hit|reached) your|You['’]re out of|` +
		`Your org is out of usage|Your seat type`)
	networkWords = text.Pattern(`(?i)overloaded|internal server error|cannot connect|connection (refused|error)|` +
		`ECONNREFUSED|ENOTFOUND|EAI_AGAIN|fetch failed|status 50[0234]`)
)

// byWords are the faults of agents that have nothing but the text of the model's server.
var byWords = []fault{
	{class: agent.CodeAgentAuth, words: loginWords},
	{class: agent.CodeAgentQuota, words: quotaWords},
	{class: agent.CodeNetwork, words: networkWords},
}

// kinds are the agents. The versions are those with which the recordings in testdata were made.
var kinds = []*kind{
	{
		name:      "claude",
		title:     "Claude Code",
		install:   "npm install -g @agentclientprotocol/claude-agent-acp, with Node 22 or newer",
		logIn:     "start claude and type /login, or set ANTHROPIC_API_KEY",
		agentName: "@agentclientprotocol/claude-agent-acp",
		oldest:    "0.101.0",
		mode:      "default", // it starts in auto, in which it decides itself
		untrusting: map[string]any{
			"claudeCode": map[string]any{"options": map[string]any{"settingSources": []string{"user"}}},
		},
		// the adapter has a claude of its own, which is not in PATH
		untrustingWords: []string{"--setting-sources", "user"},
		terminal:        claudeTerminal,
		env:             claudeEnv,
		service:         claudeService,
		loginFiles:      []string{".claude/.credentials.json"},
		homeVars:        []string{"CLAUDE_CONFIG_DIR", "CLAUDE_CODE_TMPDIR"},
		tool:            toolName{in: inName, pattern: claudeTool},
		usage:           reported,
		faults: []fault{
			{class: agent.CodeAgentAuth, kinds: []string{"authentication_failed", "oauth_org_not_allowed"}},
			{class: agent.CodeAgentQuota, kinds: []string{"billing_error", "rate_limit"}},
			{class: agent.CodeNetwork, kinds: []string{"overloaded", "server_error"}},
			// its other kinds are ordinary failures, whatever the text says
			{kinds: []string{"invalid_request", "model_not_found", "max_output_tokens"}},
			{class: agent.CodeAgentQuota, words: quotaWords},
		},
	},
	{
		name:          "opencode",
		title:         "OpenCode",
		install:       "npm install -g opencode-ai",
		logIn:         "opencode auth login, or set the key of the provider",
		agentName:     "OpenCode",
		oldest:        "1.18.33",
		mode:          "build",
		needsModel:    true, // else it takes a hosted one of a third party
		endsAtReject:  true,
		terminal:      opencodeTerminal,
		env:           opencodeEnv,
		untrustingEnv: []string{"OPENCODE_DISABLE_PROJECT_CONFIG=1"},
		service:       opencodeService,
		loginFiles:    []string{".local/share/opencode/auth.json"},
		// else it asks npm's registry for a package that its plugins may need, in each start
		homeFiles: map[string]string{
			".config/opencode/package-lock.json":               `{"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}`,
			".config/opencode/node_modules/.package-lock.json": "{}",
		},
		homeVars: []string{"OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR", "OPENCODE_DB"},
		tool:     toolName{in: inTitle, pattern: opencodeTool, isTitle: true},
		usage:    unreported, // it reports only the last model call of a turn
		faults:   byWords,
	},
	{
		name:       "gemini",
		title:      "Gemini CLI",
		install:    "npm install -g @google/gemini-cli, with Node 22 or newer",
		logIn:      "set GEMINI_API_KEY",
		agentName:  "gemini-cli",
		oldest:     "0.61.0",
		mode:       "default",
		noTerminal: "Gemini CLI does not find its earlier sessions",
		env:        geminiEnv,
		service:    geminiService,
		// Without the second it sends statistics of its use to Google. With the last it needs no authenticate,
		// with which each agent would write this file again while the other agents of the home read it.
		homeFiles: map[string]string{
			".gemini/settings.json": `{"general": {"enableAutoUpdate": false}, "privacy": {"usageStatisticsEnabled": false},` +
				` "security": {"auth": {"selectedType": "gemini-api-key"}}}`,
		},
		homeVars: []string{"GEMINI_CLI_HOME"},
		tool:     toolName{in: inID, pattern: geminiTool},
		usage:    quotaReported,
		faults: append([]fault{ // its codes are those of HTTP
			{class: agent.CodeAgentAuth, codes: []int{401, 403}},
			{class: agent.CodeAgentQuota, codes: []int{429}},
			{class: agent.CodeNetwork, codes: []int{502, 503, 504, 529}},
		}, byWords...),
	},
	{
		name:       "acp",
		title:      "the agent",
		install:    "install it so that a login shell finds it",
		logIn:      "log in as its documentation says",
		noTerminal: "agent.kind: acp does not say which command opens the agent's terminal",
		env:        func(string) []string { return nil },
		tool:       toolName{in: inName, pattern: claudeTool},
		usage:      reported,
		faults:     byWords,
	},
}

// Kinds returns the agents that speak the protocol.
func Kinds() []agent.Kind {
	return text.Map(kinds, func(k *kind) agent.Kind {
		return agent.Kind{
			Name:         k.name,
			Title:        k.title,
			Section:      "agent",
			CommandKey:   "agent.command",
			Starts:       "an agent of the Agent Client Protocol",
			Install:      k.install,
			LogIn:        k.logIn,
			Terminal:     k.terminal,
			NoTerminal:   k.noTerminal,
			NotFound:     "agent_not_found",
			Incompatible: agent.CodeAgentIncompatible,
			Env:          k.env,
			Untrusting:   agent.Untrusting{Env: k.untrustingEnv, Words: k.untrustingWords},
			Service:      k.service,
			LoginFiles:   k.loginFiles,
			HomeVars:     k.homeVars,
			PrepareHome:  k.prepareHome,
			PrepareBox:   k.prepareHome,
			Start: func(streams agent.Streams, o agent.Options) agent.Session {
				return newSession(k, streams, o)
			},
		}
	})
}

func claudeEnv(string) []string {
	env := []string{
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"ENABLE_TOOL_SEARCH=false", // else the model does not see symphony's tools
		"CLAUDE_CODE_MAX_RETRIES=3",
		"DISABLE_AUTOUPDATER=1",
		// else another model call after each turn guesses what the user will write next
		"CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION=false",
	}
	if os.Geteuid() == 0 {
		env = append(env, "IS_SANDBOX=1") // as root it refuses sessions without it
	}
	return env
}

func claudeTerminal(session, model string) []string {
	words := []string{"claude"}
	if session != "" {
		words = append(words, "--resume", session)
	}
	if model != "" {
		words = append(words, "--model", model)
	}
	return words
}

// opencodeTerminal gets its model with the environment.
func opencodeTerminal(session, _ string) []string {
	if session == "" {
		return []string{"opencode"}
	}
	return []string{"opencode", "-s", session}
}

func opencodeEnv(model string) []string {
	return []string{
		opencodeConfig(model, nil),
		"OPENCODE_DISABLE_AUTOUPDATE=1",
		"OPENCODE_DISABLE_MODELS_FETCH=1",
		"OPENCODE_DISABLE_LSP_DOWNLOAD=1",
	}
}

// opencodeConfig returns the variable with the configuration of OpenCode. options are those of
// the model's provider; nil for its own.
func opencodeConfig(model string, options map[string]any) string {
	provider, _, _ := strings.Cut(model, "/")
	config := map[string]any{
		"model":       model,
		"small_model": model,
		// without the list it may take another provider in silence
		"enabled_providers": []string{provider},
		"autoupdate":        false,
		"share":             "disabled",
		"permission":        map[string]any{"bash": "ask", "edit": "ask"},
	}
	if options != nil {
		config["provider"] = map[string]any{provider: map[string]any{"options": options}}
	}
	return "OPENCODE_CONFIG_CONTENT=" + string(text.JSON(config))
}

func geminiEnv(string) []string {
	return []string{
		"GEMINI_CLI_TRUST_WORKSPACE=true", // else it drops MCP servers
		"GEMINI_CLI_NO_RELAUNCH=true",
	}
}

// reported returns the tokens of a turn as the protocol has them. Its input does not contain
// the cached tokens.
func reported(a *promptAnswer) agent.Usage {
	u := agent.Usage{
		Input:       sum(a.Usage.InputTokens, a.Usage.CachedReadTokens, a.Usage.CachedWriteTokens),
		CachedInput: a.Usage.CachedReadTokens,
		Output:      a.Usage.OutputTokens,
	}
	u.Total = sum(u.Input, u.Output)
	return u
}

func unreported(*promptAnswer) agent.Usage { return agent.Usage{} }

func quotaReported(a *promptAnswer) agent.Usage {
	count := a.Meta.Quota.TokenCount
	return agent.Usage{Input: count.Input, Output: count.Output, Total: sum(count.Input, count.Output)}
}

// older reports whether a version such as "0.101.0" is older than another. A version of
// another form is not older.
func older(version, than string) bool {
	numbers := func(v string) (all []int) {
		v, _, _ = strings.Cut(v, "-")
		for part := range strings.SplitSeq(v, ".") {
			n, err := strconv.Atoi(part)
			if err != nil {
				return nil
			}
			all = append(all, n)
		}
		return all
	}
	is := numbers(version)
	return is != nil && slices.Compare(is, numbers(than)) < 0
}

// classify returns the class of a fault of the machine, the account or the network, "" for an
// ordinary failure of a turn.
func (k *kind) classify(e *wire.Error) agent.Code {
	if e.Code == codeAuthRequired {
		return agent.CodeAgentAuth
	}
	said := wire.Read[errorData](e.Data)
	for _, f := range k.faults {
		switch {
		case slices.Contains(f.codes, e.Code),
			slices.Contains(f.kinds, said.ErrorKind),
			f.words != nil && f.words().MatchString(errorText(e)):
			return f.class
		}
	}
	return ""
}

// errorData is the data of an error.
type errorData struct{ ErrorKind, Details string }

// errorText returns what an error says. Agents pass on the answer of the model's server: with
// words in front of it, as JSON in a text, or in the data.
func errorText(e *wire.Error) string {
	message := strings.TrimPrefix(e.Message, "Internal error: ")
	var quoted struct{ Error struct{ Message string } }
	wire.Unmarshal([]byte(message), &quoted)
	message = cmp.Or(quoted.Error.Message, message)
	return wire.Short(wire.Join(message, wire.Read[errorData](e.Data).Details), wire.ErrorLength)
}
