package workflow

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/internal/text"
)

// LabelRow is an entry of agent.by_label. It applies to issues with its label; settings that
// it leaves out stay as in the other keys.
type LabelRow struct {
	Label    string          `json:"label"`             // in lower case
	Kind     string          `json:"kind,omitempty"`    // in place of agent.kind
	Command  string          `json:"command,omitempty"` // of that kind
	Model    string          `json:"model,omitempty"`
	Effort   string          `json:"effort,omitempty"`
	MaxTurns int             `json:"max_turns,omitempty"`
	Sandbox  json.RawMessage `json:"sandbox,omitempty"` // in place of the turns' sandbox policy

	agents []AgentChoice // of Kind
}

// String lists the settings of the row.
func (l LabelRow) String() string {
	line := l.Label + ":"
	turns := strings.TrimPrefix(strconv.Itoa(l.MaxTurns), "0")
	for _, set := range [][2]string{
		{"kind", l.Kind},
		{"command", l.Command},
		{"model", l.Model},
		{"effort", l.Effort},
		{"max_turns", turns},
		{"sandbox", string(l.Sandbox)},
	} {
		if set[1] != "" {
			line += " " + set[0] + " " + set[1]
		}
	}
	return line
}

// RowFor returns the first row of agent.by_label whose label is among the labels of an issue,
// nil if there is none.
func (a *Agent) RowFor(labels []string) *LabelRow {
	i := slices.IndexFunc(a.ByLabel, func(row LabelRow) bool { return slices.Contains(labels, row.Label) })
	if i < 0 {
		return nil
	}
	return &a.ByLabel[i]
}

// ForIssue returns the configuration for an issue with these labels and the first of its
// agents. A model that is not empty replaces the model of the file.
func (c *Config) ForIssue(labels []string, model string) *Config {
	first := c.AgentsFor(labels)[0]
	first.Model = cmp.Or(model, first.Model)
	return c.ForIssueBy(first, labels)
}

// ForIssueBy returns the configuration for an issue with these labels and one of its agents.
func (c *Config) ForIssueBy(a AgentChoice, labels []string) *Config {
	own := c.withAgent(a)
	row := c.Agent.RowFor(labels)
	if row == nil {
		return own
	}
	own.Chosen.MaxTurns = cmp.Or(row.MaxTurns, own.Chosen.MaxTurns)
	if row.Sandbox != nil {
		own.Chosen.TurnSandboxPolicy = row.Sandbox
	}
	return own
}

const labelsHint = "write for instance [{label: hard, model: gpt-5.5, effort: high, max_turns: 40}]"

// byLabel reads agent.by_label.
func (r *reader) byLabel(f field) {
	if f.node == nil {
		return
	}
	if f.node.Kind != yaml.SequenceNode {
		r.wrong(Key{Type: typeLabels}, f, labelsHint)
		return
	}
	for i, node := range f.node.Content {
		at := r.item(f, i)
		var entries map[string]yaml.Node
		if deref(node).Decode(&entries) != nil {
			r.invalid(at, "an entry must be a map without repeated keys", labelsHint)
			continue
		}
		row := r.labelRow(at, entries)
		row.Label = strings.ToLower(row.Label)
		if row.Label == "" {
			r.invalid(at, "an entry has no label", labelsHint)
		}
		r.cfg.Agent.ByLabel = append(r.cfg.Agent.ByLabel, row)
	}
}

// refuseWiderRows refuses rows with a wider sandbox than the other keys give: whoever sets a label,
// an agent with a tool for labels included, would give an agent more than the workflow does.
func (r *reader) refuseWiderRows() {
	at := r.field("agent.by_label")
	for i, row := range r.cfg.Agent.ByLabel {
		if row.Kind != "" && !r.cfg.sandboxed(row.Kind) && r.cfg.sandboxed(r.cfg.Agent.Kind) {
			f := r.item(at, i)
			f.key += ".kind"
			r.invalid(
				f,
				"the label "+row.Label+" would let an agent leave the sandbox; agents can have tools that change labels",
				"choose that kind by agent.kind or agent.fallback, for all issues",
			)
		}
		if row.Sandbox == nil {
			continue
		}
		if more := r.cfg.widens(row.Sandbox); more != "" {
			f := r.item(at, i)
			f.key += ".sandbox"
			r.invalid(
				f,
				fmt.Sprintf(
					"the label %s would let an agent %s; agents can have tools that change labels",
					row.Label,
					more,
				),
				"let the sandbox of a row only take rights away, as {type: readOnly} does; "+
					policyKey+" gives rights, for all issues",
			)
		}
	}
}

func (r *reader) labelRow(at field, entries map[string]yaml.Node) (row LabelRow) {
	r.entry(at, entries, labelsHint, []Key{
		key("label", typeString, "", &row.Label, ""),
		key("kind", "", "", &row.Kind, "").oneOf(AgentKinds()...),
		key("command", "shell command", "", &row.Command, ""),
		key("model", typeString, "", &row.Model, "").then((*reader).word),
		key("effort", typeString, "", &row.Effort, "").then((*reader).word),
		key("max_turns", typeInteger, "", &row.MaxTurns, "").atLeast(1),
		key("sandbox", typeOfAgent, "", &row.Sandbox, "").then((*reader).checkPolicy),
	})
	if row.Command != "" && row.Kind == "" {
		r.invalid(at, "an entry has a command, and no kind", "write the kind of the agent, too: {label: hard, kind: acp, …}")
	}
	if row.Sandbox != nil && row.Sandbox[0] != '{' {
		row.Sandbox = nil // checkPolicy refused it
	}
	return row
}

// entry reads the keys of an entry of a list. It returns false if a value is invalid or a key
// is unknown, which is reported.
func (r *reader) entry(at field, entries map[string]yaml.Node, hint string, keys []Key) bool {
	ok := true
	for _, k := range keys {
		node, given := entries[k.Name]
		delete(entries, k.Name)
		f := field{key: at.key + "." + k.Name, line: at.line, node: deref(&node)}
		if !given || null(f.node) {
			continue
		}
		if !r.value(k, f) {
			ok = false
			continue
		}
		if k.after != nil {
			k.after(r, f)
		}
	}
	known := text.Map(keys, func(k Key) string { return k.Name })
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		ok = false
		if r.refuseRemoved(field{key: at.key + "." + name, line: at.line}) {
			continue
		}
		r.invalid(at, "an entry has the unknown key "+name+"; it may have "+listed(known), hint)
	}
	return ok
}
