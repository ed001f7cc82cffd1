package workspace

import (
	"errors"
	"fmt"
	"syscall"
)

// The codes of an Error (design section 7; all stable).
const (
	CodeInvalidCwd      = "invalid_workspace_cwd"
	CodeForeign         = "workspace_foreign"
	CodeBusy            = "workspace_busy"
	CodeHookFailed      = "hook_failed"
	CodeHookTimeout     = "hook_timeout"
	CodeDiskFull        = "disk_full"
	CodeRootUnusable    = "workspace_root_unusable"
	CodeProjectConflict = "project_conflict"
	CodeFailed          = "workspace_failed"
)

// Error is a fault of a workspace with a stable code, for machines and people. The functions of this package
// return nothing else, but for a context that ended: that is wrapped as it is.
type Error struct {
	Code    string
	Message string // one line: what and where, the cause included
	// Hint says what to do next; may be empty.
	Hint string
	// Err is the cause, nil if there is none.
	Err error
}

// Error implements error: "<code>: <what and where>".
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// IsCode reports whether err is, or wraps, an Error of this code.
func IsCode(err error, code string) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// failed wraps what the system said while something was done. A full disk has a code of its own: it is the
// machine's fault and not the (design section 5).
func failed(err error, format string, args ...any) error {
	e := &Error{Code: CodeFailed, Message: fmt.Sprintf(format, args...) + ": " + err.Error(), Err: err}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		e.Code = CodeDiskFull
		e.Hint = "free space on the volume of workspace.root, for instance in .symphony/trash below it"
	}
	if errors.Is(err, syscall.EROFS) {
		e.Code = CodeRootUnusable
		e.Hint = "mount the volume of workspace.root for writing"
	}
	return e
}

func invalidCwd(path, why string) error {
	return &Error{
		Code:    CodeInvalidCwd,
		Message: fmt.Sprintf("%s: %s", path, why),
		Hint:    "move it out of the way; symphony leaves it as it is",
	}
}

func unusable(path, why, hint string, err error) error {
	return &Error{
		Code: CodeRootUnusable, Message: fmt.Sprintf("workspace root %s: %s", path, why), Hint: hint, Err: err,
	}
}
