package workflow

import "slices"

// specified are the keys of the specification (6.4). Later versions have those of Linear also
// below tracker.provider.
var specified = []string{
	"tracker.kind",
	"tracker.endpoint",
	"tracker.api_key",
	"tracker.project_slug",
	"tracker.active_states",
	"tracker.terminal_states",
	"tracker.provider.endpoint",
	"tracker.provider.api_key",
	"tracker.provider.project_slug",
	"polling.interval_ms",
	"workspace.root",
	"worker.ssh_hosts",
	"worker.max_concurrent_agents_per_host",
	"hooks.after_create",
	"hooks.before_run",
	"hooks.after_run",
	"hooks.before_remove",
	"hooks.timeout_ms",
	"agent.max_concurrent_agents",
	"agent.max_concurrent_agents_by_state",
	"agent.max_retry_backoff_ms",
	"agent.max_turns",
	"codex.command",
	"codex.approval_policy",
	"codex.thread_sandbox",
	"codex.turn_sandbox_policy",
	"codex.turn_timeout_ms",
	"codex.read_timeout_ms",
	"codex.stall_timeout_ms",
	"server.port",
}

// OnlySpecified reports whether the workflow is for Linear and has no key but those of the
// specification. Such a workflow may have been written for another implementation, and Linear
// gets only the requests that the specification names.
func (c *Config) OnlySpecified() bool {
	if c.Tracker.Kind != "linear" || c.Policy.Assignee != "" {
		return false
	}
	isOurs := func(k Key) bool {
		_, given := c.Lines[k.Name]
		return given && !slices.Contains(specified, k.Name)
	}
	return !slices.ContainsFunc(Keys(), isOurs)
}
