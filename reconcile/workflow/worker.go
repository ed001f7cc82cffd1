package workflow

import (
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/internal/sshname"
)

// hosts checks the names of the machines on which agents work.
func (r *reader) hosts(f field) {
	for i, name := range r.cfg.Policy.Hosts {
		f := r.item(f, i)
		if _, err := sshname.Parse(name); err != nil {
			r.invalid(f, err.Error(), "write an alias of ssh's configuration, or user@host:port; an IPv6 address with a port in brackets")
		} else if slices.Contains(r.cfg.Policy.Hosts[:i], name) {
			r.invalid(f, name+" is named twice", "keep one of them")
		}
	}
}

// remoteRoot completes the directory of the workspaces on the hosts.
func (r *reader) remoteRoot(f field) {
	root := &r.cfg.Policy.RemoteRoot
	if len(r.cfg.Policy.Hosts) == 0 {
		return // it has no effect
	}
	if *root == "" {
		*root = "~/symphony_workspaces"
		if local := r.field("workspace.root").node; local != nil {
			*root = r.cfg.Workspace.Root
			if text := strings.TrimSpace(local.Value); local.Kind == yaml.ScalarNode && inHome(text) {
				*root = text
			}
		}
	}
	if !inHome(*root) && !filepath.IsAbs(*root) {
		r.invalid(f, "not an absolute path", "begin it with / or ~/")
	}
}

func inHome(path string) bool { return strings.HasPrefix(path, "~/") && len(path) > 2 }

// onHosts refuses what does not work on other machines yet, and warns about what has no effect.
func (r *reader) onHosts() {
	c := r.cfg
	if len(c.Policy.Hosts) == 0 {
		for _, key := range []string{"worker.max_concurrent_agents_per_host", "worker.root", "worker.lost_after_ms", "worker.when_lost"} {
			r.warnKey(key, "no effect without worker.ssh_hosts")
		}
		return
	}
	r.warnKey("workspace.min_free_bytes", "no effect with worker.ssh_hosts")
	for _, unbuilt := range []struct {
		key string
		set bool
		do  string
	}{
		{"codex.home", c.Codex.Home != "", "set CODEX_HOME in the environment of the account on each host"},
		{"codex.inherit", c.Codex.Inherit, "remove the key"},
	} {
		if unbuilt.set {
			r.fail(CodeUnsupportedKey, r.field(unbuilt.key), "not built yet for worker.ssh_hosts", unbuilt.do)
		}
	}
}
