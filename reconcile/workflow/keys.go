package workflow

import (
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
)

// Key describes one key of the front matter. The table of them is the only place that knows a key: parsing, defaults,
// validation, suggestions, completion and documentation follow from it.
type Key struct {
	Name    string // dotted
	Type    string
	Default string // as it would be written; empty where there is none
	Meaning string // one line

	// Words are all the values of a choice.
	Words []string

	min, max int64 // of numbers; max 0 is no bound but that of the type
	// to is where the value goes, a pointer into the configuration; its type says how the value is read.
	to func(*Config) any
	// read reads a value that takes more than its type says.
	read func(*reader, Key, *Config)
}

// maxMS is a hundred years, far below the limit of time.Duration.
const maxMS = 100 * 365 * 24 * 3600 * 1000

// The types of values.
const (
	typeString   = "string"
	typeURL      = "URL"
	typePath     = "path"
	typePaths    = "list of paths"
	typeStrings  = "list of strings"
	typeVars     = "list of variable names"
	typeInteger  = "integer"
	typeMS       = "milliseconds"
	typeBool     = "true or false"
	typeShell    = "shell script"
	typeStateMap = "map of states to integers"
	typePrices   = "map of models to prices"
	typeCodex    = "codex value"
)

// Keys lists every key that has an effect, in the order in which they are documented.
func Keys() []Key {
	return slices.Concat(trackerKeys(), placeKeys(), agentKeys(), codexKeys())
}

func trackerKeys() []Key {
	return []Key{
		{Name: "tracker.kind", Type: typeString, Meaning: "which tracker: linear; required", read: (*reader).kind},
		{Name: "tracker.endpoint", Type: typeURL, Default: "https://api.linear.app/graphql", Meaning: "the tracker's API", read: (*reader).endpoint},
		{Name: "tracker.api_key", Type: typeString, Default: "$" + APIKeyVar, Meaning: "the key, or better $NAME of a variable that holds it", read: (*reader).apiKey},
		{Name: "tracker.project_slug", Type: typeString, Meaning: "slug or URL of the project, or $NAME of a variable that holds it; required", read: (*reader).project},
		{Name: "tracker.active_states", Type: typeStrings, Default: "[Todo, In Progress]", Meaning: "states that work is done in", read: (*reader).activeStates},
		{Name: "tracker.terminal_states", Type: typeStrings, Default: "[Closed, Cancelled, Canceled, Duplicate, Done]", Meaning: "states that end an issue and remove its workspace", read: (*reader).terminalStates},
		{Name: "tracker.required_labels", Type: typeStrings, Default: "[]", Meaning: "labels that an issue must all carry", read: (*reader).requiredLabels},
		{Name: "tracker.assignee", Type: typeString, Default: "$" + AssigneeVar, Meaning: "email, id or me: only issues assigned so; $NAME is looked up", read: (*reader).assignee},
		{Name: "tracker.tool_scope", Type: "any or read", Default: "any", Meaning: "what the agent may do in the tracker; read: its mutations are refused", Words: []string{"any", "read"}, read: (*reader).toolScope},
		{Name: "tracker.ca_file", Type: typePath, Meaning: "PEM file with certificates to trust beside the system's, such as a private CA", read: (*reader).caFile},
		{Name: "tracker.provider.endpoint", Type: typeURL, Meaning: "another place for tracker.endpoint"},
		{Name: "tracker.provider.api_key", Type: typeString, Meaning: "another place for tracker.api_key"},
		{Name: "tracker.provider.project_slug", Type: typeString, Meaning: "another place for tracker.project_slug"},
		{Name: "tracker.provider.assignee", Type: typeString, Meaning: "another place for tracker.assignee"},
	}
}

func placeKeys() []Key {
	return []Key{
		{
			Name: "polling.interval_ms", Type: typeMS, Default: "30000",
			Meaning: "time between passes of tick --loop and of an installed timer", min: 1, max: maxMS, to: func(c *Config) any { return &c.Polling.Interval },
		},
		{Name: "workspace.root", Type: typePath, Default: "<temp>/symphony_workspaces", Meaning: "where workspaces are made; ~ and $NAME are expanded, relative to WORKFLOW.md", read: (*reader).root},
		{
			Name: "workspace.keep_removed_ms", Type: typeMS, Default: "86400000",
			Meaning: "how long a removed workspace can be got back; 0 deletes at once", max: maxMS, to: func(c *Config) any { return &c.Workspace.KeepRemoved },
		},
		{
			Name: "workspace.min_free_bytes", Type: typeInteger, Default: "2147483648",
			Meaning: "free space of the volume below which nothing is started; 0 never", to: func(c *Config) any { return &c.Workspace.MinFreeBytes },
		},
		{Name: "hooks.after_create", Type: typeShell, Meaning: "run in a new workspace; where it fails the workspace is removed", to: func(c *Config) any { return &c.Hooks.AfterCreate }},
		{Name: "hooks.before_run", Type: typeShell, Meaning: "run before each run; where it fails the run fails", to: func(c *Config) any { return &c.Hooks.BeforeRun }},
		{Name: "hooks.after_run", Type: typeShell, Meaning: "run after each run, whatever its outcome", to: func(c *Config) any { return &c.Hooks.AfterRun }},
		{Name: "hooks.before_remove", Type: typeShell, Meaning: "run before a workspace is removed", to: func(c *Config) any { return &c.Hooks.BeforeRemove }},
		{Name: "hooks.on_attention", Type: typeShell, Meaning: "run in the home directory when a person is wanted: a request, a hold, a blocked project", to: func(c *Config) any { return &c.Hooks.OnAttention }},
		{Name: "hooks.timeout_ms", Type: typeMS, Default: "60000", Meaning: "limit for each hook", max: maxMS, read: (*reader).hookTimeout},
	}
}

func agentKeys() []Key {
	return []Key{
		{Name: "agent.max_concurrent_agents", Type: typeInteger, Default: "10", Meaning: "runs at once", min: 1, max: 10_000, to: func(c *Config) any { return &c.Agent.MaxConcurrent }},
		{Name: "agent.max_concurrent_agents_by_state", Type: typeStateMap, Default: "{}", Meaning: "runs at once for issues in a state", to: func(c *Config) any { return &c.Agent.MaxByState }},
		{Name: "agent.max_turns", Type: typeInteger, Default: "20", Meaning: "turns of one run", min: 1, max: 1_000_000, to: func(c *Config) any { return &c.Agent.MaxTurns }},
		{Name: "agent.max_retry_backoff_ms", Type: typeMS, Default: "300000", Meaning: "longest wait before a retry", min: 1, max: maxMS, to: func(c *Config) any { return &c.Agent.MaxRetryBackoff }},
		{Name: "agent.max_failures", Type: typeInteger, Default: "10", Meaning: "failures in a row that hold an issue; 0 never", max: 1_000_000, to: func(c *Config) any { return &c.Agent.MaxFailures }},
		{Name: "agent.max_idle_runs", Type: typeInteger, Default: "3", Meaning: "runs in a row without progress that hold an issue; 0 never", max: 1_000_000, to: func(c *Config) any { return &c.Agent.MaxIdleRuns }},
		{
			Name: "agent.max_runs", Type: typeInteger, Default: "20",
			Meaning: "runs without a change of state or description that hold an issue; 0 never", max: 1_000_000, to: func(c *Config) any { return &c.Agent.MaxRuns },
		},
		{
			Name: "agent.max_tokens", Type: typeInteger, Default: "0",
			Meaning: "tokens of one issue that hold it; a turn that crosses it is interrupted; 0 no limit", to: func(c *Config) any { return &c.Agent.MaxTokens },
		},
		{
			Name: "agent.on_approval", Type: "approve, deny, fail or ask", Default: "approve with approval_policy never, else fail",
			Meaning: "what an agent gets that asks for approval", Words: []string{"approve", "deny", "fail", "ask"}, to: func(c *Config) any { return &c.Agent.OnApproval },
		},
		{Name: "agent.on_question", Type: "fail or ask", Default: "fail", Meaning: "what an agent gets that asks a question", Words: []string{"fail", "ask"}, to: func(c *Config) any { return &c.Agent.OnQuestion }},
		{
			Name: "agent.answer_timeout_ms", Type: typeMS, Default: "3600000",
			Meaning: "how long a person may take to answer what is asked, then it is declined", min: 1, max: maxMS, to: func(c *Config) any { return &c.Agent.AnswerTimeout },
		},
		{Name: "agent.network", Type: typeBool, Default: "false", Meaning: "commands in the default sandbox may use the network", to: func(c *Config) any { return &c.Agent.Network }},
		{Name: "agent.writable_roots", Type: typePaths, Default: "[]", Meaning: "directories that the default sandbox may write to, besides the workspace", read: (*reader).writableRoots},
		{Name: "agent.pass_env", Type: typeVars, Default: "[]", Meaning: "variables that the agent's commands get although their names hold KEY, SECRET or TOKEN", read: (*reader).passEnv},
		{
			Name: "agent.trust_repository", Type: typeBool, Default: "false",
			Meaning: "codex obeys the repository's .codex/config.toml where codex.thread_sandbox is set", to: func(c *Config) any { return &c.Agent.TrustRepository },
		},
		{
			Name: "agent.keep_git_config", Type: typeBool, Default: "false",
			Meaning: "git hooks and configuration that an agent has set stay, also where they run programs in your hooks", to: func(c *Config) any { return &c.Agent.KeepGitConfig },
		},
		{Name: "agent.resume_thread", Type: typeBool, Default: "true", Meaning: "a later run goes on with the thread of an earlier one", to: func(c *Config) any { return &c.Agent.ResumeThread }},
		{Name: "agent.prices", Type: typePrices, Default: "{}", Meaning: "what a million tokens cost, by model or `default`: input, cached, output; and currency; for the estimates of report", read: (*reader).prices},
	}
}

func codexKeys() []Key {
	return []Key{
		{Name: "codex.command", Type: "shell command", Default: "codex app-server", Meaning: "what starts the agent, by bash -lc in the workspace", read: (*reader).command},
		{Name: "codex.home", Type: typePath, Meaning: "CODEX_HOME of the agent", read: (*reader).home},
		{Name: "codex.approval_policy", Type: typeCodex, Default: "never", Meaning: "when codex asks for approval", read: (*reader).approvalPolicy},
		{Name: "codex.thread_sandbox", Type: typeCodex, Meaning: "sandbox of the thread; left out by default", to: func(c *Config) any { return &c.Codex.ThreadSandbox }},
		{Name: "codex.turn_sandbox_policy", Type: typeCodex, Default: "workspaceWrite on the workspace and its git directories", Meaning: "sandbox of every turn", read: (*reader).turnSandboxPolicy},
		{Name: "codex.turn_timeout_ms", Type: typeMS, Default: "3600000", Meaning: "longest silence of the agent within a turn", min: 1, max: maxMS, to: func(c *Config) any { return &c.Codex.TurnTimeout }},
		{Name: "codex.read_timeout_ms", Type: typeMS, Default: "5000", Meaning: "limit for the answer to one request", min: 1, max: maxMS, to: func(c *Config) any { return &c.Codex.ReadTimeout }},
		{
			Name: "codex.stall_timeout_ms", Type: typeMS, Default: "300000",
			Meaning: "longest time without progress; 0 or less: no limit", min: -maxMS, max: maxMS, to: func(c *Config) any { return &c.Codex.StallTimeout },
		},
	}
}

// Unbuilt are the keys with a meaning that this version does not have, each with what is said about it. An empty text refuses
// the key: to ignore it would move the work elsewhere than was asked for.
func Unbuilt() map[string]string {
	const noEffect = "not built yet: it has no effect"
	return map[string]string{
		"worker.ssh_hosts":                      "",
		"worker.max_concurrent_agents_per_host": "no effect without worker.ssh_hosts",
		"server.port":                           noEffect,
		"server.host":                           noEffect,
		"observability.dashboard_enabled":       noEffect,
		"observability.refresh_ms":              noEffect,
		"observability.render_interval_ms":      noEffect,
	}
}

// sections are the keys that hold a map of keys: those at the top, and tracker.provider.
func sections(keys []Key) []string {
	found := []string{"worker", "server", "observability"}
	for _, k := range keys {
		if parent := k.Name[:strings.LastIndexByte(k.Name, '.')]; !slices.Contains(found, parent) {
			found = append(found, parent)
		}
	}
	return found
}

// nearest is the candidate that a mistyped name most likely means, empty if none is near.
func nearest(name string, candidates []string) string {
	if near := text.Nearest(name, candidates); len(near) > 0 {
		return near[0]
	}
	return ""
}
