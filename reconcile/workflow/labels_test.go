package workflow

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// Of the rows of agent.by_label the first one holds whose label an issue has. What it leaves out, and any other issue, has the values of
// the other keys.
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
		{[]string{"docs"}, "three", "three", "low", 3, `{"type":"readOnly"}`, `docs: model two sandbox {"type":"readOnly"}`},
	} {
		own, row := cfg.ForIssue(c.labels, c.model), ""
		if r := cfg.Agent.RowFor(c.labels); r != nil {
			row = r.String()
		}
		test.Equal(t, "what holds for an issue", []any{own.Codex.Model, own.Codex.Effort, own.Agent.MaxTurns, string(own.Codex.TurnSandboxPolicy), row},
			[]any{c.wantModel, c.effort, c.turns, c.sandbox, c.description})
	}
}
