package render

import (
	"runtime"

	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/codex"
)

// wayOut says what to do about an error that a run ended with and that nobody can be expected to know by heart; empty for
// all others. A run keeps no more of its error than code and message.
func WayOut(code string) string {
	if code == string(codex.CodeSandboxUnavailable) {
		return runner.SandboxHint(runtime.GOOS)
	}
	return ""
}
