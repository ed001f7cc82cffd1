package workflow

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

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
	// where it keeps its login, below the home directory of the account
	home string
	// without agent.model it would take any
	needsModel bool
	// it does not report the tokens of a turn
	countsNoTokens bool
}

var agentKinds = []agentKind{
	{name: agentClaude, command: "claude-agent-acp", home: ".claude"},
	{name: agentOpenCode, command: "opencode acp", home: ".local/share/opencode", needsModel: true, countsNoTokens: true},
	{name: agentGemini, command: "gemini --acp", home: ".gemini"},
	{name: agentACP, home: ".config/acp"},
}

// kindNamed returns a kind besides codex, false for others.
func kindNamed(name string) (kind agentKind, found bool) {
	at := slices.IndexFunc(agentKinds, func(k agentKind) bool { return k.name == name })
	if at < 0 {
		return kind, false
	}
	return agentKinds[at], true
}

// AgentCommand returns the command that starts a kind of agent by default, such as
// "opencode acp"; "" for a kind whose command the workflow must name.
func AgentCommand(kind string) string {
	if kind == AgentCodex {
		return codexCommand
	}
	k, _ := kindNamed(kind)
	return k.command
}

// NeedsModel reports whether a kind of agent works only with agent.model.
func NeedsModel(kind string) bool {
	k, _ := kindNamed(kind)
	return k.needsModel
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
	"codex.approval_policy", "codex.thread_sandbox", "codex.turn_sandbox_policy", "agent.network",
	"agent.writable_roots", "agent.pass_env", "agent.trust_repository", "agent.on_question",
}

// ofOthers are the keys that only other kinds of agents have.
var ofOthers = []string{"agent.command", "agent.model", "agent.effort", "agent.env", "agent.trust"}

// agentKind checks the keys of the agent's kind. For a kind besides codex it puts what these
// say in the place of the keys of codex, and refuses what that kind does not have yet.
func (r *reader) agentKind() {
	name := r.cfg.Agent.Kind
	if name == AgentCodex {
		r.onlyCodex()
		return
	}
	kind, found := kindNamed(name)
	if !found {
		return // it was refused
	}
	for _, key := range ofCodex {
		r.warnKey(key, "no effect with agent.kind: "+name)
	}
	if kind.countsNoTokens {
		for _, key := range []string{"agent.max_tokens", "agent.budget_per_day"} {
			r.warnKey(key, "no effect with agent.kind: "+name+", which does not report its tokens")
		}
	}
	r.noSandbox(kind)
	r.notYet(kind)
	own := &r.cfg.Agent
	codex := &r.cfg.Codex
	codex.Command = own.Command
	switch {
	case own.Command == "" && kind.command == "":
		r.invalid(r.field("agent.kind"), "acp needs agent.command", "write the command that starts the agent")
	case own.Command == "":
		codex.Command = kind.command
	}
	if own.Model == "" && kind.needsModel {
		r.invalid(
			r.field("agent.kind"),
			name+" needs agent.model, because it would choose a model itself, perhaps of another provider",
			"write for instance agent.model: anthropic/claude-opus-5",
		)
	}
	codex.Model = own.Model
	codex.Effort = own.Effort
	codex.TrustLauncher = true // without a sandbox there is nothing to get out of
	codex.Inherit = true
	codex.Home = filepath.Join(r.env.Home, kind.home)
	codex.ThreadSandbox = ""
	codex.TurnSandboxPolicy = noSandboxPolicy
	own.Network = true
	own.WritableRoots = nil
	own.PassEnv = nil
	own.TrustRepository = false
	own.OnQuestion = Fail
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
	switch r.cfg.Agent.Sandbox {
	case "", sandboxCodex:
	case sandboxBwrap:
		r.fail(CodeUnsupportedKey, r.field("agent.sandbox"), "bwrap is not built yet", "remove the key")
	default:
		r.invalid(
			r.field("agent.sandbox"),
			"with agent.kind: codex, codex.turn_sandbox_policy says it",
			"remove the key, or write codex.turn_sandbox_policy: {type: dangerFullAccess}",
		)
	}
}

// noSandbox refuses an agent without a sandbox, unless the operator trusts it.
func (r *reader) noSandbox(kind agentKind) {
	f := r.field("agent.sandbox")
	if f.node == nil {
		f = r.field("agent.kind")
	}
	const trust = "if you trust the agent with everything that this account can do, " +
		"write agent.sandbox: none and agent.trust: true"
	switch r.cfg.Agent.Sandbox {
	case "":
		r.fail(CodeUnsupportedKey, f, "agent.sandbox: bwrap, the default of "+kind.name+", is not built yet", trust)
	case sandboxBwrap:
		r.fail(CodeUnsupportedKey, f, "bwrap is not built yet", trust)
	case sandboxCodex:
		r.invalid(f, "codex's sandbox is only for agent.kind: codex", trust)
	case sandboxNone:
		if !r.cfg.Agent.Trust {
			r.invalid(f, "none needs agent.trust: true, because the agent can do whatever this account can", trust)
		}
	}
}

// notYet refuses the keys that need more than other kinds of agents have so far.
func (r *reader) notYet(kind agentKind) {
	const without = "remove the key, or use agent.kind: codex"
	refuse := func(f field) {
		r.fail(CodeUnsupportedKey, f, "not built yet with agent.kind: "+kind.name, without)
	}
	for _, key := range []string{"worker.ssh_hosts", "worker.engine.kind"} {
		if f := r.field(key); f.node != nil {
			refuse(f)
		}
	}
	for _, row := range r.cfg.Agent.ByLabel {
		if row.Sandbox != nil {
			r.fail(
				CodeUnsupportedKey,
				r.field("agent.by_label"),
				"the sandbox of "+strconv.Quote(row.Label)+" is not built yet with agent.kind: "+kind.name,
				without,
			)
		}
	}
}

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
