package workflow

import (
	"cmp"
	"path/filepath"
	"slices"

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
	if own.others()[0] == set.Kind { // the one that the keys of agent are about
		set.Command = cmp.Or(set.Command, own.Command)
		set.Model = cmp.Or(set.Model, own.Model)
		set.Effort = cmp.Or(set.Effort, own.Effort)
	}
	set.Home = filepath.Join(r.env.Home, kind.home)
	set.Command = cmp.Or(set.Command, kind.command)
	if set.Command == "" {
		r.invalid(at, "acp needs a command", "write the command that starts the agent")
	}
	if set.Model == "" && kind.needsModel {
		r.invalid(
			at,
			kind.name+" needs a model, because it would choose one itself, perhaps of another provider",
			"write for instance model: anthropic/claude-opus-5",
		)
	}
	return []AgentChoice{set}
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
