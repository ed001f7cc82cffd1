package workflow

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
)

// hintAbout returns the message about a key that a workflow with a tracker of some kind has.
func hintAbout(t *testing.T, front, key string) string {
	t.Helper()
	parts := strings.Split(key, ".")
	if rest, below := strings.CutPrefix(key, "tracker."); below && strings.HasPrefix(front, "tracker:\n") {
		front += "  " + rest + ": zebra\n"
		parts = nil
	}
	for i, part := range parts {
		value := ""
		if i == len(parts)-1 {
			value = " zebra"
		}
		front += strings.Repeat("  ", i) + part + ":" + value + "\n"
	}
	cfg, err := Parse(source(t, "---\n"+front+"---\nDo it.\n"), testEnv())
	for _, f := range Faults(err) {
		if strings.Contains(f.Message, key+":") {
			return f.Message + " / " + f.Hint
		}
	}
	if cfg == nil {
		return ""
	}
	for _, w := range cfg.Warnings {
		if strings.Contains(w.String(), key+":") {
			return w.String()
		}
	}
	return ""
}

const linearFront = "tracker: {kind: linear, project_slug: demo-0123456789ab}\nobservability: {refresh_ms: 1000}\n"

// Each name of another program gets the key, or the sentence, of its row.
func TestOtherKeys(t *testing.T) {
	names := text.Map(Keys(), func(k Key) string { return k.Name })
	for _, row := range otherKeys {
		test.Equal(t, row.meant+" is a sentence, or a key", isSentence(row.meant) || slices.Contains(names, row.meant), true)
		for word := range strings.FieldsSeq(row.words) {
			key := word
			if strings.HasPrefix(word, "tracker.") || strings.HasPrefix(row.meant, "tracker.provider.") {
				continue // in TestOtherKeysOfTrackers
			}
			got := hintAbout(t, linearFront, key)
			known := slices.ContainsFunc(otherKeysFor(word), func(meant string) bool {
				return strings.HasSuffix(got, "; "+meant) || strings.HasSuffix(got, "did you mean "+meant+"?") ||
					strings.Contains(got, "write "+meant+": zebra instead") ||
					strings.Contains(got, "write "+meant+": [zebra] instead") ||
					strings.Contains(got, "write "+meant+" instead")
			})
			if !known {
				t.Errorf("%s: the message is %q, want %q", key, got, otherKeysFor(word))
			}
		}
	}
}

// Keys of the tracker are those of its kind.
func TestOtherKeysOfTrackers(t *testing.T) {
	github := "tracker:\n  kind: github\n"
	gitlab := "tracker:\n  kind: gitlab\n"
	linear := "tracker:\n  kind: linear\n"
	jira := "tracker:\n  kind: jira\n"
	command := "tracker:\n  kind: command\n"
	file := "tracker: {kind: file, provider: {path: issues}}\n"
	for _, c := range []struct{ front, key, want string }{
		{file, "issues_dir", "tracker.provider.path"},
		{github, "tracker.repo", "tracker.provider.repo"},
		{github, "tracker.project", "tracker.provider.repo"},
		{gitlab, "tracker.project", "tracker.provider.repo"},
		{linear, "tracker.type", "tracker.kind"},
		{linear, "tracker.token", "tracker.api_key"},
		{linear, "tracker.base_url", "tracker.endpoint"},
		{linear, "tracker.admins", "tracker.operators"},
		{github, "tracker.label", "write tracker.required_labels: [zebra] instead"},
		{github, "tracker.provider.labels", "write tracker.required_labels: [zebra] instead"},
		{github, "tracker.done_state", "write tracker.terminal_states: [zebra] instead"},
		{github, "tracker.provider.host", "tracker.endpoint"},
		{github, "tracker.blocked_state", "handoff.blocked_state?"},
		{github, "tracker.merged_state", "feedback.merged_state?"},
		{github, "tracker.state", "handoff.state: zebra if issues wait in it for your review"},
		{github, "tracker.author", "symphony chooses issues by"},
		{github, "tracker.email", "tracker.api_key alone"},
		{jira, "tracker.username", "tracker.provider.email"},
		{linear, "tracker.workspace", "belongs to one workspace or account: leave it out"},
		{github, "tracker.org", "tracker.provider.repo"},
		{command, "tracker.command", "tracker.provider.command"},
		{github, "tracker.board", "tracker.provider.project"},
		{github, "tracker.provider.include_pull_requests", "no agent starts on one"},
		{github, "tracker.provider.private_key", "with a token, in tracker.api_key"},
		{linear, "tracker.key_file", "belongs into the environment file"},
		{github, "tracker.webhook_secret", "takes no webhooks"},
		{github, "tracker.provider.branch", "repository.base"},
		{github, "tracker.close_on_merge", "feedback.merged_state"},
		{github, "tracker.comment_on_start", "agents comment with the tool of the tracker"},
	} {
		test.Contains(t, c.key, hintAbout(t, c.front, c.key), c.want)
	}
}

// The value tells the address of a board from the name of a repository.
func TestKeyOfBoard(t *testing.T) {
	const board = "https://github.com/orgs/acme/projects/4"
	for _, key := range []string{"project", "board", "project_url"} {
		front := "tracker:\n  kind: github\n  provider: {repo: acme/web}\n  " + key + ": " + board
		got := describe([]byte("---\n" + front + "\n---\nDo it.\n"))
		isNamed := strings.Contains(got, "did you mean tracker.provider.project?") ||
			strings.Contains(got, "write tracker.provider.project: "+board+" instead")
		if !isNamed {
			t.Errorf("%s: the message is\n%s", key, got)
		}
	}
}

// A key is found in each of the forms in which people write it.
func TestFormsOfKeys(t *testing.T) {
	for key, want := range map[string]string{
		"agent.timeout":             "no key limits the time of a run",
		"agent.maxRuntime":          "no key limits the time of a run",
		"agent.max-runtime-minutes": "no key limits the time of a run",
		"timeout-minutes":           "no key limits the time of a run",
		"agent.maxConcurrency":      "agent.max_concurrent_agents?",
		"max_parallel_agents":       "agent.max_concurrent_agents?",
		"agent.concurrency_limit":   "agent.max_concurrent_agents?",
		"agent.maxConcurrentAgents": "agent.max_concurrent_agents?",
		"agent.daily_cost_limit":    "agent.budget_per_day?",
		"polling.intervalSeconds":   "polling.interval_ms?",
		"hooks.timeout":             "hooks.timeout_ms?",
		"hooks.timeout_seconds":     "hooks.timeout_ms?",
		"verify.timeout":            "verify.timeout_ms?",
		"agent.max_tunrs":           "agent.max_turns?",
		"agent.retry_backoff":       "agent.max_retry_backoff_ms?",
		"agent.stall_timeout":       "codex.stall_timeout_ms?",
		"agent.turn_timeout":        "codex.turn_timeout_ms?",
		"repository.our_token":      "repository.token?",
		"codex.sandbox":             "codex.turn_sandbox_policy: {type: readOnly}",
		"hook":                      "hooks?",
		"workspace.zebra":           "workspace has root, keep_removed_ms and min_free_bytes",
		"zebra":                     "the sections are tracker, ",
		"polling.zebra":             "polling has only interval_ms",
		"agent.max_minutes":         "no key limits the time of a run",
		"handoff.zebra":             "handoff has state and blocked_state",
		"merge.state":               "feedback.merged_state",
		"repository.pull_request":   "write repository.deliver: pull-request",
		"repository.draft":          "symphony opens no drafts",
		"repository.fetch-depth":    "symphony clones the whole history",
		"hours":                     "symphony has no hours of work",
		"active_hours":              "symphony has no hours of work",
		"schedule":                  "symphony schedule install lets passes run by themselves",
		"cron":                      "polling.interval_ms is the time between passes",
		"agent.working_hours":       "symphony has no hours of work",
		"verify.retries":            "verify.rounds?",
		"agent.retries":             "agent.max_failures?",
		"agent.verify":              "verify.command, at the left margin?",
		"polling.cron":              "symphony schedule install",
		"polling.schedule":          "polling.interval_ms",
		"polling.enabled":           "symphony pause and symphony resume",
		"feedback.enabled":          "feedback.state switches it on",
		"handoff.enabled":           "handoff.state switches it on",
		"merge.enabled":             "merge.when?",
		"verify.enabled":            "verify.command alone switches it on",
		"repository.enabled":        "repository.url switches it on",
		"monitor.enabled":           "monitor.ping_url",
		"hooks.enabled":             "a hook runs if it is there",
		"worker.enabled":            "worker.ssh_hosts",
		"worker.engine.enabled":     "worker.engine.kind switches it on",
		"workspace.enabled":         "each issue has a clone of its own",
		"agent.enabled":             "agent.kind chooses the agent",
		"codex.enabled":             "agent.kind chooses the agent",
		"repository_token":          "repository.token?",
		"repository-token":          "repository.token?",
		"repositoryToken":           "repository.token?",
		"tracker_kind":              "tracker.kind?",
		"codex_model":               "codex.model?",
		"hooks_after_create":        "hooks.after_create?",
		"hooks_setup":               "hooks.after_create?",
		"merge_when":                "merge.when?",
		"handoff_state":             "handoff.state?",
		"worker_engine_kind":        "worker.engine.kind?",
		"tracker_active_states":     "write tracker.active_states: [zebra] instead",
		"tracker_token":             "tracker.api_key?",
		"feedback_max_rounds":       "feedback.rounds?",
		"server_port":               "server.port?",
		"server.allowed_hosts":      "symphony serve --allow-host NAME",
		"server.allowedHosts":       "symphony serve --allow-host NAME",
		"monitor_url":               "monitor.ping_url?",
		"polling_zebra":             "polling?",
		"feedback.label":            "feedback has state",
		"workspace.zebra_ms":        "workspace has root",
		"workspace.state":           "workspace has root",
		"repository.default_branch": "repository.base?",
		"repository.api_url":        "repository.api?",
		"hooks.after_handoff":       "hooks.on_attention?",
		"codex.max_tokens":          "agent.max_tokens?",
		"agent.max_tokens_per_day":  "agent.budget_per_day?",
		"monitor.state":             "monitor has only ping_url",
		"token":                     "the key of the tracker is tracker.api_key",
		"tracker_include_labels":    "write tracker.required_labels: [zebra] instead",
		"tracker_skip_labels":       "no key leaves issues out",
	} {
		test.Contains(t, fmt.Sprintf("the message about %s", key), hintAbout(t, linearFront, key), want)
	}
}

// A section that is indented below another one is refused, because all its keys would be ignored.
func TestIndentedSections(t *testing.T) {
	const left = "is a section of its own, and has no effect here / begin the line"
	for _, c := range []struct{ front, want string }{
		{"tracker:\n  kind: github\n  handoff:\n    state: Review\n", "tracker.handoff: handoff " + left + " handoff:"},
		{"agent:\n  handoff: {state: Review}\n", "agent.handoff: handoff " + left},
		{"repository:\n  url: .\n  hooks:\n    after_create: make\n", "repository.hooks: hooks " + left},
		{"agent:\n  verify: {command: make}\nverify: {rounds: 2}\n", "move its keys below verify: on line 4"},
	} {
		_, err := Parse(source(t, "---\n"+c.front+"---\nDo it.\n"), testEnv())
		var said []string
		for _, f := range Faults(err) {
			said = append(said, f.Message+" / "+f.Hint)
		}
		test.Contains(t, c.front, strings.Join(said, "\n"), c.want)
	}
}
