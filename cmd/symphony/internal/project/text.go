package project

import (
	"context"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// PastRuns is the usual number of ended runs in a list.
const PastRuns = 20

// LastPassRow is the last pass of a project.
type LastPassRow struct {
	ID         int64             `json:"id"`
	Trigger    string            `json:"trigger"`
	StartedAt  time.Time         `json:"started_at"`
	DurationMS int64             `json:"duration_ms"`
	Errors     []reconcile.Error `json:"errors"`
}

// LastPass is the last pass of a project, nil if there was none.
func LastPass(ctx context.Context, db *state.DB) (*LastPassRow, error) {
	last, known, err := db.Views.LastPass(ctx)
	if err != nil || !known {
		return nil, err
	}
	return &LastPassRow{
		ID: last.ID, Trigger: last.Trigger, StartedAt: last.StartedAt.UTC(), DurationMS: last.Duration.Milliseconds(),
		Errors: append([]reconcile.Error{}, last.Errors...),
	}, nil
}

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

// LockedError is the error of a command that found the project locked.
func LockedError(h *state.Holder) *reconcile.Error {
	return &reconcile.Error{Code: "locked", Message: "another pass holds the lock: " + HolderText(h), Hint: "try again, or give --lock-timeout more time"}
}

// HolderText names the pass that holds the lock.
func HolderText(h *state.Holder) string {
	if h.PID == 0 {
		return "unknown holder"
	}
	return fmt.Sprintf("%s pass, pid %d, since %s", h.Trigger, h.PID, h.Since.UTC().Format(time.RFC3339))
}
