package wiring

import (
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/acp"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/host"
)

// These places know codex beside its row here:
//   - the keys below codex, of which RunnerConfig and runnerConfig of package agents read more
//     than agent.kind has for others, and the paths of its home in reconcile/workflow;
//   - runner/confine, which relies on codex to sandbox its commands and describes sandboxes
//     and settings of threads in codex's words;
//   - runner/verify.go, which lets codex execute a command without a turn, and
//     runner/terminal.go, which gives codex's own terminal the sandbox of a run;
//   - runner/login.go and runner/host/local/launcher.go, which find an installed codex;
//   - runner/far.go, state/account.go, AccountHome and aboutHost, which find its home, login
//     and limits;
//   - package doctor, the steps of package words, and the names of spans in act/export.
//
// What these do not have for another kind, reconcile/workflow refuses by name.

// agentKinds contains a row for each kind of agent.
var agentKinds = kindsByName()

func kindsByName() map[string]agent.Kind {
	kinds := map[string]agent.Kind{
		workflow.AgentCodex: {
			Name:         workflow.AgentCodex,
			Title:        "codex",
			CommandKey:   "codex.command",
			Starts:       "codex app-server",
			Install:      "install codex so that bash -lc finds it",
			LogIn:        "codex login",
			NotFound:     "codex_not_found",
			Incompatible: agent.CodeIncompatible,
			Start:        codex.Start,
			Sandboxes:    true,
			Service:      codex.Service,
			HomeVars:     []string{"CODEX_HOME", "CODEX_SQLITE_HOME"},
			PrepareHome:  codex.PrepareHome,
			PrepareBox:   codex.PrepareBox,
			OperatorOnly: codex.OperatorOnly,
			LoginInFile:  codex.LoginInFile,
		},
	}
	for _, kind := range acp.Kinds() {
		kinds[kind.Name] = kind
	}
	return kinds
}

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
