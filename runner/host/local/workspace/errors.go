package workspace

import (
	"fmt"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// The codes of the errors of this package. Every error is a *reconcile.Error, except for that of a context that ended.
const (
	CodeInvalidCwd      = "invalid_workspace_cwd"
	CodeForeign         = "workspace_foreign"
	CodeBusy            = reconcile.CodeWorkspaceBusy
	CodeHookFailed      = "hook_failed"
	CodeHookTimeout     = "hook_timeout"
	CodeDiskFull        = files.CodeDiskFull
	CodeRootUnusable    = files.CodeRootUnusable
	CodeProjectConflict = "project_conflict"
	CodeFailed          = files.CodeFailed
)

func invalidCwd(path, why string) error {
	return &reconcile.Error{
		Code:    CodeInvalidCwd,
		Message: fmt.Sprintf("%s: %s", path, why),
		Hint:    "move it out of the way; symphony leaves it as it is",
	}
}
