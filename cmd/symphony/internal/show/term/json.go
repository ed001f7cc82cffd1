package term

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/itchyny/gojq"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// JSONQuery selects from the JSON of a command by the flags --json FIELDS and --jq. The
// zero value selects all.
type JSONQuery struct {
	// members of the document, or of its elements if it is a list; none stands for all
	Fields []string
	jq     *gojq.Code
}

// NewJSONQuery compiles a jq expression, for example `.held[].issue_identifier`. It may be
// empty.
func (w *Env) NewJSONQuery(fields []string, jq string) (JSONQuery, error) {
	q := JSONQuery{Fields: fields}
	if jq == "" {
		return q, nil
	}
	parsed, err := gojq.Parse(jq)
	if err != nil {
		return q, fmt.Errorf("--jq: %w", err)
	}
	q.jq, err = gojq.Compile(parsed, gojq.WithEnvironLoader(func() []string { return w.Environ }))
	if err != nil {
		return q, fmt.Errorf("--jq: %w", err)
	}
	return q, nil
}

// PrintJSON prints a value on stdout: as JSON, in which control characters are escapes, or as
// w.Query wants it. An error of the query is printed and sets w.OutputFailed.
func (w *Env) PrintJSON(v any) {
	const hint = "try the same with --json alone"
	data, err := encode(v)
	if err != nil {
		w.outputFailed(err, hint)
		return
	}
	if w.Printed != nil {
		w.Printed(v, data)
	}
	if err := w.printQueried(data); err != nil {
		w.outputFailed(err, hint)
	}
}

// outputFailed prints why an answer could not be printed, and sets w.OutputFailed.
func (w *Env) outputFailed(err error, hint string) {
	w.OutputFailed = true
	w.PrintError(reconcile.NewError(
		"output_failed",
		"the command is done, but its answer can't be printed: "+err.Error(),
		hint,
	).WithCause(err))
}

// printJSONError prints an error as the only member of an object. With --jq it prints nothing,
// because its reader expects other values.
func (w *Env) printJSONError(e *reconcile.Error) {
	if w.Query.jq != nil {
		return
	}
	query := w.Query
	w.Query = JSONQuery{}
	w.PrintJSON(ErrorJSON{*e})
	w.Query = query
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

// printQueried prints the parts of a document that the query selects.
func (w *Env) printQueried(data []byte) error {
	if len(w.Query.Fields) > 0 {
		picked, err := pick(data, w.Query.Fields)
		if err != nil {
			return err
		}
		data = picked
	}
	if w.Query.jq != nil {
		return w.printValues(data)
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

// printValues prints the values of the jq expression, one per line: strings as they are, null
// as an empty line, anything else as compact JSON.
func (w *Env) printValues(data []byte) error {
	document, err := decode(data)
	if err != nil {
		return err
	}
	// an expression may have endless values
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	values := w.Query.jq.RunWithContext(ctx, document)
	for {
		v, ok := values.Next()
		if !ok {
			return nil
		}
		line := ""
		switch v := v.(type) {
		case nil:
		case string:
			line = text.VisibleLines(v)
		case error:
			halt, ok := errors.AsType[*gojq.HaltError](v)
			if ok && halt.Value() == nil {
				return nil
			}
			return fmt.Errorf("--jq: %w", v)
		default:
			compact, err := gojq.Marshal(v)
			if err != nil {
				return fmt.Errorf("--jq: %w", err)
			}
			line = text.VisibleJSON(string(compact))
		}
		fmt.Fprintln(w.Stdout, line)
	}
}

// decode reads a document and keeps its numbers as they are written.
func decode(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	return v, err
}
