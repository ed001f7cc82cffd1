package workflow

import (
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/internal/allowlist"
	"github.com/symphony-cron/symphony/internal/text"
)

// network is the value of agent.network: all of it, or some hosts.
type network struct {
	open  *bool
	allow *[]string
}

// network reads true, false, or the hosts that are allowed.
func (r *values) network(k Key, f field) (open bool, allow []string, ok bool) {
	if f.node != nil && isHost().MatchString(f.node.Value) {
		r.wrong(k, f, r.hostsHint([]string{f.node.Value}))
		return false, nil, false
	}
	if f.node == nil || f.node.Kind == yaml.ScalarNode {
		open, ok = r.boolean(k, f)
		return open, nil, ok
	}
	if f.node.Kind == yaml.SequenceNode {
		hosts := text.Map(f.node.Content, func(host *yaml.Node) string { return host.Value })
		r.wrong(k, f, r.hostsHint(hosts))
		return false, nil, false
	}
	if f.node.Kind != yaml.MappingNode {
		r.wrong(k, f, r.hostsHint([]string{"github.com"}))
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

// isHost matches the name of a host with a dot, such as github.com.
var isHost = text.Pattern(`^[\w-]+(\.[\w-]+)+$`)

// hostsHint says how hosts are allowed. Codex's own sandbox, which is the default, can't do that.
func (r *values) hostsHint(hosts []string) string {
	hint := "write {allow: [" + strings.Join(hosts, ", ") + "]}"
	kind := r.fields["agent.kind"].node
	box := r.fields["agent.sandbox"].node
	isCodex := kind == nil || kind.Value == DefaultAgent
	if isCodex && (box == nil || box.Value != sandboxBwrap) {
		hint += " and agent.sandbox: bwrap"
	}
	return hint
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
