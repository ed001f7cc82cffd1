package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/files"
	"github.com/symphony-cron/symphony/runner/proc"
)

// Bounds for a git that reads an agent's repository. A commit of 2 kB can list a thousand
// million files: ten trees, each of which contains the next ten times. git would take all
// memory of the machine to list them.
const (
	// maxAnswer bounds the output of git that symphony keeps, in bytes.
	maxAnswer = 64 << 20
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

// LimitError is the error of a git that reached a bound.
type LimitError struct {
	what string
	late bool // it is the bound of time
}

func (e LimitError) Error() string { return e.what }

// Unwrap returns context.DeadlineExceeded for the bound of time.
func (e LimitError) Unwrap() error {
	if e.late {
		return context.DeadlineExceeded
	}
	return nil
}

// Hint tells an operator how to go on.
func (e LimitError) Hint() string {
	if e.late {
		return "try again when the machine is less busy; " +
			"git status in the workspace shows whether git is always that slow there"
	}
	return "a commit of the agent, or its index, lists millions of files: " +
		"git log --oneline in the workspace shows the commits"
}

// within bounds the time in which git reads a repository. The error of readFailed is then a
// LimitError.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	what := "git has not ended within " + text.Took(limit.Milliseconds())
	return context.WithTimeoutCause(ctx, limit, LimitError{what: what, late: true})
}

// Run runs a command of git, each process of which may have so many bytes of memory, and
// returns the end of its stderr. The error is a LimitError if that was not enough.
func Run(cmd *exec.Cmd, memory uint64) (complaint []byte, err error) {
	tail := &text.Tail{Limit: 16 << 10}
	cmd.Stderr = tail
	err = proc.RunWithin(cmd, memory)
	complaint, _ = tail.Text()
	if answer, ok := cmd.Stdout.(*Answer); ok && answer.tooLong {
		return complaint, errTooLong
	}
	if err != nil && noMemory().Match(complaint) {
		return complaint, LimitError{what: fmt.Sprintf("git needs more than %d MiB of memory", memory>>20)}
	}
	return complaint, err
}

// Exited reports whether git ended by itself with another exit code than 0. To a question, such
// as config --get, that is a no. A git that a signal or a bound ended has not answered.
func Exited(err error) bool {
	exit, ended := errors.AsType[*exec.ExitError](err)
	return ended && exit.Exited()
}

// IsTooOld reports whether git ended because it does not know an option or a command.
func IsTooOld(err error) bool {
	const usageError = 129
	exit, ended := errors.AsType[*exec.ExitError](err)
	return ended && exit.ExitCode() == usageError
}

// noMemory matches git's message when it gets no more memory.
var noMemory = text.Pattern(
	`(?im)^(?:fatal|error): .*(?:out of memory|cannot allocate memory|attempting to allocate)`,
)

// errTooLong is the error of an Answer that had no room for all.
var errTooLong = LimitError{what: fmt.Sprintf("git lists more than %d MiB", maxAnswer>>20)}

// Answer is the output of git. It takes no more than 64 MiB: then git ends, and the error of
// Run is a LimitError.
type Answer struct {
	text    bytes.Buffer // not embedded: its other methods know no bound
	tooLong bool
}

// String returns the output.
func (a *Answer) String() string { return a.text.String() }

// add adds a path for --stdin of another git.
func (a *Answer) add(path string) {
	_, _ = a.Write([]byte(path + "\x00")) // tooLong tells an error
}

// Write implements io.Writer.
func (a *Answer) Write(b []byte) (int, error) {
	if a.text.Len()+len(b) > maxAnswer {
		a.tooLong = true
		return 0, errTooLong
	}
	return a.text.Write(b)
}

// Failed wraps an error as files.Failed does. A LimitError gets a code of its own.
func Failed(err error, format string, args ...any) error {
	limit, reached := errors.AsType[LimitError](err)
	if !reached {
		return files.Failed(err, format, args...)
	}
	return &reconcile.Error{
		Code:    host.CodeGitLimit,
		Message: fmt.Sprintf(format, args...) + ": " + limit.what,
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
	return fmt.Errorf("%w: %w", errUnread, LimitError{what: what})
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
