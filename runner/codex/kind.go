package codex

import "github.com/symphony-cron/symphony/runner/agent"

// Name is the kind in agent.kind.
const Name = "codex"

// Kind describes codex.
func Kind() agent.Kind {
	return agent.Kind{
		Name:           Name,
		Title:          "codex",
		Section:        "codex",
		CommandKey:     "codex.command",
		Starts:         "codex app-server",
		Install:        "install codex so that bash -lc finds it",
		LogIn:          "codex login",
		NotFound:       "codex_not_found",
		Incompatible:   agent.CodeIncompatible,
		Package:        "@openai/codex",
		ProgramVar:     "CODEX_BIN",
		ProgramArgs:    "app-server",
		VersionCommand: "codex --version",
		LoginCommand:   "codex login status",
		Start:          func(s agent.Streams, o agent.Options) agent.Session { return New(s, o) },
		Sandboxes:      true,
		Service:        Service,
		HomeVars:       []string{homeVar, "CODEX_SQLITE_HOME"},
		HomeVar:        homeVar,
		HomeDir:        ".codex",
		HomeInBox:      HomeInBox,
		PrepareHome:    PrepareHome,
		PrepareBox:     PrepareBox,
		OperatorOnly:   OperatorOnly,
		LoginInFile:    LoginInFile,
	}
}

// homeVar names its home to codex.
const homeVar = "CODEX_HOME"
