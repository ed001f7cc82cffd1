package git

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/files"
	"github.com/symphony-cron/symphony/runner/proc"
)

// Bounds for a git that reads what an agent has written. A commit of 2 kB can list a thousand
// million files: ten trees, each of which contains the next one ten times. git would take all
// memory of the machine to list them.
const (
	// maxAnswer bounds what git prints for symphony to keep, in bytes.
	maxAnswer = 64 << 20
	// maxReferences bounds the references of a repository.
	maxReferences = 500_000
)

// maxMemory bounds the memory of each process of git, in bytes. Two million files fit. Tests
// lower it.
var maxMemory uint64 = 1 << 30

// LimitError is the error of a git that has reached one of the bounds.
type LimitError struct{ what string }

func (e LimitError) Error() string { return e.what }

// Run runs a command of git, each process of which may have so many bytes of memory, and
// returns the end of what it complained of. The error is a LimitError if that was not enough.
func Run(cmd *exec.Cmd, memory uint64) (complaint []byte, err error) {
	tail := &text.Tail{Limit: 16 << 10}
	cmd.Stderr = tail
	err = proc.RunWithin(cmd, memory)
	complaint, _ = tail.Text()
	if answer, ok := cmd.Stdout.(*Answer); ok && answer.tooLong {
		return complaint, errTooLong
	}
	if err != nil && noMemory().Match(complaint) {
		return complaint, LimitError{fmt.Sprintf("git needs more than %d MiB of memory", memory>>20)}
	}
	return complaint, err
}

// noMemory matches what git says when it gets no more memory.
var noMemory = text.Pattern(`(?im)^(?:fatal|error): .*(?:out of memory|cannot allocate memory|attempting to allocate)`)

// errTooLong is the error of an Answer that had no room for all.
var errTooLong = LimitError{fmt.Sprintf("git lists more than %d MiB", maxAnswer>>20)}

// Answer is what git prints. It takes no more than 64 MiB: then git ends, and the error of Run
// is a LimitError.
type Answer struct {
	text    bytes.Buffer // not embedded: its other methods know no bound
	tooLong bool
}

// String returns what was printed.
func (a *Answer) String() string { return a.text.String() }

// add adds a path for --stdin of another git.
func (a *Answer) add(path string) {
	_, _ = a.Write([]byte(path + "\x00")) // an error is that of the answer
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
		Code: host.CodeGitLimit, Message: fmt.Sprintf(format, args...) + ": " + limit.what, Err: err, Hint: LimitHint,
	}
}

// LimitHint tells an operator what to do after a LimitError.
const LimitHint = "a commit of the agent, or its index, lists millions of files: git log --oneline in the workspace shows the commits"
