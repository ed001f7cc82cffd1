package workflow

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// Symphony's sandbox is refused by name where there is none, whoever asks for it.
func TestSandboxOnMacOS(t *testing.T) {
	const refusal = " works on Linux alone, not on darwin"
	for agent, says := range map[string]string{
		"{kind: codex}":                              "",
		"{kind: claude}":                             "agent.kind: agent.sandbox: bwrap, the default of claude," + refusal,
		"{kind: gemini}":                             "agent.kind: agent.sandbox: bwrap, the default of gemini," + refusal,
		"{kind: codex, sandbox: bwrap}":              "WORKFLOW.md:5: agent.sandbox: bwrap" + refusal,
		"{kind: claude, sandbox: none, trust: true}": "",
	} {
		env := testEnv()
		env.System = "darwin"
		text := "---\ntracker:\n  kind: linear\n  project_slug: demo\nagent: " + agent + "\n---\nGo.\n"
		_, err := Parse(source(t, text), env)
		if says == "" {
			test.OK(t, err)
			continue
		}
		test.Contains(t, agent, err.Error(), says)
	}
}
