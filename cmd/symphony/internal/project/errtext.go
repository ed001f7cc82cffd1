package project

import (
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// errorText is "<code>: <message>"; the specification's own wordings stand alone.
func ErrorText(code, message string) *string {
	switch {
	case code == "" && message == "":
		return nil
	case code == "" || code == reconcile.CodeSpawnFailed || strings.HasPrefix(message, "stalled for "):
		return &message
	case message == "":
		return &code
	}
	line := code + ": " + message
	return &line
}

// endLine says how a run ended.
func EndLine(run reconcile.Run) string {
	line := fmt.Sprintf("%s %s", run.Identifier, run.Outcome)
	if !run.EndedAt.IsZero() { // one that was lost has no end yet
		line += " after " + term.Duration(run.EndedAt.Sub(run.StartedAt))
	}
	line += fmt.Sprintf(", %s, %d tokens", text.Plural(run.Turns, "turn"), run.Tokens.Total)
	if e := ErrorText(run.ErrorCode, run.ErrorText); e != nil {
		line += ": " + *e
	}
	if run.AfterRunError != "" {
		line += "; hook failed: " + run.AfterRunError
	}
	return term.Visible(line)
}
