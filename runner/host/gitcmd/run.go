package gitcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/proc"
)

// NoLimit is the memory of a git that reads nothing of an agent, or starts the operator's own
// programs.
const NoLimit = 0

// maxComplaint bounds what is kept of git's stderr, in bytes.
const maxComplaint = 16 << 10

// Run runs a command, each process of which may have so many bytes of memory. The error is a
// LimitError if that was not enough, and otherwise a host.GitError with the end of its stderr.
// Nothing of the command is left after an error.
func Run(cmd *exec.Cmd, memory uint64) error {
	// ssh or a credential helper may stay in the background
	if err := proc.SealDescriptors(); err != nil {
		return err
	}
	tail := &text.Tail{Limit: maxComplaint}
	cmd.Stderr = tail
	answer, isAnswer := cmd.Stdout.(*Answer)
	err := proc.RunWithin(cmd, memory)
	if cmd.Process != nil && err != nil {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // fails if the whole group ended
	}
	if isAnswer && answer.Err() != nil {
		return answer.Err()
	}
	if err == nil {
		return nil
	}
	if cmd.Err != nil {
		err = cmd.Err
	}
	complaint, _ := tail.Text()
	if noMemory().Match(complaint) {
		return LimitError{What: fmt.Sprintf("git needs more than %d MiB of memory", memory>>20)}
	}
	return host.NewGitError(verb(cmd), complaint, err)
}

// Output runs a command as Run does, and returns what it prints. After an error that is what it
// printed before.
func Output(cmd *exec.Cmd, memory uint64) (string, error) {
	var out Answer
	cmd.Stdout = &out
	err := Run(cmd, memory)
	return out.String(), err
}

// verb returns the command of git with its verb, such as git push; of a Shell its program.
func verb(cmd *exec.Cmd) string {
	if !slices.Contains(cmd.Args, noPager) {
		return filepath.Base(cmd.Args[0])
	}
	words := cmd.Args[slices.Index(cmd.Args, noPager)+1:]
	for len(words) > 2 && words[0] == "-c" {
		words = words[2:]
	}
	return filepath.Base(cmd.Args[0]) + " " + words[0]
}

// Exited reports whether git ended by itself with another exit code than 0. To a question, such
// as config --get, that is a no. A git that a signal or a bound ended has not answered.
func Exited(err error) bool {
	exit, ended := errors.AsType[*exec.ExitError](err)
	return ended && exit.Exited()
}

// ExitedWith reports whether git ended by itself with an exit code.
func ExitedWith(err error, code int) bool {
	exit, ended := errors.AsType[*exec.ExitError](err)
	return ended && exit.ExitCode() == code
}

// IsTooOld reports whether git ended because it does not know an option or a command.
func IsTooOld(err error) bool {
	const usageError = 129
	return ExitedWith(err, usageError)
}

// LimitError is the error of a git that reached a bound.
type LimitError struct {
	What string
	Late bool // it is the bound of time
}

func (e LimitError) Error() string { return e.What }

// Unwrap returns context.DeadlineExceeded for the bound of time.
func (e LimitError) Unwrap() error {
	if e.Late {
		return context.DeadlineExceeded
	}
	return nil
}

// Hint tells an operator how to go on.
func (e LimitError) Hint() string {
	if e.Late {
		return "try again when the machine is less busy"
	}
	return "look at the agent's commits with git log --oneline in the workspace"
}

// noMemory matches git's message when it gets no more memory.
var noMemory = text.Pattern(
	`(?im)^(?:fatal|error): .*(?:out of memory|cannot allocate memory|attempting to allocate)`,
)

// maxAnswer bounds the output of git that symphony keeps, in bytes.
const maxAnswer = 64 << 20

// errTooLong is the error of an Answer that had no room for all.
var errTooLong = LimitError{What: fmt.Sprintf("git lists more than %d MiB", maxAnswer>>20)}

// Answer is the output of git. It takes no more than 64 MiB: then git ends, and the error of
// Run is a LimitError.
type Answer struct {
	text    bytes.Buffer // not embedded: its other methods know no bound
	tooLong bool
}

// String returns the output.
func (a *Answer) String() string { return a.text.String() }

// AddPath adds a path for --stdin of another git. Err tells whether there was room for all.
func (a *Answer) AddPath(path string) { _, _ = a.Write([]byte(path + "\x00")) }

// Err is a LimitError if there was no room for all.
func (a *Answer) Err() error {
	if a.tooLong {
		return errTooLong
	}
	return nil
}

// Write implements io.Writer.
func (a *Answer) Write(b []byte) (int, error) {
	if a.text.Len()+len(b) > maxAnswer {
		a.tooLong = true
		return 0, errTooLong
	}
	return a.text.Write(b)
}
