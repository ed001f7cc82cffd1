package workflow

import (
	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/internal/allowlist"
)

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
		r.checkAllowed(entry, allow)
	}
	return false, allow, true
}

// checkAllowed checks the hosts that agent.network allows.
func (r *values) checkAllowed(f field, hosts []string) {
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
