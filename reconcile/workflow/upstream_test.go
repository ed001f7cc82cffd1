package workflow

import (
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// The file of the reference implementation is valid as it is. Those for its other kinds are valid with
// the names of keys that are the same for all kinds. Its kinds are linear, github, gitlab, jira and asana; Asana is a program here, and the message about
// the kind says what each of its keys becomes.
func TestWorkflowsOfReference(t *testing.T) {
	const rest = `
workspace:
  root: /srv/work
agent:
  max_turns: 3
codex:
  command: env CODEX_HOME=/srv/codex codex app-server
  approval_policy: "never"
  read_timeout_ms: 60000
  turn_timeout_ms: 600000
  stall_timeout_ms: 600000
observability:
  dashboard_enabled: false
---
`
	env := envOf(map[string]string{
		"LINEAR_API_KEY":      "lin",
		"GITHUB_TOKEN":        "hub",
		"GITLAB_PAT":          "lab",
		"GITLAB_PROJECT_PATH": "acme/web/shop",
		"JIRA_BASE_URL":       "https://acme.atlassian.net",
		"JIRA_EMAIL":          "ann@example.com",
		"JIRA_API_TOKEN":      "jir",
		"ASANA_PAT":           "asa",
	})
	for name, c := range map[string]struct {
		tracker string // the lines below tracker
		prompt  string
		want    []string // kind, key, endpoint and place
		refused []string // parts of the error and its hint
	}{
		"linear": {
			tracker: `
  kind: linear
  provider:
    endpoint: https://api.linear.app/graphql
    api_key: $LINEAR_API_KEY
    project_slug: web-shop-0123456789ab
  required_labels: []
  active_states: [Todo, In Progress]
  terminal_states: [Done]`,
			want: []string{"linear", "lin", "https://api.linear.app/graphql", "web-shop-0123456789ab"},
		},
		"github": {
			tracker: `
  kind: github
  provider:
    repo: acme/shop
    endpoint: https://api.github.com
    api_key: "$GITHUB_TOKEN"
  active_states: ["open"]
  terminal_states: ["closed"]`,
			want: []string{"github", "hub", "https://api.github.com", "acme/shop"},
		},
		"gitlab": {
			tracker: `
  kind: gitlab
  provider:
    endpoint: https://git.example.com/api/v4
    repo: acme/web/shop
    api_key: "$GITLAB_PAT"
  active_states: ["opened"]
  terminal_states: ["closed"]`,
			prompt: "Close /projects/{{ issue.native_ref.project_id }}/issues/{{ issue.native_ref.iid }}, " +
				"{{ issue.native_ref.references.full }} of {{ issue.native_ref.project_path }}.",
			want: []string{"gitlab", "lab", "https://git.example.com/api/v4", "acme/web/shop"},
		},
		"gitlab by the number of the project": {
			tracker: `
  kind: gitlab
  provider:
    repo: "12345678"
    api_key: "$GITLAB_PAT"
  active_states: ["opened"]
  terminal_states: ["closed"]`,
			want: []string{"gitlab", "lab", "https://gitlab.com/api/v4", "12345678"},
		},
		"gitlab by variables": {
			tracker: `
  kind: gitlab
  active_states: ["opened"]
  terminal_states: ["closed"]`,
			want: []string{"gitlab", "lab", "https://gitlab.com/api/v4", "acme/web/shop"},
		},
		"jira": {
			tracker: `
  kind: jira
  provider:
    endpoint: "$JIRA_BASE_URL"
    email: "$JIRA_EMAIL"
    api_key: "$JIRA_API_TOKEN"
    project_key: "SHOP"
  active_states: ["To Do"]
  terminal_states: ["Done"]`,
			want: []string{"jira", "jir", "https://acme.atlassian.net", "SHOP"},
		},
		"jira by variables": {
			tracker: `
  kind: jira
  provider: {project_key: SHOP}
  active_states: ["To Do"]
  terminal_states: ["Done"]`,
			want: []string{"jira", "jir", "https://acme.atlassian.net", "SHOP"},
		},
		"asana": {
			tracker: `
  kind: asana
  provider:
    project_gid: "1201"
    endpoint: https://app.asana.com/api/1.0
    api_key: "$ASANA_PAT"
  active_states: ["Doing"]
  terminal_states: ["Done"]`,
			refused: []string{
				`"asana" is not supported`, "kind: command", "docs/trackers.md",
			},
		},
		"asana as a program": {
			tracker: `
  kind: command
  provider:
    command: [python3, asana.py]
    verbs: [tool, comment, move]
    api_key: "$ASANA_PAT"
  active_states: ["Doing"]
  terminal_states: ["Done"]`,
			want: []string{"command", "asa", "", "python3 asana.py"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			prompt := "Work on {{ issue.identifier }}, {{ issue.id }}. " + c.prompt
			src := source(t, "---\ntracker:"+c.tracker+rest+prompt+"\n")
			cfg, err := Parse(src, env)
			if c.refused != nil {
				said := strings.Join(text.Map(Faults(err), func(e *reconcile.Error) string { return e.Error() + e.Hint }), "\n")
				test.Contains(t, "the error", said, c.refused...)
				return
			}
			test.OK(t, err)
			tracker := cfg.Tracker
			got := []string{tracker.Kind, string(tracker.APIKey), tracker.Endpoint, tracker.Place}
			test.Equal(t, "kind, key, endpoint and place", got, c.want)
			for _, w := range append(cfg.Warnings, cfg.Prompt.Check()...) {
				if w.Key != "observability.dashboard_enabled" {
					t.Errorf("warning: %v", w)
				}
			}
		})
	}
}
