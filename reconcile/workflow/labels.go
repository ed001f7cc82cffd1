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
)

// LabelRow is an entry of agent.by_label. It applies to issues with its label; what it leaves out stays as in the other keys.
type LabelRow struct {
	Label    string          `json:"label"` // in lower case
	Model    string          `json:"model,omitempty"`
	Effort   string          `json:"effort,omitempty"`
	MaxTurns int             `json:"max_turns,omitempty"`
	Sandbox  json.RawMessage `json:"sandbox,omitempty"` // in place of codex.turn_sandbox_policy
}

// String lists what the row sets.
func (l LabelRow) String() string {
	line, turns := l.Label+":", strings.TrimPrefix(strconv.Itoa(l.MaxTurns), "0")
	for _, set := range [][2]string{{"model", l.Model}, {"effort", l.Effort}, {"max_turns", turns}, {"sandbox", string(l.Sandbox)}} {
		if set[1] != "" {
			line += " " + set[0] + " " + set[1]
		}
	}
	return line
}

// RowFor returns the first row of agent.by_label whose label is among those of an issue, nil if there is none.
func (a *Agent) RowFor(labels []string) *LabelRow {
	i := slices.IndexFunc(a.ByLabel, func(row LabelRow) bool { return slices.Contains(labels, row.Label) })
	if i < 0 {
		return nil
	}
	return &a.ByLabel[i]
}

// ForIssue returns the configuration for an issue with these labels. A model that is not empty replaces that of the file.
func (c *Config) ForIssue(labels []string, model string) *Config {
	own := *c
	if row := c.Agent.RowFor(labels); row != nil {
		own.Codex.Model, own.Codex.Effort = cmp.Or(row.Model, c.Codex.Model), cmp.Or(row.Effort, c.Codex.Effort)
		own.Agent.MaxTurns = cmp.Or(row.MaxTurns, c.Agent.MaxTurns)
		if row.Sandbox != nil {
			own.Codex.TurnSandboxPolicy = row.Sandbox
		}
	}
	own.Codex.Model = cmp.Or(model, own.Codex.Model)
	return &own
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
		if row.Label = strings.ToLower(row.Label); row.Label == "" {
			r.invalid(at, "an entry has no label", labelsHint)
		}
		r.cfg.Agent.ByLabel = append(r.cfg.Agent.ByLabel, row)
	}
}

// narrowByLabel refuses rows with a wider sandbox than that of the other keys: an agent may have a tool that changes labels.
func (r *reader) narrowByLabel() {
	at := r.field("agent.by_label")
	for i, row := range r.cfg.Agent.ByLabel {
		if row.Sandbox == nil {
			continue
		}
		if more := r.cfg.widens(row.Sandbox); more != "" {
			f := r.item(at, i)
			f.key += ".sandbox"
			r.invalid(f, fmt.Sprintf("the label %s would let an agent %s; agents can have tools that change labels", row.Label, more),
				"let the sandbox of a row only take rights away, as {type: readOnly} does; give more to all issues, or to a project of its own")
		}
	}
}

func (r *reader) labelRow(at field, entries map[string]yaml.Node) (row LabelRow) {
	for _, k := range []Key{
		key("label", typeString, "", &row.Label, ""), key("model", typeString, "", &row.Model, "").then((*reader).word),
		key("effort", typeString, "", &row.Effort, "").then((*reader).word), key("max_turns", typeInteger, "", &row.MaxTurns, "").atLeast(1),
		key("sandbox", typeCodex, "", &row.Sandbox, "").then((*reader).turnSandboxPolicy),
	} {
		node, given := entries[k.Name]
		delete(entries, k.Name)
		f := field{key: at.key + "." + k.Name, line: at.line, node: deref(&node)}
		if given && !null(f.node) && r.value(k, f) && k.after != nil {
			k.after(r, f)
		}
	}
	if row.Sandbox != nil && row.Sandbox[0] != '{' {
		row.Sandbox = nil // turnSandboxPolicy has refused it
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		r.invalid(at, "an entry has the unknown key "+name, labelsHint)
	}
	return row
}
