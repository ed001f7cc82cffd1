package workflow

import (
	"encoding/json"

	"github.com/symphony-cron/symphony/internal/text"
)

// Naming is how the value of a key names files that a pass or a run reads, runs or writes.
// Every such key must say so in the table of keys: agents beside the project must not change
// these files.
type Naming int

const (
	NamesNothing    Naming = iota
	NamesPaths             // a path or several, absolute once the file is parsed
	NamesHome              // a path that may begin with ~
	NamesScript            // a shell script, which runs in a workspace
	NamesHomeScript        // a shell script, which runs in the home directory
	NamesProgram           // a program and its arguments, which runs in the folder of WORKFLOW.md
	NamesRepository        // an address of git
	NamesWritable          // directories that agents of issues write
)

// naming says that the value of the key names files.
func (k Key) naming(how Naming) Key {
	k.names = how
	return k
}

// Names is how the value of the key names files.
func (k Key) Names() Naming { return k.names }

// Named is the value of a key that names files.
type Named struct {
	Key    string
	Names  Naming
	Values []string
}

// Named returns the values that name files, in the order of the table of keys. A list is
// several values.
func (c *Config) Named() []Named {
	var list []Named
	for _, k := range keys(c) {
		if k.names == NamesNothing {
			continue
		}
		if commands := k.commands(c); len(commands) > 0 {
			list = append(list, Named{Key: k.Name, Names: NamesScript, Values: commands})
		}
		values := k.named(c)
		if len(values) > 0 {
			list = append(list, Named{Key: k.Name, Names: k.names, Values: values})
		}
	}
	return list
}

// commands returns the commands in the entries of a list, which start agents in a workspace.
func (k Key) commands(c *Config) (list []string) {
	switch k.Name {
	case "agent.by_label":
		list = text.Map(c.Agent.ByLabel, func(row LabelRow) string { return row.Command })
	case "agent.fallback":
		list = text.Map(c.Agent.Fallback, func(a AgentChoice) string { return a.Command })
	}
	return text.Filter(list, func(command string) bool { return command != "" })
}

// named returns the values of a key in a configuration.
func (k Key) named(c *Config) []string {
	if k.Name == "workspace.root" { // its default depends on the machine
		return []string{c.Workspace.Root}
	}
	if k.Name == "agent.by_label" {
		var roots []string
		for _, row := range c.Agent.ByLabel {
			roots = append(roots, rootsOf(row.Sandbox)...)
		}
		return roots
	}
	switch value := k.to.(type) {
	case *string:
		if *value == "" {
			return nil
		}
		return []string{*value}
	case *[]string:
		return *value
	case *json.RawMessage: // a sandbox policy
		return rootsOf(*value)
	}
	return nil
}

// rootsOf returns the writable roots of a sandbox policy.
func rootsOf(policy json.RawMessage) []string {
	var known struct {
		WritableRoots []string `json:"writableRoots"`
	}
	if json.Unmarshal(policy, &known) != nil {
		return nil // there is none, or the agent refuses it
	}
	return known.WritableRoots
}
