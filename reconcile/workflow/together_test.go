package workflow

import (
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// What is said about keys that depend on each other names the key and the kind of agent that it
// is about, and nothing is said about a key that has an effect.
func TestKeysTogether(t *testing.T) {
	for name, c := range map[string]struct {
		file string // below the tracker
		want string // parts of what is said, in order, each on a line
	}{
		"the model of codex says nothing about the provider of OpenCode": {
			file: `
agent:
  key: $TEAM_KEY
  network: {allow: [example.com]}
  by_label:
    - {label: hard, kind: opencode, model: anthropic/claude-opus-5}
    - {label: quick, model: gpt-5.5}
`,
			want: "agent.network: codex's own sandbox can't allow single hosts",
		},
		"the sandbox of a row is refused for the kind of that row": {
			file: `
agent:
  by_label:
    - {label: docs, kind: claude}
    - {label: hard, kind: gemini, sandbox: {type: readOnly}}
`,
			want: `:6: agent.by_label: the sandbox of "hard" is not built yet with agent.kind: gemini`,
		},
		"no host is needed without hosts": {
			file: `
agent: {kind: claude}
worker: {ssh_hosts: [], engine: {kind: ssh}}
`,
		},
		"hosts are allowed once": {
			file: `
agent:
  kind: claude
  network:
    allow: [github.com]
    allow: [example.com]
`,
			want: ":7: agent.network.allow: given twice",
		},
		"another agent obeys what the policy of codex replaces": {
			file: `
agent: {fallback: [codex, claude], network: true, writable_roots: [/srv/cache]}
codex: {turn_sandbox_policy: {type: readOnly}}
`,
		},
		"codex alone obeys its policy": {
			file: `
agent: {network: true}
codex: {turn_sandbox_policy: {type: readOnly}}
`,
			want: "agent.network: no effect: codex.turn_sandbox_policy replaces it",
		},
		"nothing is handed over": {
			file: `
handoff: {blocked_state: Stuck}
verify: {rounds: 2}
feedback: {rounds: 5}
merge: {method: rebase}
`,
			want: `handoff.blocked_state: no effect without handoff.state
verify: no effect without verify.command
feedback.rounds: no effect without feedback.state
merge.method: no effect without merge.when`,
		},
		"the name of branches is no template": {
			file: `
repository: {url: /srv/shop, branch: "{% if issue %}"}
`,
			want: ":3: repository.branch: unterminated",
		},
		"the state of a blocked agent is active": {
			file: `
handoff:
  state: Human Review
  blocked_state: Todo
`,
			want: `:5: handoff.blocked_state: "Todo" is one of tracker.active_states`,
		},
		"a variable that would be taken from agent.env again": {
			file: `
repository: {url: /srv/shop, token: $TEAM_KEY}
agent:
  kind: claude
  env:
    TEAM_KEY: of the agent
    OTHER: $TEAM_KEY
    NAME: $NAME
`,
			want: `:7: agent.env.TEAM_KEY: no agent gets a variable of this name
:8: agent.env.OTHER: contains a secret of symphony`,
		},
		"what no agent gets": {
			file: `
agent: {kind: claude, key: $TEAM_KEY, pass_env: [TEAM_KEY, OTEL_EXPORTER_OTLP_HEADERS]}
`,
			want: `agent.pass_env: TEAM_KEY contains a secret of symphony
agent.pass_env: OTEL_EXPORTER_OTLP_HEADERS contains a secret of symphony`,
		},
	} {
		said := saidAbout(t, "---\ntracker: {kind: file, provider: {path: issues}}\n"+
			strings.TrimPrefix(c.file, "\n")+"---\nGo.\n")
		var want []string
		if c.want != "" {
			want = strings.Split(c.want, "\n")
		}
		matches := len(said) == len(want)
		for i := range min(len(said), len(want)) {
			matches = matches && strings.Contains(said[i], want[i])
		}
		if !matches {
			t.Errorf("%s: %q, want %q", name, said, want)
		}
	}
}

// saidAbout returns the errors and warnings about a file.
func saidAbout(t *testing.T, file string) []string {
	t.Helper()
	cfg, err := Parse(source(t, file), testEnv())
	faults := text.Map(Faults(err), func(e *reconcile.Error) string { return e.Message })
	return append(faults, text.Map(cfg.Warnings, Warning.String)...)
}

// The columns and labels that no issue has are reported at the key that names them.
func TestStateThatNoIssueHas(t *testing.T) {
	said := saidAbout(t, `---
tracker: {kind: github, provider: {repo: acme/shop, state_labels: [review]}}
handoff:
  state: review
  blocked_state: stuck
---
Go.
`)
	test.Equal(t, "number of warnings", len(said), 1)
	test.Contains(t, "the warning", said[0], `:5: handoff.blocked_state: no issue has the state "stuck"`)
}

// The order of repositories, and the case of their names, make no other project: its claims and
// workspaces would be foreign.
func TestSameRepositories(t *testing.T) {
	identity := func(repos string) string {
		file := "---\ntracker: {kind: github, provider: {repos: " + repos + "}}\n---\nGo.\n"
		return test.Must(Parse(source(t, file), testEnv())).Policy.Project
	}
	want := identity("[acme/shop, beta/site]")
	for _, repos := range []string{"[beta/site, acme/shop]", "[acme/shop, Beta/site]"} {
		test.Equal(t, repos, identity(repos), want)
	}
}

// Two tags that are not closed on a line are reported in the same order every time.
func TestOrderOfProblems(t *testing.T) {
	for range 20 {
		prompt := test.Must(ParsePrompt("a {% if b and {{ c", "WORKFLOW.md", 1))
		said := text.Map(prompt.Check(), func(w Warning) string { return w.Message[:2] })
		test.Equal(t, "the problems", strings.Join(said, " "), "{{ {%")
	}
}
