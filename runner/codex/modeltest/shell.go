package modeltest

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/symphony-cron/symphony/runner/codex/codextest"
)

// execCommand is codex's tool that runs commands and can leave them running.
const execCommand = "exec_command"

const justification = "needs to run outside the sandbox"

// run is a call that runs a command.
func (a *answer) run(s *codextest.Step) (name string, args object) {
	args = object{"cmd": s.Text}
	switch s.Verb {
	case "background":
		args["yield_time_ms"] = 250
	case "sh":
		args["yield_time_ms"] = 30000
	case "ask-command":
		args["sandbox_permissions"], args["justification"] = "require_escalated", justification
	}
	return execCommand, args
}

// patch is a call that adds a file: by the tool for patches, or, where none is on offer, by a command that codex knows.
func (a *answer) patch(s *codextest.Step) object {
	input := fmt.Sprintf("*** Begin Patch\n*** Add File: %s\n+%s\n*** End Patch\n", filepath.ToSlash(s.Name), s.Text)
	if slices.Contains(a.tools, "apply_patch") {
		return object{"type": "custom_tool_call", "id": a.s.id("ctc"), "call_id": a.s.id("call"), "name": "apply_patch", "input": input}
	}
	return a.functionCall(execCommand, object{"cmd": "apply_patch <<'EOF'\n" + input + "EOF\n"})
}
