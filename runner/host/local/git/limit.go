package git

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// maxReferences bounds the references of a repository.
const maxReferences = 500_000

// maxMemory bounds the memory of each process of git, in bytes. A commit of 2 kB can list a thousand
// million files: ten trees, each of which contains the next ten times. Tests lower it.
var maxMemory uint64 = 1 << 30

// within bounds the time in which git reads a repository. The error of readFailed is then a
// LimitError.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	what := "git has not ended within " + text.Took(limit.Milliseconds())
	return context.WithTimeoutCause(ctx, limit, gitcmd.LimitError{What: what, Late: true})
}

// Failed wraps an error as files.Failed does. A LimitError gets a code of its own.
func Failed(err error, format string, args ...any) error {
	limit, reached := errors.AsType[gitcmd.LimitError](err)
	if !reached {
		return files.Failed(err, format, args...)
	}
	return &reconcile.Error{
		Code:    host.CodeGitLimit,
		Message: fmt.Sprintf(format, args...) + ": " + limit.What,
		Err:     err,
		Hint:    limit.Hint(),
	}
}
