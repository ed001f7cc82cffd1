package wiring

import (
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host"
)

// A kind of agent that is forgotten or has no row here is refused, and no home is made for it.
func TestAgentKinds(t *testing.T) {
	home := t.TempDir()
	test.OK(t, prepareHome(host.HomeRequest{Kind: workflow.DefaultAgent, Operators: home, Agents: home + "/codex"}))
	for _, kind := range []string{"", "other"} {
		err := prepareHome(host.HomeRequest{Kind: kind, Operators: home, Agents: home + "/other"})
		if err == nil || !strings.Contains(err.Error(), "no agent of the kind") {
			t.Errorf("%q: %v", kind, err)
		}
		test.Equal(t, kind, Exists(home+"/other"), false)
	}
}

// Each kind that a workflow may name has a row.
func TestEveryKindHasARow(t *testing.T) {
	for _, name := range workflow.AgentKinds() {
		kind, err := AgentOf(name)
		test.OK(t, err)
		test.Equal(t, name, []any{kind.Name, kind.Start != nil, kind.CommandKey != "", kind.Install != ""}, []any{name, true, true, true})
	}
}
