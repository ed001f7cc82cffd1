package term

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// PrintJSON prints a value on stdout as JSON, in which control characters are escapes. With
// w.JSONFields it prints only these members of the document, or of its elements if it is a list.
// If it fails, it prints an error and sets w.OutputFailed.
func (w *Env) PrintJSON(v any) {
	const hint = "try the same without --json"
	data, err := encode(v)
	if err != nil {
		w.outputFailed(err, hint)
		return
	}
	if w.Printed != nil {
		w.Printed(v, data)
	}
	if err := w.printEncoded(data); err != nil {
		w.outputFailed(err, hint)
	}
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

// printJSONError prints an error as the only member of an object.
func (w *Env) printJSONError(e *reconcile.Error) {
	fields := w.JSONFields
	w.JSONFields = nil
	w.PrintJSON(ErrorJSON{*e})
	w.JSONFields = fields
}

// ErrorJSON is printed by every command with --json that fails before it can answer.
type ErrorJSON struct {
	Error reconcile.Error `json:"error"`
}

// encode returns a value as a line of JSON.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return out.Bytes(), err
}

// printEncoded prints the members of a document that are wanted.
func (w *Env) printEncoded(data []byte) error {
	if len(w.JSONFields) > 0 {
		picked, err := pick(data, w.JSONFields)
		if err != nil {
			return err
		}
		data = picked
	}
	if w.JSONLines {
		fmt.Fprint(w.Stdout, text.VisibleJSON(string(data)))
		return nil
	}
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		return err
	}
	fmt.Fprint(w.Stdout, text.VisibleJSON(out.String()))
	return nil
}

// pick returns the named members of an object, or of each element of a list, in the order of
// the names. A member that a document leaves out is null.
func pick(data []byte, names []string) ([]byte, error) {
	var list []json.RawMessage
	if json.Unmarshal(data, &list) == nil {
		for i := range list {
			element, err := pick(list[i], names)
			if err != nil {
				return nil, err
			}
			list[i] = element
		}
		return encode(list)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, err
	}
	var picked []string
	for _, name := range names {
		value, ok := members[name]
		if !ok {
			value = json.RawMessage("null")
		}
		picked = append(picked, fmt.Sprintf("%q:%s", name, value))
	}
	return []byte("{" + strings.Join(picked, ",") + "}\n"), nil
}
