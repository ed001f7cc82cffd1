package wiring

import (
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// A kind of agent that is forgotten or has no row here is refused, and no home is made for it.
func TestAgentKinds(t *testing.T) {
	home := t.TempDir()
	test.OK(t, prepareHome(workflow.AgentCodex, home, home+"/codex"))
	for _, kind := range []string{"", "other"} {
		if err := prepareHome(kind, home, home+"/other"); err == nil ||
			!strings.Contains(err.Error(), "no agent of the kind") {
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
