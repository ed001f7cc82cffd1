package export

import (
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// The span of a turn names the agent of the run, and the service whose API that agent speaks.
func TestTurnNamesItsAgent(t *testing.T) {
	for _, c := range []struct{ kind, name, provider string }{
		{"", "codex", "openai"}, // of a run that was recorded without its agent
		{"codex", "codex", "openai"},
		{"claude", "claude", "anthropic"},
		{"gemini", "gemini", "gcp.gemini"},
		{"opencode", "opencode", ""},
	} {
		run := reconcile.Run{ID: "run-1", Agent: reconcile.Agent{Kind: c.kind}}
		tr := &trace{run: run, redactor: agent.NewRedactor(nil)}
		test.OK(t, tr.read(t.TempDir()))
		tr.onEvent(agent.Event{
			Name: agent.EventPrompt,
			At:   time.Unix(1, 0),
			Raw:  []byte(`{"turn":1,"text":"go on"}`),
		})
		turn := tr.turn.span
		test.Equal(t, "the name", turn.Name, "invoke_agent "+c.name)
		test.Equal(t, "the agent", valueOf(turn, "gen_ai.agent.name"), c.name)
		test.Equal(t, "the provider of "+c.name, valueOf(turn, "gen_ai.provider.name"), c.provider)
	}
}

// valueOf returns the text of an attribute; empty if it is missing.
func valueOf(s *span, key string) string {
	for _, attribute := range s.Attributes {
		if attribute["key"] == key {
			return attribute["value"].(object)["stringValue"].(string)
		}
	}
	return ""
}
