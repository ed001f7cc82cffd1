package workflow

import (
	"errors"
	"fmt"

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
	CodeMissingRepo        = "missing_github_repo"
	CodeTemplateParse      = "template_parse_error"
	CodeTemplateRender     = "template_render_error"
	CodeEnvFilePermissions = "env_file_permissions"
	CodeEnvFileInvalid     = "env_file_invalid"
)

// Faults lists the faults in an error of Read, Parse or Render. The error may be a single fault, several joined ones, or wrap them.
func Faults(err error) []*reconcile.Error {
	var joined interface{ Unwrap() []error }
	list := []error{err}
	if errors.As(err, &joined) {
		list = joined.Unwrap()
	}
	var all []*reconcile.Error
	for _, err := range list {
		if one := (*reconcile.Error)(nil); errors.As(err, &one) {
			all = append(all, one)
		}
	}
	return all
}

// Warning is something in the file that may not work as its author expects.
type Warning struct {
	File    string // the name that was passed to Read
	Line    int    // of the file, from 1
	Key     string // dotted; empty if no key is concerned
	Message string
}

// String returns "<file>:<line>: <key>: <message>".
func (w Warning) String() string {
	message := w.Message
	if w.Key != "" {
		message = w.Key + ": " + message
	}
	return fmt.Sprintf("%s:%d: %s", w.File, w.Line, message)
}

// fault returns an error that names a line of the file.
func fault(code, file string, line int, message, hint string) *reconcile.Error {
	return reconcile.NewError(code, fmt.Sprintf("%s:%d: %s", file, line, message), hint)
}
