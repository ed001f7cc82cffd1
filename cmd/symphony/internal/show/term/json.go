package term

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// PrintJSON prints a value on stdout as JSON, in which control characters are escapes. If it fails,
// it prints an error and sets w.OutputFailed.
func (w *Env) PrintJSON(v any) {
	var data, out bytes.Buffer
	enc := json.NewEncoder(&data)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		w.outputFailed(err, "try the same without --json")
		return
	}
	if w.Printed != nil {
		w.Printed(v, data.Bytes())
	}
	if w.JSONLines {
		fmt.Fprint(w.Stdout, text.VisibleJSON(data.String()))
		return
	}
	_ = json.Indent(&out, data.Bytes(), "", "  ") // what was encoded is valid
	fmt.Fprint(w.Stdout, text.VisibleJSON(out.String()))
}

// outputFailed prints why an answer could not be printed, and sets w.OutputFailed.
func (w *Env) outputFailed(err error, hint string) {
	w.OutputFailed = true
	w.PrintError(reconcile.NewError(
		"failed",
		"the command is done, but its answer can't be printed: "+err.Error(),
		hint,
	).WithCause(err))
}

// ErrorJSON is printed by every command with --json that fails before it can answer.
type ErrorJSON struct {
	Error reconcile.Error `json:"error"`
}
