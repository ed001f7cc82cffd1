package workflow

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/internal/text"
)

// chooseUsual finds out which agents usually work on issues: the one of agent.kind, or those
// of agent.fallback in their order.
func (r *reader) chooseUsual() {
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
				"remove one of them; "+severalHomes,
			)
			continue
		}
		r.cfg.Agent.Fallback = append(r.cfg.Agent.Fallback, choice)
	}
}

const fallbackHint = "write for instance [" + DefaultAgent + ", claude], " +
	"or [" + DefaultAgent + ", {kind: claude, model: opus}]"

// fallbackEntry reads an entry of agent.fallback: a kind, or a map with its settings.
func (r *reader) fallbackEntry(at field, node *yaml.Node) (choice AgentChoice, ok bool) {
	kind := key("kind", "", "", &choice.Kind, "").oneOf(AgentKinds()...)
	if node.Kind == yaml.ScalarNode {
		at.node = node
		ok = r.value(kind, at) // which sets choice.Kind
		return choice, ok
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
		key("effort", typeString, "", &choice.Effort, "").then((*reader).effort),
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

// others returns the kinds besides the default. The first is the one whose command, model and effort
// are below agent.
func (a *Agent) others() []string {
	return slices.DeleteFunc(a.kinds(), func(kind string) bool { return kind == DefaultAgent })
}

// choices returns the agents of a kind with these settings in the place of the usual ones. at
// is where the file chooses the kind.
func (r *reader) choices(at field, set AgentChoice) []AgentChoice {
	own := &r.cfg.Agent
	if set.Kind == DefaultAgent {
		return r.cfg.Session.choices(set)
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

// acpCommands start agents besides those of agentKinds as a server of the protocol.
var acpCommands = []string{
	"auggie --acp", "copilot --acp", "cursor-agent acp", "goose acp", "kimi acp", "qwen --acp",
}

// checkCommands checks the commands that start agents, wherever the file names one.
func (r *reader) checkCommands() {
	own := &r.cfg.Agent
	if others := own.others(); len(others) > 0 {
		r.startsServer(r.field("agent.command"), others[0], own.Command)
	}
	for i, set := range own.Fallback {
		r.startsServer(r.item(r.field("agent.fallback"), i), set.Kind, set.Command)
	}
	for i, row := range own.ByLabel {
		r.startsServer(r.item(r.field("agent.by_label"), i), row.Kind, row.Command)
	}
}

// startsServer refuses a command that starts a known agent for people, and not as the server that
// symphony talks to.
func (r *reader) startsServer(f field, kind, command string) {
	words := strings.Fields(command)
	marker := "acp"
	if kind == DefaultAgent {
		marker = "app-server"
	}
	if kind == "" || len(words) == 0 || strings.Contains(command, marker) || strings.Contains(command, "$") {
		return
	}
	program := filepath.Base(words[0])
	kindKey := "kind"
	if strings.HasSuffix(f.key, ".command") {
		kindKey = "agent.kind"
	}
	server := AgentCommand(kind)
	asServer, isSame := strings.CutPrefix(server, program)
	named := text.First(acpCommands, func(known string) bool { return strings.HasPrefix(known, program+" ") })
	switch {
	case kind == DefaultAgent && isSame:
		r.invalid(f, "does not start codex's app-server", "write "+words[0]+asServer)
	case kind == program && strings.HasPrefix(asServer, " "):
		r.invalid(f, program+" alone does not speak ACP", "write "+words[0]+asServer)
	case kind == program:
		r.invalid(f, program+" does not speak ACP", "leave the command out: the default is "+server)
	case slices.Contains(AgentKinds(), program):
		r.invalid(f, program+" is another kind of agent", "write "+kindKey+": "+program+", without a command")
	case kind != DefaultAgent && named != "":
		r.invalid(f, program+" alone does not speak ACP", "write "+named)
	}
}

// AgentsFor returns the agents that may work on an issue with these labels, in order: each
// takes over while the accounts of those before it can't be used.
func (c *Config) AgentsFor(labels []string) []AgentChoice {
	usual := c.Agent.agents
	row := c.Agent.RowFor(labels)
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
