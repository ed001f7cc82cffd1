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
		r.wrong(k, f, "write for instance {allow: [github.com]}")
		return false, nil, false
	}
	allow = []string{}
	ok = r.options(f, map[string]func(field) bool{"allow": func(hosts field) (isRead bool) {
		allow, isRead = r.list(Key{Type: typeStrings}, hosts)
		if isRead {
			r.checkAllowed(hosts, allow)
		}
		return isRead
	}})
	return false, allow, ok
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
