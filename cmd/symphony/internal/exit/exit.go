package exit

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

// The exit codes, documented in the README.
const (
	OK        = 0
	Failed    = 1 // the pass or command itself could not do something
	UsageCode = 2
	Workflow  = 3
	Lock      = 4
)

// Only ends the program with a code after everything has been said.
type Only int

func (c Only) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// From gives every error a code.
func From(err error) *reconcile.Error {
	var known *reconcile.Error
	if errors.As(err, &known) {
		return known
	}
	if errors.Is(err, context.Canceled) {
		return &reconcile.Error{Code: "canceled", Message: "ended by a signal", Err: err}
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &reconcile.Error{Code: "disk_full", Message: err.Error(), Hint: "free space on that volume; nothing is lost meanwhile", Err: err}
	}
	if proc.LimitReached(err) {
		return &reconcile.Error{
			Code: reconcile.CodeResourceLimit, Message: err.Error(), Err: err, Hint: proc.LimitHint,
		}
	}
	return &reconcile.Error{Code: "internal", Message: err.Error(), Err: err}
}

func Usage(format string, args ...any) error {
	return &reconcile.Error{Code: "usage", Message: fmt.Sprintf(format, args...), Hint: "see symphony help"}
}

// Code maps an error's code to the exit code of the program.
func Code(code string) int {
	switch code {
	case workspace.CodeHookFailed, workspace.CodeHookTimeout: // of hooks.on_attention: a warning
		return OK
	case "usage", "not_a_terminal":
		return UsageCode
	case "locked":
		return Lock
	case "missing_workflow_file", "workflow_parse_error", "workflow_front_matter_not_a_map", "invalid_config",
		"unsupported_key", "unsupported_tracker_kind", "missing_tracker_api_key", "missing_tracker_project_slug",
		"template_parse_error", "template_render_error", "env_file_permissions", "env_file_invalid",
		"tracker_project_not_found", "nested_workflow", "project_conflict", "state_conflict", "workspace_root_unusable",
		"codex_not_found":
		return Workflow
	}
	return Failed
}
