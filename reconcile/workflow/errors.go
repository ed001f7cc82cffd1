package workflow

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
)

// The codes of the errors of this package (specification 5.5 and 10 of the design).
const (
	CodeMissingFile        = "missing_workflow_file"
	CodeParse              = "workflow_parse_error"
	CodeNotAMap            = "workflow_front_matter_not_a_map"
	CodeInvalid            = "invalid_config"
	CodeUnsupportedKey     = "unsupported_key"
	CodeTrackerKind        = "unsupported_tracker_kind"
	CodeMissingAPIKey      = "missing_tracker_api_key"
	CodeMissingProject     = "missing_tracker_project_slug"
	CodeTemplateParse      = "template_parse_error"
	CodeTemplateRender     = "template_render_error"
	CodeEnvFilePermissions = "env_file_permissions"
	CodeEnvFileInvalid     = "env_file_invalid"
)

// Errors are all faults found in one file, in the order of its lines. It is never empty as an error;
// errors.As finds the first *reconcile.Error in it.
type Errors []*reconcile.Error

// Error implements error: one line for each fault.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the faults to errors.Is and errors.As.
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, err := range e {
		errs[i] = err
	}
	return errs
}

// Faults lists the faults in an error of Read, Parse or Render. The error may be a single fault, or wrapped.
func Faults(err error) []*reconcile.Error {
	var all Errors
	if errors.As(err, &all) {
		return all
	}
	var one *reconcile.Error
	if errors.As(err, &one) {
		return Errors{one}
	}
	return nil
}

// Warning is something in the file that may not work as its author expects.
type Warning struct {
	File    string // as it was named to Read
	Line    int    // of the file, from 1
	Key     string // dotted; empty where no key is concerned
	Message string
}

// String is "<file>:<line>: <key>: <message>".
func (w Warning) String() string {
	if w.Key == "" {
		return fmt.Sprintf("%s:%d: %s", w.File, w.Line, w.Message)
	}
	return fmt.Sprintf("%s:%d: %s: %s", w.File, w.Line, w.Key, w.Message)
}

// fault makes an error that points into the file.
func fault(code, file string, line int, message, hint string) *reconcile.Error {
	return &reconcile.Error{Code: code, Message: fmt.Sprintf("%s:%d: %s", file, line, message), Hint: hint}
}

// shorten bounds a message, which may quote a value of any length. It comes after scrub, which would not recognise half of a
// key.
func shorten(message string) string {
	const longest = 300
	if runes := []rune(message); len(runes) > longest {
		return string(runes[:longest]) + "…"
	}
	return message
}

// report collects what is said about one file.
type report struct {
	file     string
	faults   []located
	warnings []Warning
}

// located is an error with its line, for sorting.
type located struct {
	line int
	err  *reconcile.Error
}

func (r *report) fail(code string, f field, message, hint string) {
	if f.key != "" {
		message = f.key + ": " + message
	}
	r.faults = append(r.faults, located{f.line, fault(code, r.file, f.line, message, hint)})
}

func (r *report) invalid(f field, message, hint string) { r.fail(CodeInvalid, f, message, hint) }

func (r *report) warn(f field, message string) {
	r.warnings = append(r.warnings, Warning{File: r.file, Line: f.line, Key: f.key, Message: message})
}

// result sorts what was collected by lines and takes the secret out of it. The error is nil or Errors.
func (r *report) result(secret Secret) ([]Warning, error) {
	slices.SortStableFunc(r.warnings, func(a, b Warning) int { return a.Line - b.Line })
	for i := range r.warnings {
		w := &r.warnings[i]
		w.Key, w.Message = secret.scrub(w.Key), shorten(secret.scrub(w.Message))
	}
	if len(r.faults) == 0 {
		return r.warnings, nil
	}
	slices.SortStableFunc(r.faults, func(a, b located) int { return a.line - b.line })
	all := make(Errors, len(r.faults))
	for i, f := range r.faults {
		f.err.Message = shorten(secret.scrub(f.err.Message))
		all[i] = f.err
	}
	return r.warnings, all
}
