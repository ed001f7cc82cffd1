package wiring

import (
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/acp"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/host"
)

// What the rest of the program has to know of a kind is in its row. These places have more of
// codex than of others, and reconcile/workflow refuses by name what others lack:
//   - reconcile/workflow/codex.go, the keys of its own;
//   - runner/confine/sandbox.go, which describes sandboxes in the words of its policies;
//   - package doctor, whose checks of it are in codex.go.

// agentKinds contains a row for each kind of agent.
var agentKinds = kindsByName()

func kindsByName() map[string]agent.Kind {
	kinds := map[string]agent.Kind{codex.Name: codex.Kind()}
	for _, kind := range acp.Kinds() {
		kinds[kind.Name] = kind
	}
	return kinds
}

// DefaultAgent returns the kind of agent.kind by default.
func DefaultAgent() agent.Kind { return agentKinds[workflow.DefaultAgent] }

// AgentOf returns a kind of agent. It refuses a kind without a row, also if another machine
// names it.
func AgentOf(name string) (agent.Kind, error) {
	kind, found := agentKinds[name]
	if !found {
		return agent.Kind{Name: name}, agent.UnknownKind(name)
	}
	return kind, nil
}

// prepareHome makes a home for agents of a kind.
func prepareHome(q host.HomeRequest) error {
	kind, err := AgentOf(q.Kind)
	if err != nil {
		return err
	}
	prepare := kind.PrepareHome
	if q.Boxed {
		prepare = kind.PrepareBox
	}
	if prepare == nil {
		return agent.UnknownKind(q.Kind)
	}
	return prepare(q.Operators, q.Agents)
}
