package wiring

import (
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex"
)

// AgentKind contains the parts of a kind of agent that symphony uses, besides its sessions.
//
// These places also know codex; a second kind needs a part in each of them, and the key
// agent.kind to choose it:
//   - RunnerConfig and runnerConfig of package agents, which read the keys below codex, and
//     the paths of its home in reconcile/workflow;
//   - runner/confine, which relies on codex to sandbox its commands and describes sandboxes
//     and settings of threads in codex's words;
//   - runner/verify.go, which lets codex execute a command without a turn, and
//     runner/terminal.go, which opens codex's own terminal;
//   - runner/login.go and runner/host/local/launcher.go, which find an installed codex;
//   - runner/far.go, state/account.go, AccountHome and aboutHost, which find its home, login
//     and limits;
//   - package doctor, the steps of package words, and the names of spans in act/export.
type AgentKind struct {
	Start agent.Starter // makes a session with its process
	// makes a home of agents that shares the login of the operator's
	PrepareHome func(operators, agents string) error
	// lists the settings of a home that agents do not get
	OperatorOnly func(home string) ([]string, error)
	LoginInFile  func(home string) bool // the login of a home can be shared
}

// agentKinds contains a row for each kind of agent.
var agentKinds = map[string]AgentKind{
	workflow.AgentCodex: {
		Start:        codex.Start,
		PrepareHome:  codex.PrepareHome,
		OperatorOnly: codex.OperatorOnly,
		LoginInFile:  codex.LoginInFile,
	},
}

// AgentOf returns a kind of agent. It refuses a kind without a row, also if another machine
// names it.
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
