package workflow

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// A row of agent.by_label may take rights away from what the other keys give, and add none.
func TestRowsOnlyNarrow(t *testing.T) {
	const own, network = "", `{"type": "workspaceWrite", "networkAccess": true}`
	const tmp = `{"type": "workspaceWrite", "excludeSlashTmp": false}`
	const noTmp = `{"type": "workspaceWrite", "excludeSlashTmp": true}`
	const roots = `{"type": "workspaceWrite", "writableRoots": ["/srv/a"]}`
	const reads, free = `{"type": "readOnly"}`, `{"type": "dangerFullAccess"}`
	for _, c := range []struct{ base, row, more string }{
		{own, reads, ""},
		{own, `{"type": "readOnly", "networkAccess": true}`, "use the network"},
		{own, noTmp, ""},
		{own, tmp, "write /tmp"},
		{own, free, "leave the sandbox"},
		{own, `{"type": "externalSandbox", "networkAccess": "restricted"}`, "leave the sandbox"},
		{own, `{"type": "readOnly", "newMember": 1}`, "can't be compared"},
		{own, `{"type": "new"}`, "is unknown"},
		{network, network, ""},
		{network, tmp, ""},
		{network, `{"type": "readOnly", "networkAccess": true}`, ""},
		{tmp, network, "use the network"},
		{noTmp, tmp, "write /tmp"},
		{tmp, noTmp, ""},
		{noTmp, `{"type": "workspaceWrite", "excludeSlashTmp": true, "writableRoots": ["/srv/cache/x"]}`, ""},
		{tmp, roots, "write /srv/a"},
		{roots, tmp, "write /srv/cache"}, // of agent.writable_roots, which row has and base replaces
		{`{"type": "workspaceWrite", "writableRoots": ["/srv"]}`, `{"type": "workspaceWrite"}`, ""},
		{roots, `{"type": "workspaceWrite", "writableRoots": ["/srv/a/b"]}`, ""},
		{roots, `{"type": "workspaceWrite", "writableRoots": ["/srv/a/../b"]}`, "write /srv/a/../b"},
		{reads, tmp, "write the workspace"},
		{`{"type": "readOnly", "networkAccess": true}`, tmp, "write the workspace"},
		{free, `{"type": "externalSandbox"}`, ""},
		{network, free, "leave the sandbox"},
	} {
		cfg := Config{Agent: Agent{WritableRoots: []string{"/srv/cache"}}}
		if c.base != own {
			cfg.Session.TurnSandboxPolicy = json.RawMessage(c.base)
		}
		got := cfg.widens(json.RawMessage(c.row))
		if (got == "") != (c.more == "") || !strings.Contains(got, c.more) {
			t.Errorf("%s with %s: %q, want %q", c.row, c.base, got, c.more)
		}
	}
}

// Of the rows of agent.by_label the first one holds whose label an issue has. What it leaves
// out, and any other issue, has the values of the other keys.
func TestByLabel(t *testing.T) {
	cfg := test.Must(Parse(source(t, `---
tracker: {kind: file, provider: {path: issues}}
codex: {model: one, effort: low}
agent:
  max_turns: 3
  by_label: [{label: Hard, effort: high, max_turns: 9}, {label: docs, model: two, sandbox: {type: readOnly}}]
---
Go.
`), testEnv()))
	for _, c := range []struct {
		labels               []string
		model                string
		wantModel, effort    string
		turns                int
		sandbox, description string
	}{
		{nil, "", "one", "low", 3, "", ""},
		{[]string{"docs"}, "", "two", "low", 3, `{"type":"readOnly"}`, `docs: model two sandbox {"type":"readOnly"}`},
		{[]string{"docs", "hard"}, "", "one", "high", 9, "", "hard: effort high max_turns 9"},
		{
			[]string{"docs"},
			"three",
			"three",
			"low",
			3,
			`{"type":"readOnly"}`,
			`docs: model two sandbox {"type":"readOnly"}`,
		},
	} {
		own := cfg.ForIssue(c.labels, c.model)
		row := ""
		if r := cfg.Agent.RowFor(c.labels); r != nil {
			row = r.String()
		}
		test.Equal(
			t,
			"what holds for an issue",
			[]any{
				own.Chosen.Model,
				own.Chosen.Effort,
				own.Chosen.MaxTurns,
				string(own.Chosen.TurnSandboxPolicy),
				row,
			},
			[]any{c.wantModel, c.effort, c.turns, c.sandbox, c.description},
		)
	}
}

// A row may choose another kind of agent, whose settings are those of agent where it says none.
// What the file says for other kinds is in the place of the keys of codex, and codex gets no
// variable of theirs.
func TestKindByLabel(t *testing.T) {
	cfg := test.Must(Parse(source(t, `---
tracker: {kind: file, provider: {path: issues}}
codex: {model: one, approval_policy: on-request}
agent:
  model: opus
  env: {KEY: secret}
  by_label:
    - {label: claude, kind: claude, effort: high}
    - {label: other, kind: acp, command: other-agent}
    - {label: large, model: two}
---
Go.
`), testEnv()))
	for _, c := range []struct {
		label string
		want  string
	}{
		{"", "codex codex app-server one  fail map[] false"},
		{"claude", "claude claude-agent-acp opus high approve map[KEY:secret] true"},
		{"other", "acp other-agent   approve map[KEY:secret] true"},
		{"large", "codex codex app-server two  fail map[] false"},
	} {
		own := cfg.ForIssue([]string{c.label}, "")
		a := own.Chosen
		got := strings.Join([]string{a.Kind, a.Command, a.Model, a.Effort}, " ")
		got += fmt.Sprintf(" %s %v %v", a.OnApproval, a.Env, a.Boxed)
		test.Equal(t, "the agent of "+c.label, got, c.want)
	}
	test.Equal(t, "again", cfg.ForIssue([]string{"claude"}, "").ForIssue(nil, "").Chosen.Model, "one")
}
