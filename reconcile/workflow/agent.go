package workflow

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/internal/allowlist"
	"github.com/symphony-cron/symphony/internal/text"
)

// The kinds of agents. Each has a row in compose_agents.go of package wiring.
const (
	AgentCodex    = "codex"
	agentClaude   = "claude"
	agentOpenCode = "opencode"
	agentGemini   = "gemini"
	agentACP      = "acp" // any other that speaks the Agent Client Protocol
)

// codexCommand is the default of codex.command.
const codexCommand = "codex app-server"

// AgentKinds lists the kinds of agents.
func AgentKinds() []string {
	return append([]string{AgentCodex}, text.Map(agentKinds, func(k agentKind) string { return k.name })...)
}

// agentKind is a kind of agent besides codex.
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
}

var agentKinds = []agentKind{
	{
		name:     agentClaude,
		command:  "claude-agent-acp",
		home:     ".claude",
		login:    ".credentials.json",
		takesKey: true,
	},
	{
		name:           agentOpenCode,
		command:        "opencode acp",
		home:           ".local/share/opencode",
		login:          "auth.json",
		needsModel:     true,
		countsNoTokens: true,
		takesKey:       true,
	},
	{name: agentGemini, command: "gemini --acp", home: ".gemini", login: "oauth_creds.json", takesKey: true},
	{name: agentACP, home: ".config/acp"},
}

// kindNamed returns a kind besides codex; the zero value for others.
func kindNamed(name string) agentKind {
	return text.First(agentKinds, func(k agentKind) bool { return k.name == name })
}

// AgentCommand returns the command that starts a kind of agent by default, such as
// "opencode acp"; "" for a kind whose command the workflow must name.
func AgentCommand(kind string) string {
	if kind == AgentCodex {
		return codexCommand
	}
	return kindNamed(kind).command
}

// NeedsModel reports whether a kind of agent works only with agent.model.
func NeedsModel(kind string) bool {
	return kindNamed(kind).needsModel
}

// AgentChoice is an agent that may work on an issue.
type AgentChoice struct {
	Kind string // such as codex
	// Home is the directory of its login, "" for codex's own default.
	Home                   string
	Command, Model, Effort string
}

// LoginFile returns the name of the file with the login in the home, "" if it is not known.
func (c AgentChoice) LoginFile() string {
	if c.Kind == AgentCodex {
		return "auth.json"
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

// The sandboxes of agents.
const (
	sandboxBwrap = "bwrap" // of symphony itself
	sandboxCodex = "codex" // of codex
	sandboxNone  = "none"
)

// noSandboxPolicy is the sandbox policy of turns without a sandbox, in the words of codex.
var noSandboxPolicy = json.RawMessage(`{"type":"dangerFullAccess"}`)

// ofCodex are the keys that only codex has.
var ofCodex = []string{
	"codex.command", "codex.trust_launcher", "codex.home", "codex.model", "codex.effort", "codex.inherit",
	"codex.approval_policy", "codex.thread_sandbox", "codex.turn_sandbox_policy", "agent.trust_repository",
	"agent.on_question",
}

// ofSandboxes are the keys that an agent without a sandbox does not have.
var ofSandboxes = append([]string{"agent.network", "agent.writable_roots", "agent.pass_env"}, ofBoxes...)

// ofBoxes are the keys of symphony's own sandbox.
var ofBoxes = []string{"agent.max_processes", "agent.max_memory_bytes"}

// ofOthers are the keys that only other kinds of agents have.
var ofOthers = []string{"agent.command", "agent.model", "agent.effort", "agent.env", "agent.trust"}

// agents checks the keys of the agents, and finds out which agents may work on an issue.
func (r *reader) agents() {
	own := &r.cfg.Agent
	if !slices.Contains(AgentKinds(), own.Kind) {
		return // it was refused
	}
	r.order()
	for i := range own.ByLabel {
		row := &own.ByLabel[i]
		if row.Kind != "" {
			set := AgentChoice{Kind: row.Kind, Command: row.Command, Model: row.Model, Effort: row.Effort}
			row.agents = r.choices(r.item(r.field("agent.by_label"), i), set)
		}
	}
	kinds := own.kinds()
	if !slices.Contains(kinds, AgentCodex) {
		for _, key := range ofCodex {
			r.warnKey(key, "no effect with agent.kind: "+own.Kind)
		}
	} else {
		r.codexSandbox()
	}
	others := own.others()
	if len(others) == 0 {
		r.onlyCodex()
		return
	}
	for _, kind := range others {
		if !kindNamed(kind).countsNoTokens {
			continue
		}
		for _, key := range []string{"agent.max_tokens", "agent.budget_per_day"} {
			r.warnKey(key, "no effect with agent.kind: "+kind+", which does not report its tokens")
		}
	}
	r.confined(others)
	r.notYet(others[0])
}

// order finds out which agents usually work on issues: the one of agent.kind, or those of
// agent.fallback in their order.
func (r *reader) order() {
	own := &r.cfg.Agent
	f := r.field("agent.fallback")
	if len(own.Fallback) == 0 {
		own.agents = r.choices(r.field("agent.kind"), AgentChoice{Kind: own.Kind})
		return
	}
	first := own.Fallback[0].Kind
	if r.field("agent.kind").node != nil && own.Kind != first {
		r.invalid(
			f,
			"begins with "+first+", but agent.kind is "+own.Kind,
			"let it begin with the usual agent, or remove agent.kind",
		)
		return
	}
	own.Kind = first
	for i, set := range own.Fallback {
		own.agents = append(own.agents, r.choices(r.item(f, i), set)...)
	}
}

// fallback reads agent.fallback.
func (r *reader) fallback(f field) {
	if f.node == nil {
		return
	}
	if f.node.Kind != yaml.SequenceNode {
		r.wrong(Key{Type: typeAgents}, f, fallbackHint)
		return
	}
	for i := range f.node.Content {
		choice, ok := r.fallbackEntry(r.item(f, i), deref(f.node.Content[i]))
		if !ok {
			continue
		}
		isSame := func(other AgentChoice) bool { return other.Kind == choice.Kind }
		if slices.ContainsFunc(r.cfg.Agent.Fallback, isSame) {
			r.invalid(
				r.item(f, i),
				choice.Kind+" is listed twice",
				"remove one of them; for several accounts of codex write codex.home: [~/.codex, ~/.codex-2]",
			)
			continue
		}
		r.cfg.Agent.Fallback = append(r.cfg.Agent.Fallback, choice)
	}
}

const fallbackHint = "write for instance [codex, claude], or [codex, {kind: claude, model: opus}]"

// fallbackEntry reads an entry of agent.fallback: a kind, or a map with its settings.
func (r *reader) fallbackEntry(at field, node *yaml.Node) (choice AgentChoice, ok bool) {
	kind := key("kind", "", "", &choice.Kind, "").oneOf(AgentKinds()...)
	if node.Kind == yaml.ScalarNode {
		at.node = node
		return choice, r.value(kind, at)
	}
	var entries map[string]yaml.Node
	if node.Decode(&entries) != nil {
		r.invalid(at, "an entry must be a kind, or a map without repeated keys", fallbackHint)
		return choice, false
	}
	ok = r.entry(at, entries, fallbackHint, []Key{
		kind,
		key("command", "shell command", "", &choice.Command, ""),
		key("model", typeString, "", &choice.Model, "").then((*reader).word),
		key("effort", typeString, "", &choice.Effort, "").then((*reader).word),
	})
	if ok && choice.Kind == "" {
		r.invalid(at, "an entry has no kind", fallbackHint)
	}
	return choice, ok && choice.Kind != ""
}

// kinds returns the kinds of the agents that may work on issues, each once: the usual ones
// first.
func (a *Agent) kinds() []string {
	list := text.Map(a.Fallback, func(c AgentChoice) string { return c.Kind })
	if len(list) == 0 {
		list = []string{a.Kind}
	}
	for _, row := range a.ByLabel {
		if row.Kind != "" {
			list = append(list, row.Kind)
		}
	}
	return text.Unique(list)
}

// others returns the kinds besides codex. The first is the one whose command, model and effort
// are below agent.
func (a *Agent) others() []string {
	return slices.DeleteFunc(a.kinds(), func(kind string) bool { return kind == AgentCodex })
}

// choices returns the agents of a kind with these settings in the place of the usual ones. at
// is where the file chooses the kind.
func (r *reader) choices(at field, set AgentChoice) []AgentChoice {
	own := &r.cfg.Agent
	if set.Kind == AgentCodex {
		codex := &r.cfg.Codex
		set.Command = cmp.Or(set.Command, codex.Command)
		set.Model = cmp.Or(set.Model, codex.Model)
		set.Effort = cmp.Or(set.Effort, codex.Effort)
		homes := codex.Homes
		if len(homes) == 0 {
			homes = []string{""} // codex's own default
		}
		return text.Map(homes, func(home string) AgentChoice {
			one := set
			one.Home = home
			return one
		})
	}
	kind := kindNamed(set.Kind)
	isFirst := own.others()[0] == set.Kind // the one that the keys of agent are about
	if isFirst {
		set.Command = cmp.Or(set.Command, own.Command)
		set.Model = cmp.Or(set.Model, own.Model)
		set.Effort = cmp.Or(set.Effort, own.Effort)
	}
	set.Home = filepath.Join(r.env.Home, kind.home)
	set.Command = cmp.Or(set.Command, kind.command)
	if set.Command == "" {
		hint := "write the command that starts the agent"
		if !isFirst {
			hint = "write it there: {kind: acp, command: …}"
		}
		r.invalid(at, "acp needs agent.command", hint)
	}
	if set.Model == "" && kind.needsModel {
		hint := "write for instance agent.model: anthropic/claude-opus-5"
		if !isFirst {
			hint = "write for instance {kind: " + kind.name + ", model: anthropic/claude-opus-5}"
		}
		r.invalid(
			at,
			kind.name+" needs agent.model, because it would choose a model itself, perhaps of another provider",
			hint,
		)
	}
	return []AgentChoice{set}
}

// onlyCodex checks the keys of other kinds for codex.
func (r *reader) onlyCodex() {
	for _, key := range ofOthers {
		hint := ""
		if same := strings.Replace(key, "agent.", "codex.", 1); slices.Contains(ofCodex, same) {
			hint = ": write " + same
		}
		r.warnKey(key, "no effect with agent.kind: codex"+hint)
	}
	if r.cfg.Agent.Key != "" {
		r.fail(
			CodeUnsupportedKey,
			r.field("agent.key"),
			"not built yet with agent.kind: codex",
			"remove the key: log codex in, or set OPENAI_API_KEY",
		)
	}
	switch r.cfg.Agent.Sandbox {
	case "", sandboxCodex, sandboxBwrap:
	default:
		r.invalid(
			r.field("agent.sandbox"),
			"with agent.kind: codex, codex.turn_sandbox_policy says it",
			"remove the key, or write codex.turn_sandbox_policy: {type: dangerFullAccess}",
		)
	}
}

// ofCodexSandbox are the keys of codex's own sandbox.
var ofCodexSandbox = []string{"codex.thread_sandbox", "codex.turn_sandbox_policy", "agent.trust_repository"}

// codexSandbox checks the keys of codex's sandbox, which is its own unless the workflow asks for
// symphony's.
func (r *reader) codexSandbox() {
	own := r.cfg.Agent
	isAlone := len(own.others()) == 0
	if own.Sandbox != sandboxBwrap {
		if own.Allow != nil {
			r.fail(
				CodeUnsupportedKey,
				r.field("agent.network"),
				"codex's own sandbox can't allow single hosts",
				"write agent.sandbox: bwrap; or true or false",
			)
		}
		for _, key := range ofBoxes {
			if isAlone {
				r.warnKey(key, "no effect with codex's own sandbox: write agent.sandbox: bwrap")
			}
		}
		return
	}
	if isAlone {
		r.onLinux(AgentCodex, "remove agent.sandbox: codex has a sandbox of its own")
	}
	for _, key := range ofCodexSandbox {
		r.warnKey(key, "no effect with agent.sandbox: bwrap")
	}
	refuse := func(f field, without string) {
		if f.node != nil {
			r.fail(CodeUnsupportedKey, f, "not built yet for codex with agent.sandbox: bwrap", without)
		}
	}
	if r.cfg.Codex.Inherit {
		refuse(r.field("codex.inherit"), "remove the key: the sandbox shows nothing of codex.home but the login")
	}
	if isAlone { // of other kinds notYet refuses them
		refuse(r.field("worker.ssh_hosts"), "remove agent.sandbox")
		refuse(r.field("worker.engine.kind"), "remove agent.sandbox")
	}
	for i, row := range own.ByLabel {
		if row.Sandbox != nil && (isAlone || row.Kind == AgentCodex) {
			refuse(r.item(r.field("agent.by_label"), i), "remove its sandbox")
		}
	}
}

// onLinux refuses symphony's sandbox on other systems.
func (r *reader) onLinux(kind, without string) {
	system := r.env.system()
	if system == "linux" {
		return
	}
	f := r.field("agent.sandbox")
	if f.node == nil {
		f = r.field("agent.kind")
	}
	what := "agent.sandbox: bwrap"
	if kind != AgentCodex {
		what += ", the default of " + kind + ","
	}
	r.fail(CodeUnsupportedKey, f, what+" works on Linux alone, not on "+system, without)
}

// confined checks the sandbox of the kinds besides codex. It refuses agents without a sandbox,
// unless the operator trusts them.
func (r *reader) confined(kinds []string) {
	own := &r.cfg.Agent
	f := r.field("agent.sandbox")
	const trust = "if you trust the agent with everything that this account can do, " +
		"write agent.sandbox: none and agent.trust: true"
	switch own.Sandbox {
	case "", sandboxBwrap:
		r.boxed(kinds, trust)
		return
	case sandboxCodex:
		r.invalid(f, "codex's sandbox is only for agent.kind: codex", "remove the key; or, "+trust)
	case sandboxNone:
		if !own.Trust {
			r.invalid(f, "none needs agent.trust: true, because the agent can do whatever this account can", trust)
		}
	}
	if !slices.Contains(own.kinds(), AgentCodex) {
		for _, key := range ofSandboxes {
			r.warnKey(key, "no effect with agent.sandbox: none")
		}
	}
	if own.Key != "" {
		r.invalid(
			r.field("agent.key"),
			"needs agent.sandbox: bwrap, because an agent without a sandbox can read it",
			"remove agent.sandbox: none, or put the key into agent.env",
		)
	}
}

// boxed checks the keys of symphony's own sandbox.
func (r *reader) boxed(kinds []string, trust string) {
	own := r.cfg.Agent
	kind := kindNamed(kinds[0])
	r.onLinux(kind.name, "use agent.kind: codex; or, "+trust)
	r.warnKey("agent.trust", "no effect without agent.sandbox: none")
	if own.Key == "" {
		return
	}
	f := r.field("agent.key")
	switch {
	case len(kinds) > 1:
		r.invalid(
			f,
			"is the key of a single kind, and the agents may be "+strings.Join(kinds, " and "),
			"put the keys into agent.env, where the agents and their commands can read them",
		)
	case len(r.cfg.providers()) > 1:
		r.invalid(
			f,
			"is the key of a single provider, and the models are of "+strings.Join(r.cfg.providers(), " and "),
			"name models of one provider, or put the keys into agent.env, where the agents can read them",
		)
	case !kind.takesKey:
		r.fail(
			CodeUnsupportedKey,
			f,
			"symphony does not know how agent.kind: "+kind.name+" sends its key",
			"put the key into agent.env, where the agent and its commands can read it",
		)
	case own.Network:
		r.invalid(
			f,
			"needs a network that symphony serves, which agent.network: true is not",
			"write agent.network: {allow: [HOSTS]}",
		)
	}
}

// providers returns the providers of the models with which OpenCode may work, sorted: those of
// anthropic/claude-opus-5 and openai/gpt-9 are anthropic and openai.
func (c *Config) providers() []string {
	var models []string
	for _, a := range c.AllAgents() {
		if a.Kind == agentOpenCode {
			models = append(models, a.Model)
		}
	}
	for _, row := range c.Agent.ByLabel {
		// a row without a kind is about the first of the usual agents
		if row.Kind == "" && c.Agent.Kind == agentOpenCode {
			models = append(models, row.Model)
		}
	}
	var all []string
	for _, model := range models {
		provider, _, _ := strings.Cut(model, "/")
		if provider != "" {
			all = append(all, provider)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// agentKey reads the key of the model, which the file does not contain itself.
func (r *reader) agentKey(f field) {
	own := &r.cfg.Agent
	written := own.Key.Reveal()
	own.Key = ""
	name, isVar := reference(written)
	switch {
	case written == "":
		return
	case !isVar:
		r.invalid(
			f,
			"must be $NAME, a variable that contains the key",
			"write $ANTHROPIC_API_KEY; "+r.setHint("ANTHROPIC_API_KEY", "it"),
		)
		return
	}
	r.cfg.withhold(name)
	own.keyVar = name
	value, _ := r.env.lookup(name)
	own.Key = Secret(strings.TrimSpace(value))
	switch {
	case strings.ContainsFunc(own.Key.Reveal(), blank):
		r.invalid(f, "the key contains blanks or control characters", "copy it again")
	case own.Key == "" && !r.env.KeyOptional:
		r.invalid(f, "the environment variable "+name+" is not set, or empty", r.setHint(name, "it"))
	}
}

// withheldEnv refuses entries of agent.env that no agent gets: a variable that is withheld by its
// name, such as GITHUB_TOKEN with tracker.kind github, or that contains a secret of symphony.
func (r *reader) withheldEnv() {
	f := r.field("agent.env")
	if f.node == nil || f.node.Kind != yaml.MappingNode {
		return
	}
	secrets := []Secret{r.cfg.Tracker.APIKey, r.cfg.Repository.Token, r.cfg.Agent.Key}
	for i := 0; i+1 < len(f.node.Content); i += 2 {
		name := f.node.Content[i]
		value := r.cfg.Agent.Env[name.Value]
		isIn := func(secret Secret) bool {
			return len(secret) >= shortestKey && strings.Contains(value, secret.Reveal())
		}
		entry := field{key: f.key + "." + name.Value, line: r.line(name)}
		switch {
		case slices.Contains(r.cfg.SecretVars, name.Value):
			r.invalid(
				entry,
				"no agent gets a variable of this name, because symphony keeps a secret of its own in it",
				"name another variable for symphony's secret, or for the agent's",
			)
		case slices.ContainsFunc(secrets, isIn):
			r.invalid(entry, "contains a secret of symphony, which no agent gets", "give agents a key of their own")
		}
	}
}

// network is the value of agent.network: all of it, or some hosts.
type network struct {
	open  *bool
	allow *[]string
}

// network reads true, false, or the hosts that are allowed.
func (r *values) network(k Key, f field) (open bool, allow []string, ok bool) {
	if f.node == nil || f.node.Kind == yaml.ScalarNode {
		open, ok = r.boolean(k, f)
		return open, nil, ok
	}
	if f.node.Kind != yaml.MappingNode {
		r.wrong(k, f, "write {allow: [github.com]}")
		return false, nil, false
	}
	allow = []string{}
	for i := 0; i+1 < len(f.node.Content); i += 2 {
		name := f.node.Content[i]
		entry := field{key: f.key + "." + name.Value, line: r.line(name), node: deref(f.node.Content[i+1])}
		if name.Value != "allow" {
			r.invalid(entry, "unknown", "agent.network has only the key allow")
			return false, nil, false
		}
		if i > 0 {
			r.fail(CodeParse, entry, "given twice", "keep one of them")
			return false, nil, false
		}
		allow, ok = r.list(Key{Type: typeStrings}, entry)
		if !ok {
			return false, nil, false
		}
		r.allowed(entry, allow)
	}
	return false, allow, true
}

// allowed checks the hosts that agent.network allows.
func (r *values) allowed(f field, hosts []string) {
	for i, host := range hosts {
		if host == "" {
			continue // it was reported
		}
		_, err := allowlist.Parse([]string{host})
		if err != nil {
			r.invalid(r.item(f, i), err.Error(), "")
		}
	}
}

// notYet refuses the keys that need more than other kinds of agents have so far. kind is one of
// the kinds besides codex that may work on issues.
func (r *reader) notYet(kind string) {
	refuse := func(f field, what, kind string) {
		r.fail(
			CodeUnsupportedKey,
			f,
			what+"not built yet with agent.kind: "+kind,
			"remove the key, or use agent.kind: codex",
		)
	}
	if len(r.cfg.Policy.Hosts) > 0 {
		for _, key := range []string{"worker.ssh_hosts", "worker.engine.kind"} {
			if f := r.field(key); f.node != nil {
				refuse(f, "", kind)
			}
		}
	}
	usual := text.Map(r.cfg.Agent.agents, func(a AgentChoice) string { return a.Kind })
	for i, row := range r.cfg.Agent.ByLabel {
		if row.Sandbox == nil {
			continue
		}
		kinds := usual
		if row.Kind != "" {
			kinds = []string{row.Kind}
		}
		other := text.First(kinds, func(kind string) bool { return kind != AgentCodex })
		if other != "" {
			at := r.item(r.field("agent.by_label"), i)
			refuse(at, "the sandbox of "+strconv.Quote(row.Label)+" is ", other)
		}
	}
}

// sandboxed reports whether a kind of agent works in a sandbox.
func (c *Config) sandboxed(kind string) bool {
	if kind != AgentCodex {
		return c.Agent.Sandbox != sandboxNone
	}
	if c.Agent.Sandbox == sandboxBwrap {
		return true
	}
	var policy struct{ Type string }
	if c.Codex.TurnSandboxPolicy == nil || json.Unmarshal(c.Codex.TurnSandboxPolicy, &policy) != nil {
		return true
	}
	return !slices.Contains(noSandbox, policy.Type)
}

// AgentsFor returns the agents that may work on an issue with these labels, in order: each
// takes over while the accounts of those before it can't be used. byOperators are the labels
// that a user in tracker.operators is known to have set.
func (c *Config) AgentsFor(labels, byOperators []string) []AgentChoice {
	usual := c.Agent.agents
	row := c.Agent.RowFor(labels, byOperators)
	switch {
	case row == nil:
		return usual
	case row.Kind != "":
		return row.agents
	}
	return text.Map(usual, func(a AgentChoice) AgentChoice {
		if a.Kind == usual[0].Kind { // the models of other kinds have other names
			a.Model = cmp.Or(row.Model, a.Model)
			a.Effort = cmp.Or(row.Effort, a.Effort)
		}
		return a
	})
}

// AllAgents returns all agents that may work on issues.
func (c *Config) AllAgents() []AgentChoice {
	all := slices.Clone(c.Agent.agents)
	for _, row := range c.Agent.ByLabel {
		all = append(all, row.agents...)
	}
	return all
}

// AgentsOfRow returns the agents that a row of agent.by_label chooses, none if it chooses no
// kind.
func (l LabelRow) AgentsOfRow() []AgentChoice { return l.agents }

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

// environment reads a map of variables. Only a value that is $NAME as a whole is taken from
// symphony's own environment.
func (r *values) environment(k Key, f field) (map[string]string, bool) {
	vars := map[string]string{}
	if f.node == nil {
		return vars, true
	}
	if f.node.Kind != yaml.MappingNode {
		r.wrong(k, f, "write for instance {ANTHROPIC_BASE_URL: https://gateway.example}")
		return vars, false
	}
	first := map[string]int{} // the line of each name
	for i := 0; i+1 < len(f.node.Content); i += 2 {
		name := f.node.Content[i]
		value := deref(f.node.Content[i+1])
		entry := field{key: f.key + "." + name.Value, line: r.line(name)}
		line, twice := first[name.Value]
		switch {
		case !variableName(name.Value):
			r.invalid(entry, "not the name of a variable", "")
			continue
		case twice:
			r.fail(CodeParse, entry, fmt.Sprintf("given twice, before on line %d", line), "keep one of them")
			continue
		case value.Kind != yaml.ScalarNode:
			r.invalid(entry, "must be a single value, is "+kindName(value), "")
			continue
		case null(value):
			r.invalid(entry, "has no value", `write "" for a variable that is empty, or remove the entry`)
			continue
		}
		first[name.Value] = entry.line
		vars[name.Value] = value.Value
		from, isReference := reference(value.Value)
		if !isReference {
			continue
		}
		own, set := r.env.lookup(from)
		if !set {
			r.invalid(entry, "the environment variable "+from+" is not set", "")
		}
		vars[name.Value] = own
	}
	return vars, true
}
