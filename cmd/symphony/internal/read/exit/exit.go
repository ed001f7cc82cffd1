// Package exit maps errors to the exit codes of the program.
package exit

import (
	"context"
	"errors"
	"fmt"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// The exit codes. docs/errors.md explains them.
const (
	OK        = 0
	Failed    = 1 // the command did not succeed
	UsageCode = 2
	Workflow  = 3
	Lock      = 4

	// Of the command wait.
	Held       = 5
	Asks       = 6
	NotStarted = 7   // no agent works on the issue, and no pass will start an agent
	NeedsHelp  = 8   // the agent handed the issue over because it needs a person
	TimedOut   = 124 // as timeout(1)
)

// Only is an error that ends the program with an exit code and prints nothing.
type Only int

func (c Only) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// From returns the error with a code in the chain, or gives err a code.
func From(err error) *reconcile.Error {
	if known, ok := errors.AsType[*reconcile.Error](host.WithCode(err)); ok {
		return known
	}
	if errors.Is(err, context.Canceled) {
		return Canceled(err)
	}
	return &reconcile.Error{Code: "internal", Message: err.Error(), Err: err}
}

// Canceled is the error of a command that a signal has ended. It keeps one that says so already.
func Canceled(err error) *reconcile.Error {
	const code = "canceled"
	known, is := errors.AsType[*reconcile.Error](err)
	if is && known.Code == code {
		return known
	}
	return &reconcile.Error{Code: code, Message: "ended by a signal", Err: err}
}

// About puts the subject of an error before its message; nil stays nil.
func About(subject string, err error) error {
	if err == nil {
		return nil
	}
	known := *From(err)
	known.Message = subject + ": " + known.Message
	known.Err = err
	return &known
}

// ForCommand adds the name of the command to the hint of an error of the command line.
func ForCommand(err error, name string) error {
	if usage, ok := errors.AsType[*reconcile.Error](err); ok && usage.Next == reconcile.StepReadHelp {
		usage.Hint += " " + name
	}
	return err
}

// Usage is an error of the command line.
func Usage(format string, args ...any) error {
	return reconcile.NewError("usage", fmt.Sprintf(format, args...), "see symphony help").
		WithNext(reconcile.StepReadHelp)
}

// Code is the exit code for an error.
func Code(err error) int {
	switch reconcile.ClassOf(err) {
	case reconcile.ClassIssue: // a failed issue or hook is not a failure of the command
		return OK
	case reconcile.ClassUsage:
		return UsageCode
	case reconcile.ClassLock:
		return Lock
	case reconcile.ClassWorkflow:
		return Workflow
	case reconcile.ClassTracker, reconcile.ClassMachine:
	}
	return Failed
}
