package git

import (
	"bytes"
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

// Bounds for a git that reads an agent's repository. A commit of 2 kB can list a thousand
// million files: ten trees, each of which contains the next ten times. git would take all
// memory of the machine to list them.
const (
	// maxReferences bounds the references of a repository.
	maxReferences = 500_000
	// maxNames bounds the names of all files and directories of a commit, in bytes.
	maxNames = 512 << 20
)

// mostFiles bounds the files and directories of a commit. Tests raise it to reach another
// bound.
var mostFiles = 2_000_000

// maxMemory bounds the memory of each process of git, in bytes. Two million files fit. Tests
// lower it.
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

// checkSize returns a LimitError if a commit or a tree contains more files and directories
// than git can compare with the memory that it gets. It lists them, which takes a second for
// two million and no memory: git would work for half a minute before it runs out of memory. It
// returns nil if they can't be listed, as in a clone that lacks some.
func (r *reader) checkSize(ctx context.Context, tree string) error {
	var size entryCounter
	cmd := r.git(ctx, "ls-tree", "-r", "-t", "-z", "--name-only", "--full-tree", tree)
	cmd.Stdout = &size
	_ = r.run(cmd) // git reports the same when it compares
	what := ""
	if size.entries > mostFiles {
		what = fmt.Sprintf("%.12s has more than %d files and directories", tree, mostFiles)
	}
	if size.bytes > maxNames {
		what = fmt.Sprintf("the names of the files of %.12s have more than %d MiB", tree, maxNames>>20)
	}
	if what == "" {
		return nil
	}
	return fmt.Errorf("%w: %w", errUnread, gitcmd.LimitError{What: what})
}

// entryCounter counts the entries that git lists with -z. It takes no more than the bounds, so
// that git ends.
type entryCounter struct{ entries, bytes int }

// Write implements io.Writer.
func (c *entryCounter) Write(b []byte) (int, error) {
	c.entries += bytes.Count(b, []byte{0})
	c.bytes += len(b)
	if c.entries > mostFiles || c.bytes > maxNames {
		return 0, errors.New("too many files")
	}
	return len(b), nil
}
