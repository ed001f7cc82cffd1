package workflow

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Key describes a key of the front matter. The table of keys is the only place to change for a
// key: parsing, defaults, validation, suggestions, completion and documentation are derived
// from it.
type Key struct {
	Name    string // dotted
	Type    string
	Default string // as it would be written in the file; empty if there is none
	Meaning string // a single line

	Words []string // the allowed values of a choice
	Kinds []string // the kinds of trackers that have the key; nil for all

	engines []string // the kinds of engines that have the key; nil for all
	same    string   // the key of which this is another name
	chooses bool     // it chooses issues: without effect it is an error
	names   Naming   // how its value names files
	min     int64    // the smallest allowed number
	// a pointer to the value in the configuration, whose type selects how the value is read
	to    any
	after func(*reader, field) // checks or completes the value, which may be absent from the file
}

func key(name, typ, standard string, to any, meaning string) Key {
	return Key{Name: name, Type: typ, Default: standard, Meaning: meaning, to: to}
}

func (k Key) then(after func(*reader, field)) Key {
	k.after = after
	return k
}

// thenTracker is then for a key of the tracker.
func (k Key) thenTracker(after func(trackerReader, field)) Key {
	return k.then(func(r *reader, f field) { after(trackerReader{r}, f) })
}

// of restricts the key to some kinds of trackers.
func (k Key) of(kinds ...string) Key {
	k.Kinds = kinds
	return k
}

// choosing marks a key that chooses issues. Where it would be ignored it is an error, because
// agents would work on other issues, too.
func (k Key) choosing() Key {
	k.chooses = true
	return k
}

// ofEngine restricts the key to some kinds of engines.
func (k Key) ofEngine(kinds ...string) Key {
	k.engines = kinds
	return k
}

// sameAs makes the key another name of a key.
func (k Key) sameAs(name string) Key {
	k.same = name
	k.Meaning = "the same as " + name
	return k
}

// atLeast sets the smallest allowed number, which is 0 by default.
func (k Key) atLeast(n int64) Key {
	k.min = n
	return k
}

func (k Key) oneOf(words ...string) Key {
	last := len(words) - 1
	k.Words = words
	k.Type = strings.Join(words[:last], ", ") + " or " + words[last]
	return k
}

// maxMS is a hundred years in milliseconds, which is far below the limit of time.Duration.
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
	typeTokens   = "number of tokens"
	typeMS       = "milliseconds"
	typeBool     = "true or false"
	typeNetwork  = "true, false or {allow: list of hosts}"
	typeClaims   = "true, false or {branch: name, term_ms: milliseconds, watch_ms: milliseconds}"
	typeShell    = "shell script"
	typeStateMap = "map of states to integers"
	typeVarMap   = "map of variables to values"
	typePrices   = "map of models to prices"
	typeLabels   = "list of maps"
	typeBudget   = "number of tokens or an amount of money"
	typeOfAgent  = DefaultAgent + " value"
	typeAgents   = "list of kinds"
	typeHomes    = "path or list of paths"
)

// Keys lists every key with an effect, in the order in which they are documented.
func Keys() []Key { return keys(&Config{}) }

// keys returns the table, with pointers into a configuration.
func keys(c *Config) []Key {
	return slices.Concat(
		trackerKeys(c),
		providerKeys(c),
		passKeys(c),
		workspaceKeys(c),
		agentKeys(c),
		sessionKeys(c),
		workerKeys(c),
		serverKeys(c),
	)
}

func trackerKeys(c *Config) []Key {
	return []Key{
		key(
			"tracker.kind",
			typeString,
			"",
			&c.Tracker.Kind,
			"the tracker: "+strings.Join(TrackerKinds(), ", ")+"; required",
		).
			thenTracker(trackerReader.kind),
		key(
			"tracker.endpoint",
			typeURL,
			"https://api.linear.app/graphql",
			&c.Tracker.Endpoint,
			"the tracker's API; the default is that of kind: linear",
		).
			thenTracker(trackerReader.endpoint),
		key("tracker.api_key", typeString, "$"+APIKeyVar, &c.Tracker.APIKey,
			"the key, better as $NAME").thenTracker(trackerReader.apiKey),
		key("tracker.project_slug", typeString, "", &c.Tracker.ProjectSlug,
			"slug or URL of the project, or $NAME; required without tracker.team").of("linear").
			thenTracker(trackerReader.project),
		key(
			"tracker.team",
			typeString,
			"",
			&c.Tracker.Team,
			"key of a team, such as WEB: agents work only on its issues",
		).of("linear").choosing().thenTracker(trackerReader.team),
		key("tracker.active_states", typeStrings, "[Todo, In Progress]", &c.Policy.ActiveStates,
			"states in which agents work on an issue").choosing().thenTracker(trackerReader.activeStates),
		key(
			"tracker.terminal_states",
			typeStrings,
			"[Closed, Cancelled, Canceled, Duplicate, Done]",
			&c.Policy.TerminalStates,
			"states that end the work on an issue and remove its workspace",
		).thenTracker(trackerReader.terminalStates),
		key("tracker.required_labels", typeStrings, "[]", &c.Policy.RequiredLabels,
			"agents work only on issues with all of these labels").choosing().
			thenTracker(trackerReader.requiredLabels),
		key("tracker.assignee", typeString, "$"+AssigneeVar, &c.Policy.Assignee,
			"agents work only on issues of this user: email, id, me or $NAME").
			choosing().thenTracker(trackerReader.assignee),
		key(
			"tracker.tool_scope",
			"",
			"any",
			&c.Tracker.ToolScope,
			"what the agent's tools may do in the tracker: read refuses changes",
		).oneOf("any", "read"),
		key(
			"tracker.operators",
			typeStrings,
			"[]",
			&c.Tracker.Operators,
			"users (logins, emails or ids) whose comments answer agents' questions; without them none is posted",
		),
		key("tracker.ca_file", typePath, "", &c.Tracker.CAFile,
			"PEM file with further certificates that the tracker, the forge, git and agents are to trust").
			naming(NamesPaths),
	}
}

// providerKeys returns the keys of each kind of tracker, below tracker.provider.
func providerKeys(c *Config) []Key {
	list := []Key{
		key("tracker.provider.endpoint", typeURL, "", nil, "").sameAs("tracker.endpoint"),
		key("tracker.provider.api_key", typeString, "", nil, "").sameAs("tracker.api_key"),
	}
	list = append(list, repositoryKeys(c)...)
	for _, t := range trackers {
		for _, k := range t.keys(c) {
			list = append(list, k.of(t.name))
		}
	}
	return list
}

// UsualInterval is polling.interval_ms of a workflow that does not set it.
const UsualInterval = 30 * time.Second

// passKeys are the keys of polling and monitor.
func passKeys(c *Config) []Key {
	return []Key{
		key("polling.interval_ms", typeMS, strconv.FormatInt(UsualInterval.Milliseconds(), 10),
			&c.Polling.Interval, "time between passes of tick --loop and of an installed timer").atLeast(1),
		key(
			"monitor.ping_url",
			typeURL,
			"",
			&c.Monitor.PingURL,
			"address to which scheduled passes send pings, as healthchecks.io expects them; better as $NAME",
		).
			then((*reader).pingURL),
	}
}

// workspaceKeys are the keys of workspace, repository and hooks.
func workspaceKeys(c *Config) []Key {
	return []Key{
		key("workspace.root", typePath, "<temp>/symphony_workspaces-<uid>", nil,
			"directory of the workspaces").
			naming(NamesPaths).then((*reader).root),
		key("workspace.keep_removed_ms", typeMS, "86400000", &c.Workspace.KeepRemoved,
			"how long a removed workspace is kept in the trash; 0 deletes it immediately"),
		key("workspace.min_free_bytes", typeInteger, "2147483648", &c.Policy.MinFreeBytes,
			"start no run while the volume has less free space; 0: no limit"),
		key(
			"repository.url",
			"git address",
			"",
			&c.Repository.URL,
			"repository that symphony clones and pushes to, also ./PATH from WORKFLOW.md; without it, hooks do both",
		).
			naming(NamesRepository).then((*reader).repositoryURL),
		key(
			"repository.base",
			typeString,
			"",
			&c.Repository.Base,
			"branch on which the work is based; default: the remote's",
		),
		key("repository.branch", typeString, defaultBranch, &c.Repository.Branch,
			"name of an issue's branch; a template like the prompt").then((*reader).branch),
		key(
			"repository.deliver",
			"",
			DeliverBranch,
			&c.Repository.Deliver,
			"branch pushes the commits to the issue's branch, pull-request also opens a pull request, none keeps them here",
		).
			oneOf(DeliverBranch, DeliverPullRequest, DeliverNone),
		key(
			"repository.forge",
			"",
			"",
			&c.Repository.Forge,
			"the kind of service that has the pull requests; default: by the host, as far as it is known, else github",
		).oneOf(ForgeNames()...).then((*reader).repositoryForge),
		key(
			"repository.token",
			"$NAME",
			"",
			&c.Repository.Token,
			"variable with the token that opens pull requests; on GitHub it is used if gh is not logged in",
		).then((*reader).repositoryToken),
		key(
			"repository.api",
			typeURL,
			"",
			&c.Repository.API,
			"address of the forge's API; default: by the host of repository.url",
		).then((*reader).repositoryAPI),
		key(
			"repository.git_name",
			typeString,
			"",
			&c.Repository.Name,
			"name of the commits' author; default: that of git",
		),
		key("repository.git_email", typeString, "", &c.Repository.Email, "the author's email address"),
		key("repository.check", typeShell, "", &c.Repository.Check,
			"runs on the new commits before they are pushed; if it fails, its output reaches the agent").
			naming(NamesScript).then((*reader).beforePush),
		key("repository.sign", typeBool, "false", &c.Repository.Sign,
			"sign the commits of agents with your key before they are pushed").then((*reader).beforePush),
		key("repository.submodules", typeBool, "false", &c.Repository.Submodules,
			"set up submodules, and theirs, in new workspaces"),
		key(
			"repository.claims",
			typeClaims,
			"false",
			&c.Repository.Claims,
			"several machines may run this workflow, and share the issues by claims in the remote: see docs/team.md",
		).then((*reader).repositoryClaims),

		key(
			"handoff.state",
			typeString,
			"",
			&c.Handoff.State,
			"state to which symphony moves an issue that its agent hands over; without it, agents move issues",
		),
		key("handoff.blocked_state", typeString, "", &c.Handoff.BlockedState,
			"the same for an issue whose agent needs help; default: handoff.state"),

		key(
			"verify.command",
			typeShell,
			"",
			&c.Verify.Command,
			"has to succeed in a checkout of the commit, in the sandbox, before an issue is handed over; needs handoff.state",
		).
			naming(NamesScript),
		key(
			"verify.timeout_ms",
			typeMS,
			"1800000",
			&c.Verify.Timeout,
			"longest time that verify.command may take",
		).atLeast(1),
		key(
			"verify.rounds",
			typeInteger,
			"3",
			&c.Verify.Rounds,
			"how often it may fail in a row; then the issue is held",
		).atLeast(1),

		key(
			"feedback.state",
			typeString,
			"",
			&c.Feedback.State,
			"state to which an issue goes back if its pull request needs work; without it, none is watched",
		),
		key(
			"feedback.checks",
			typeBool,
			"true",
			&c.Feedback.Checks,
			"failed checks bring an issue back, unless they fail on the base, too",
		),
		key(
			"feedback.reviews",
			typeBool,
			"true",
			&c.Feedback.Reviews,
			"reviews that ask for changes or comment bring an issue back",
		),
		key(
			"feedback.conflicts",
			typeBool,
			"true",
			&c.Feedback.Conflicts,
			"conflicts with the base bring an issue back",
		),
		key(
			"feedback.rounds",
			typeInteger,
			"3",
			&c.Feedback.Rounds,
			"how often an issue comes back; then it is held",
		).atLeast(1),
		key(
			"feedback.reviewers",
			typeStrings,
			"[]",
			&c.Feedback.Reviewers,
			"logins whose reviews count, an app's with [bot]; default: all people who may push to the repository",
		),
		key("feedback.merged_state", typeString, "", &c.Feedback.MergedState,
			"state of an issue whose pull request was merged; default: it is not moved"),

		key(
			"merge.when",
			"",
			"",
			&c.Feedback.Merge.When,
			"when symphony merges a pull request: once the commit is approved, or its checks are green; default: never",
		).oneOf(reconcile.MergeApproved, reconcile.MergeGreen),
		key(
			"merge.method",
			"",
			"squash",
			&c.Feedback.Merge.Method,
			"how it is merged; a merge queue has its own way",
		).oneOf("squash", "merge", "rebase"),

		key(
			"hooks.after_create",
			typeShell,
			"",
			&c.Hooks.AfterCreate,
			"runs in a new workspace; if it fails, the workspace is removed",
		).
			naming(NamesScript),
		key(
			"hooks.before_run",
			typeShell,
			"",
			&c.Hooks.BeforeRun,
			"runs before each run; if it fails, the run fails",
		).
			naming(NamesScript),
		key("hooks.after_run", typeShell, "", &c.Hooks.AfterRun, "runs after each run, whatever its outcome").
			naming(NamesScript),
		key(
			"hooks.before_remove",
			typeShell,
			"",
			&c.Hooks.BeforeRemove,
			"runs before a workspace is removed",
		).
			naming(NamesScript),
		key(
			"hooks.on_attention",
			typeShell,
			"",
			&c.Hooks.OnAttention,
			"runs in the home directory when you are needed",
		).
			naming(NamesHomeScript),
		key(
			"hooks.timeout_ms",
			typeMS,
			"60000",
			&c.Hooks.Timeout,
			"longest time that a hook may take",
		).then((*reader).hookTimeout),
	}
}

func agentKeys(c *Config) []Key {
	return []Key{
		key("agent.kind", "", DefaultAgent, &c.Agent.Kind,
			"the agent; acp is any that speaks the Agent Client Protocol").
			oneOf(AgentKinds()...),
		key("agent.fallback", typeAgents, "[]", nil,
			"kinds of agents in place of agent.kind: each takes over while the accounts before it can't be used").
			naming(NamesScript).then((*reader).fallback),
		key(
			"agent.command",
			"shell command",
			"",
			&c.Agent.Command,
			"the command that starts an agent other than "+DefaultAgent+"; default: that of its kind",
		).naming(NamesScript),
		key(
			"agent.model",
			typeString,
			"",
			&c.Agent.Model,
			"model of an agent other than "+DefaultAgent+"; default: its own",
		).then((*reader).word),
		key(
			"agent.effort",
			typeString,
			"",
			&c.Agent.Effort,
			"reasoning effort of an agent other than "+DefaultAgent,
		).then((*reader).word),
		key("agent.env", typeVarMap, "{}", &c.Agent.Env,
			"variables of an agent other than "+DefaultAgent+"; $NAME takes the value of a variable"),
		key(
			"agent.sandbox",
			"",
			sandboxOwn+" with agent.kind "+DefaultAgent+", else bwrap",
			&c.Agent.Sandbox,
			"what confines an agent; none needs agent.trust",
		).oneOf(sandboxBwrap, sandboxOwn, sandboxNone),
		key("agent.trust", typeBool, "false", &c.Agent.Trust,
			"let an agent other than "+DefaultAgent+" do whatever this account can"),
		key(
			"agent.max_concurrent_agents",
			typeInteger,
			"10",
			&c.Policy.MaxConcurrent,
			"limit of runs at the same time",
		).atLeast(1),
		key("agent.max_concurrent_agents_by_state", typeStateMap, "{}", &c.Policy.MaxByState,
			"limit of runs at the same time for issues in a state"),
		key("agent.max_turns", typeInteger, "20", &c.Agent.MaxTurns, "limit of turns in a run").atLeast(1),
		key(
			"agent.max_retry_backoff_ms",
			typeMS,
			"300000",
			&c.Policy.MaxRetryBackoff,
			"longest wait before a retry",
		).atLeast(1),
		key(
			"agent.max_failures",
			typeInteger,
			"10",
			&c.Policy.MaxFailures,
			"hold an issue after this many failures in a row; 0: no limit",
		),
		key("agent.max_idle_runs", typeInteger, "3", &c.Policy.MaxIdleRuns,
			"hold an issue after this many runs in a row that changed nothing; 0: no limit"),
		key("agent.max_runs", typeInteger, "20", &c.Policy.MaxRuns,
			"hold an issue after this many runs without a change of its state or description; 0: no limit"),
		key(
			"agent.max_tokens",
			typeTokens,
			"20000000",
			&c.Policy.MaxTokens,
			"hold an issue that has used this many tokens, cached ones included; 0: no limit",
		),
		key(
			"agent.on_approval",
			"",
			"approve with approval_policy never, else fail",
			&c.Agent.OnApproval,
			"what happens if the agent asks for approval: fail ends the run, ask asks you",
		).oneOf("approve", "deny", "fail", "ask"),
		key(
			"agent.on_question",
			"",
			"fail",
			&c.Agent.OnQuestion,
			"what happens if the agent asks a question: fail ends the run, ask asks you",
		).oneOf("fail", "ask"),
		key("agent.answer_timeout_ms", typeMS, "3600000", &c.Agent.AnswerTimeout,
			"how long an agent waits for your answer").atLeast(1),
		key(
			"agent.network",
			typeNetwork,
			"false",
			network{&c.Agent.Network, &c.Agent.Allow},
			"commands in the sandbox may use the network; with agent.sandbox: bwrap also single hosts",
		),
		key(
			"agent.key",
			typeString,
			"",
			&c.Agent.Key,
			"$NAME, a variable with the key of the model, which no agent sees; needs agent.sandbox: bwrap",
		).then((*reader).agentKey),
		key(
			"agent.max_memory_bytes",
			typeInteger,
			"",
			&c.Agent.MaxMemory,
			"most memory of an agent with agent.sandbox: bwrap; default: three quarters of the machine's",
		).atLeast(1),
		key("agent.writable_roots", typePaths, "[]", &c.Agent.WritableRoots,
			"directories outside the workspace that agents may write").
			naming(NamesWritable).then((*reader).writableRoots),
		key(
			"agent.pass_env",
			typeVars,
			"[]",
			&c.Agent.PassEnv,
			"variables that agents get even though their names contain KEY, SECRET or TOKEN",
		).then((*reader).passEnv),
		key("agent.trust_repository", typeBool, "false", &c.Agent.TrustRepository,
			trustRepositoryText),
		key("agent.resume_thread", typeBool, "true", &c.Agent.ResumeThread,
			"continue the conversation of the issue's previous run"),
		key("agent.by_label", typeLabels, "[]", nil,
			"other settings for issues with a label: see below").
			naming(NamesWritable).then((*reader).byLabel),
		key(
			"agent.prices",
			typePrices,
			"{}",
			&c.Agent.Prices,
			"prices per million tokens, for report: see below",
		).then((*reader).prices),
		key(
			"agent.budget_per_day",
			typeBudget,
			"0",
			&c.Agent.budget,
			"start no run or turn once a day (UTC) has used this much: 5M for tokens, or 20 USD; 0: no limit",
		).
			then((*reader).budget),
	}
}

// workerKeys are the keys about the machines on which runs work (specification, appendix A).
func workerKeys(c *Config) []Key {
	return []Key{
		key(
			"worker.ssh_hosts",
			typeStrings,
			"[]",
			&c.Policy.Hosts,
			"machines on which agents work instead of this one: aliases of ssh, or user@host:port",
		).then((*reader).hosts),
		key(
			"worker.engine.kind",
			"",
			engineSSH,
			&c.Worker.Engine,
			"what starts agents on other machines: see docs/hosts.md",
		).
			oneOf(append([]string{engineSSH}, Engines()...)...).then((*reader).engine),
		key("worker.engine.args", typeStrings, "[]", &c.Worker.EngineArgs,
			"options of sbatch for each job, such as --partition=gpu").
			naming(NamesHomeScript).ofEngine(EngineSlurm).then((*reader).engineArgs),
		key("worker.engine.start", typeShell, "", &c.Worker.Start,
			"starts the job $SYMPHONY_JOB, which runs symphony $SYMPHONY_SERVE, and does not wait for its end").
			naming(NamesHomeScript).
			ofEngine(EngineCommand).then((*reader).engineCommand),
		key("worker.engine.connect", typeShell, "", &c.Worker.Connect,
			"runs symphony $SYMPHONY_CONNECT where the job runs").
			naming(NamesHomeScript).
			ofEngine(EngineCommand).then((*reader).engineCommand),
		key("worker.engine.status", typeShell, "", &c.Worker.Status,
			"prints a line: pending REASON, never REASON, running, ended HOW or unknown").
			naming(NamesHomeScript).
			ofEngine(EngineCommand).then((*reader).engineCommand),
		key("worker.engine.stop", typeShell, "", &c.Worker.Stop,
			"ends the job and removes what the engine keeps of it").
			naming(NamesHomeScript).
			ofEngine(EngineCommand).then((*reader).engineCommand),
		key("worker.engine.pass_env", typeVars, "[]", &c.Worker.EnginePass,
			"further variables that these commands get").
			ofEngine(EngineCommand).then((*reader).enginePass),
		key("worker.max_concurrent_agents_per_host", typeInteger, "", &c.Policy.MaxPerHost,
			"number of agents that work on one host at once; default: any").atLeast(1),
		key(
			"worker.root",
			"path on the hosts",
			"",
			&c.Policy.RemoteRoot,
			"directory of the workspaces on the hosts; default: workspace.root, else ~/symphony_workspaces",
		).
			naming(NamesHome).
			then((*reader).remoteRoot),
		key(
			"worker.lost_after_ms",
			typeMS,
			"900000",
			&c.Policy.LostAfter,
			"how long an agent works on a host without a link to this machine",
		).atLeast(1000),
	}
}

func serverKeys(c *Config) []Key {
	return []Key{
		key(
			"server.port",
			typeInteger,
			"",
			&c.Server.Port,
			"port of symphony serve (default: 7967), and of a server in tick --loop; 0: any",
		).then((*reader).serverPort),
		key(
			"server.host",
			typeString,
			"127.0.0.1",
			&c.Server.Host,
			"address at which symphony serve listens; at another one viewing needs the token, too",
		).then((*reader).serverHost),
	}
}

// Unbuilt returns the keys of the specification that this version does not support, each with
// a warning.
func Unbuilt() map[string]string {
	const noEffect = "not built yet: it has no effect"
	return map[string]string{
		"observability.dashboard_enabled":  noEffect,
		"observability.refresh_ms":         noEffect,
		"observability.render_interval_ms": noEffect,
	}
}

// sections returns the keys whose values are maps of keys: the top-level ones, and
// tracker.provider.
func sections(keys []Key) []string {
	found := []string{"observability"}
	for _, k := range keys {
		if parent := k.Name[:strings.LastIndexByte(k.Name, '.')]; !slices.Contains(found, parent) {
			found = append(found, parent)
		}
	}
	return found
}
