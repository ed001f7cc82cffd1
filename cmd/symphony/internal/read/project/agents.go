package project

import (
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex"
)

// AgentKind is what symphony uses of one kind of agent, besides its sessions.
//
// What else knows codex needs a part here for a second kind, and the key agent.kind to choose it: RunnerConfig, which reads the keys below
// codex, and runnerConfig of package agents; runner/confine, which describes sandboxes and settings of threads in codex's words;
// runner/takeover.go, which opens codex's own terminal; runner/host/local/launcher.go, which finds an installed codex; runner/far.go,
// state/account.go and aboutHost, which find its home, login and limits; and doctor/codex.go.
type AgentKind struct {
	Start       agent.Starter                        // makes a session with its process
	PrepareHome func(operators, agents string) error // makes a home of agents that shares the login of the operator's
	Unshared    func(home string) ([]string, error)  // what a home has that agents do not get
	LoginInFile func(home string) bool               // the login of a home can be shared
}

// agentKinds has a row for each kind of agent.
var agentKinds = map[string]AgentKind{
	workflow.AgentCodex: {
		Start: codex.Start, PrepareHome: codex.PrepareHome, Unshared: codex.Unshared, LoginInFile: codex.LoginInFile,
	},
}

// AgentOf returns a kind of agent. It refuses a kind without a row, also if another machine names it.
func AgentOf(kind string) (AgentKind, error) {
	a, found := agentKinds[kind]
	if !found {
		return a, agent.UnknownKind(kind)
	}
	return a, nil
}

// prepareHome makes a home for agents of a kind.
func prepareHome(kind, operators, agents string) error {
	a, err := AgentOf(kind)
	if err != nil {
		return err
	}
	return a.PrepareHome(operators, agents)
}
