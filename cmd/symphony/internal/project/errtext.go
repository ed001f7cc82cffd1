package project

import (
	"fmt"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// ErrorText is "<code>: <message>", nil where there is neither. The errors that the specification words itself stand without
// a code.
func ErrorText(code, message string) *string {
	switch {
	case code == "" && message == "":
		return nil
	case code == "" || code == reconcile.CodeSpawnFailed || code == string(reconcile.Stalled):
		return &message
	case message == "":
		return &code
	}
	return new(code + ": " + message)
}

// EndLine says how a run ended.
func EndLine(run reconcile.Run) string {
	line := fmt.Sprintf("%s %s", run.Identifier, run.Outcome)
	if !run.EndedAt.IsZero() { // the end of a lost run is not known
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
