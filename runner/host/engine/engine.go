// Package engine is the port to what starts the daemon of a run on another machine and reaches it.
package engine

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/remote"
)

// Engine starts and reaches the daemon of one incarnation of a run. What it needs to know of that is a Run, which may change meanwhile.
type Engine interface {
	// Start makes sure that the daemon serves the run. It may wait until there is a place for it. Errors: those of NothingBegun, those of
	// a client (remote.CodeRefused, CodeEnded, CodeDied), or others after which it is not known whether there is a daemon.
	Start(ctx context.Context) error
	// Dial opens a stream to the daemon. It is a remote.Dial.
	Dial(ctx context.Context) (io.ReadWriteCloser, error)
}

// Run is a run on another machine.
type Run struct {
	Program Program
	// Env is the environment in which the programs of the engine are found. They get only what concerns their connection.
	Env     []string
	Project string // the name of the run's project there
	Of      remote.Incarnation
	// LostAfter is how long the daemon works without a link.
	LostAfter time.Duration
	// Known: there was a daemon of the run. A host that knows nothing of it is another machine, whatever it is called.
	Known bool
	// Ending: the worker of the run has died, and another one only ends the run.
	Ending bool
	// Waits is told why Start waits, again and again.
	Waits func(why string)
}

// Program is the program that a host gets, unless it has it: symphony itself.
type Program struct {
	Path string
	Sum  string // SHA-256 in hex digits
	Size int64
}

// The codes of the errors after which nothing has happened on the host.
const (
	// CodeUnreachable: the engine could not be reached.
	CodeUnreachable = "host_unreachable"
	// CodeMissing: a program of the engine is not installed on this machine.
	CodeMissing = "engine_missing"
	// CodeSystem: symphony can't run there.
	CodeSystem = "host_system"
	// CodeUnusable: symphony can't be copied there, or can't start a daemon.
	CodeUnusable = "host_unusable"
	// CodeWithdrawn: the run was ended while it waited for the engine.
	CodeWithdrawn = "host_withdrawn"
)

// NothingBegun reports whether the error of Start means that nothing has happened on the host.
func NothingBegun(err error) bool {
	var known *reconcile.Error
	return errors.As(err, &known) && slices.Contains(
		[]string{CodeUnreachable, CodeMissing, CodeSystem, CodeUnusable, CodeWithdrawn, reconcile.HoldNeverStarts}, known.Code)
}
