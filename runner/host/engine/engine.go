// Package engine is the port to systems, such as Slurm, that start the daemon of a run on
// another machine and reach it.
package engine

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/remote"
)

// Engine starts and reaches the daemon of an incarnation of a run. A Run describes it, and may
// change between two calls.
type Engine interface {
	// Start makes sure that the daemon serves the run. It may wait until there is a place for
	// it. The error carries a code of NothingBegun, or the code of a client
	// (remote.CodeRefused, CodeEnded, CodeDied), or it is not known whether there is a daemon.
	Start(ctx context.Context) error
	// Dial opens a stream to the daemon. It is a remote.Dial.
	Dial(ctx context.Context) (io.ReadWriteCloser, error)
}

// Run is a run on another machine.
type Run struct {
	Program Program
	// ProgramFor returns the program for hosts of another system.
	ProgramFor func(system string) (Program, error)
	// Env is the environment in which the programs of the engine are found. They get only the
	// variables for their connection.
	Env         []string
	Project     string // the name of the run's project there
	Incarnation remote.Incarnation
	// LostAfter is how long the daemon works without a link.
	LostAfter time.Duration
	// Known: there was a daemon of the run. A host that knows nothing of it is another
	// machine, whatever it is called.
	Known bool
	// Ending: the worker of the run died, and another worker only ends the run.
	Ending bool
	// Start calls Waits with the reason each time that it must wait longer.
	Waits func(why string)
	// Clear removes everything that the engine keeps of the run after its end; nil if it keeps
	// nothing.
	Clear func(ctx context.Context) error
}

// JobName is a unique name for the job of the run, such as symphony-app-20260102t030405-ab12.
// Engines that take only names of DNS accept it, too.
func (r *Run) JobName() string {
	return "symphony-" + r.Project + "-" + strings.ToLower(strings.ReplaceAll(r.Incarnation.RunID, ".", "-"))
}

// Program is the program that a host gets, unless it is already there: symphony itself.
type Program struct {
	Path string
	Sum  string // SHA-256 in hex digits
	Size int64
	// System is the system that it is for, such as linux-arm64; empty for this machine's.
	System string
}

// Copy makes sure that the program is in the cache of a home directory that this machine
// shares with others, and returns its path.
func (p Program) Copy(home string) (path string, err error) {
	path = filepath.Join(home, ".cache", "symphony", "programs", p.Sum, "symphony")
	if info, err := os.Stat(path); err == nil && info.Size() == p.Size {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	data, err := os.ReadFile(p.Path)
	if err != nil {
		return "", err
	}
	return path, durable.WriteFile(path, data, 0o700)
}

// The codes of the errors after which nothing happened on the host.
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

// NothingBegun reports whether the error of Start means that nothing happened on the host.
func NothingBegun(err error) bool {
	known, is := errors.AsType[*reconcile.Error](err)
	return is && slices.Contains(
		[]string{
			CodeUnreachable,
			CodeMissing,
			CodeSystem,
			CodeUnusable,
			CodeWithdrawn,
			reconcile.HoldNeverStarts,
		},
		known.Code,
	)
}
