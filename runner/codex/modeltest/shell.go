package modeltest

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/symphony-cron/symphony/runner/codex/codextest"
)

// Tools that run commands, by what codex releases offer: one that can leave them running, or, in older ones, one that
// waits for their end, with the command as a text or as its words.
const (
	execCommand  = "exec_command"
	shellCommand = "shell_command"
	shell        = "shell"
)

// shellPatience is what a command may take where codex waits for its end: as long as any script.
const shellPatience = 600_000 // milliseconds

// shellOf finds the tool for commands among those on offer.
func shellOf(tools []string) string {
	for _, name := range []string{execCommand, shellCommand, shell} {
		if slices.Contains(tools, name) {
			return name
		}
	}
	return execCommand
}

// run is a call that runs a command.
func (a *answer) run(s *codextest.Step) (name string, args object) {
	name = shellOf(a.tools)
	escalated := s.Verb == "ask-command"
	if name == execCommand {
		args = object{"cmd": s.Text}
		switch s.Verb {
		case "background":
			args["yield_time_ms"] = 250
		case "sh":
			args["yield_time_ms"] = 30000
		}
		if escalated {
			args["sandbox_permissions"], args["justification"] = "require_escalated", justification
		}
		return name, args
	}
	text := s.Text
	if s.Verb == "background" {
		text = fmt.Sprintf("(%s\n) </dev/null >/dev/null 2>&1 & sleep 0.25", text)
	}
	args = object{"timeout_ms": shellPatience, "command": text}
	if name == shell {
		args["command"] = []string{"bash", "-lc", text}
	}
	if escalated { // by both of the names that it has had
		args["sandbox_permissions"], args["with_escalated_permissions"], args["justification"] = "require_escalated", true, justification
	}
	return name, args
}

const justification = "needs to run outside the sandbox"

// patch is a call that adds a file: by a tool of its own, or, where none is on offer, by a command that codex knows.
func (a *answer) patch(s *codextest.Step) object {
	input := fmt.Sprintf("*** Begin Patch\n*** Add File: %s\n+%s\n*** End Patch\n", filepath.ToSlash(s.Name), s.Text)
	tool := shellOf(a.tools)
	if slices.Contains(a.tools, "apply_patch") {
		return object{"type": "custom_tool_call", "id": a.s.id("ctc"), "call_id": a.s.id("call"), "name": "apply_patch", "input": input}
	}
	command := "apply_patch <<'EOF'\n" + input + "EOF\n"
	switch tool {
	case execCommand:
		return a.functionCall(tool, object{"cmd": command})
	case shellCommand:
		return a.functionCall(tool, object{"timeout_ms": shellPatience, "command": command})
	}
	return a.functionCall(tool, object{"timeout_ms": shellPatience, "command": []string{"apply_patch", input}})
}
