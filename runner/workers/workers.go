// Package workers starts, watches and ends the workers on this machine for a pass. Runs do
// their work on a host.Machine.
package workers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/lock"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/proc"
)

const (
	readyBound = 5 * time.Second       // for a worker to report that it took its run
	stopStep   = 20 * time.Millisecond // between two checks of a worker that was asked to stop
)

// Local gives a pass the runs of this machine. It implements reconcile.Runners.
type Local struct {
	StateDir string
	Exe      string   // the program that workers run
	Env      []string // the environment of workers
	// Workflow is the workflow as dispatched, without a literal key. It was read from
	// WorkflowPath.
	Workflow     []byte
	WorkflowPath string
	Model        string     // of the agents of these runs; empty for the workflow's
	Machine      host.Local // where runs do their work
	// Secret is further input of the worker beside Workflow, passed over a pipe; nil for
	// nothing.
	Secret []byte
	// NextSlot returns the account's next free slot for an agent's worker
	// (reconcile.Accounts), an error if there is none. It is nil or returns nil if the number
	// of runs is not limited.
	NextSlot func() (*os.File, error)
	// Logins is a file that the workers share (proc.SharedFile), so that a single login shell
	// is enough for them; nil for none.
	Logins *os.File
	// Scopes starts workers in scopes of systemd; nil starts them without.
	Scopes *proc.ScopeManager
	// Stays: the pass waits for the runs that it starts, so that they need not outlive its
	// unit.
	Stays   bool
	Project string // the tracker's endpoint and project
	// Root is the resolved workspace root, empty if workspaces are on other machines.
	Root        string
	KeepRemoved time.Duration // how long removed workspaces are kept
	// OldRoots are roots that the workflow named earlier. Workspaces there are removed once
	// their issues are done.
	OldRoots []string
}

func (l *Local) dir(run reconcile.Run) string { return host.RunDir(l.StateDir, run.ID) }

// Prepare implements reconcile.Runners.
func (l *Local) Prepare(_ context.Context, run reconcile.Run) error {
	return fail("run directory", l.makeDir(l.dir(run)))
}

// makeDir makes the directory of a run, with the workflow and the alive file.
func (l *Local) makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(dir, runner.WorkflowFile), l.Workflow, 0o600); err != nil {
		return err
	}
	// It syncs the directory too, so it comes last.
	if err := proc.CreateAlive(filepath.Join(dir, host.AliveFile)); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(dir))
}

// Start implements reconcile.Runners.
func (l *Local) Start(ctx context.Context, run reconcile.Run) error {
	log, err := os.OpenFile(
		filepath.Join(l.dir(run), runner.LogFile),
		os.O_CREATE|os.O_APPEND|os.O_RDWR,
		0o600,
	)
	if err != nil {
		return fail("worker log", err)
	}
	defer log.Close()
	earlier, err := log.Seek(0, io.SeekEnd) // of a first worker, which died
	if err != nil {
		return fail("worker log", err)
	}
	slot, err := l.slotFor(run)
	if err != nil {
		return fail("slot", err)
	}
	if slot != nil {
		defer slot.Close() // from then on only the worker holds it
	}
	scope := run.ID
	if endsOnly(run) {
		scope += "-end"
	}
	err = startWorker(ctx, proc.Spawn{
		Exe:    l.Exe,
		Argv:   l.arguments(run, slot),
		Extra:  slot,
		Shared: l.Logins,
		Env:    host.Scrub(l.Env),
		Log:    log,
		Secret: l.Secret,
		Wait:   readyBound,
		Scope:  l.Scopes.Scope(scope, cmp.Or(run.Identifier, "removed workspaces")),
	})
	if err != nil {
		return l.notStarted(run, io.NewSectionReader(log, earlier, mostSaid), err)
	}
	return nil
}

// endsOnly reports whether a worker only ends the run on its host, because the first worker
// died.
func endsOnly(run reconcile.Run) bool { return run.Remote == reconcile.RemoteBegun }

// slotFor takes a slot for the worker of a run; nil if it needs none, as a cleanup run.
func (l *Local) slotFor(run reconcile.Run) (*os.File, error) {
	hasAgent := run.Kind == reconcile.AgentRun || run.Kind == reconcile.FreeRun
	if l.NextSlot == nil || endsOnly(run) || !hasAgent {
		return nil, nil
	}
	return l.NextSlot()
}

// arguments are the arguments of the worker of a run.
func (l *Local) arguments(run reconcile.Run, slot *os.File) []string {
	argv := []string{
		"symphony",
		"worker",
		"--run", run.ID,
		"--state-dir", l.StateDir,
		"--workflow", l.WorkflowPath,
	}
	if l.Model != "" {
		argv = append(argv, "--model", l.Model)
	}
	if endsOnly(run) {
		argv = append(argv, "--end")
	}
	if slot != nil {
		argv = append(argv, "--slot", slot.Name())
	}
	return argv
}

// mostSaid is how much of a worker's log is read: a Go program that crashes prints the reason
// first.
const mostSaid = 4 << 10

// notStarted returns the error of a worker that did not take its run. A fault of the machine
// is recorded in the alive file. If it can't be, the start counts as failed for another
// reason. log is what the worker wrote.
func (l *Local) notStarted(run reconcile.Run, log io.Reader, err error) error {
	alive := filepath.Join(l.dir(run), host.AliveFile)
	if paths.LimitReached(err) {
		err = errors.Join(err, proc.NoteUnstarted(alive, reconcile.CodeResourceLimit))
	}
	output, readErr := io.ReadAll(log)
	if readErr != nil {
		err = errors.Join(err, fmt.Errorf("read the worker's log: %w", readErr))
	}
	if errors.Is(err, proc.ErrDied) && proc.ThreadsRefused(string(output)) {
		err = errors.Join(
			fmt.Errorf("no thread could be created: %w", err),
			proc.NoteUnstarted(alive, reconcile.CodeResourceLimit),
		)
	}
	pulse, probeErr := proc.ProbeAlive(alive)
	if probeErr == nil && pulse.Fault != "" {
		message := reconcile.MessageSpawnFailed + " for " + run.Identifier + ": " + err.Error()
		return reconcile.NewError(pulse.Fault, message, "the next pass tries again").WithCause(err)
	}
	return fail("worker", err)
}

// startWorker starts a worker and waits until it took its run.
func startWorker(ctx context.Context, s proc.Spawn) error {
	worker, err := proc.Detach(s)
	crash.At("runner.start.spawned")
	if err != nil {
		return err
	}
	return worker.Ready(ctx)
}

// Probe implements reconcile.Runners.
func (l *Local) Probe(ctx context.Context, run reconcile.Run) reconcile.Liveness {
	pulse, err := proc.ProbeAlive(filepath.Join(l.dir(run), host.AliveFile))
	switch {
	case err != nil:
		return reconcile.Liveness{Unknown: true}
	case pulse.Held:
		return reconcile.Liveness{Alive: true, Beats: pulse.Beats, BeatAt: pulse.Mono}
	case pulse.Missing && run.Worker.PID != 0 && proc.SameProcess(run.Worker):
		// The run's directory was removed, and the heartbeat with it. The worker works without
		// it, unless the process is stopped.
		live := reconcile.Liveness{Alive: true, Beats: run.Beats}
		if proc.Stopped(run.Worker) {
			live.BeatAt = 1 // long ago: just after the boot
		}
		return live
	}
	found, err := l.Machine.Left(ctx, left(run))
	return reconcile.Liveness{Left: found.Processes, Unknown: err != nil, Fault: pulse.Fault}
}

// left describes the processes on this machine of a run whose worker exited, or released the
// run and is about to exit.
func left(run reconcile.Run) host.LeftRequest {
	if run.Host != "" {
		return host.LeftRequest{RunID: host.HereID(run.ID)}
	}
	return host.LeftRequest{RunID: run.ID, ThreadID: run.ThreadID, Root: run.WorkspaceRoot}
}

// Stop implements reconcile.Runners. It sends SIGTERM if the worker is still the process that
// took the run, and waits until the worker releases the run or ctx ends. A worker that takes
// longer is left to the next pass.
func (l *Local) Stop(ctx context.Context, run reconcile.Run) error {
	if run.Worker.PID == 0 || !proc.SameProcess(run.Worker) {
		return nil // it will read the stop reason, or exited
	}
	err := signalWorker(run, unix.SIGTERM)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fail("stop run "+run.ID, err)
	}
	_ = waitWhile(ctx, func() bool { return Alive(l.StateDir, run.ID) }) // the next pass finds out
	return nil
}

// waitWhile waits as long as a condition holds, or until ctx ends, whose error it returns
// then.
func waitWhile(ctx context.Context, holds func() bool) error {
	step := time.NewTicker(stopStep)
	defer step.Stop()
	for holds() {
		select {
		case <-step.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// forkBound is how long a dead worker may seem to be alive. A process that this program starts has all
// its locks until it executes another program, and among them the one of a run that is just settled.
const forkBound = time.Second

// Kill implements reconcile.Runners. It ends a frozen worker, which might wake up and work
// beside the pass, and the processes of its run.
func (l *Local) Kill(ctx context.Context, run reconcile.Run) error {
	what := "kill the worker of run " + run.ID
	if !proc.SameProcess(run.Worker) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forkBound)
		defer cancel()
		if waitWhile(ctx, func() bool { return Alive(l.StateDir, run.ID) }) == nil {
			return nil
		}
		return fmt.Errorf(
			"%s: process %d is frozen and not visible here: kill it yourself",
			what,
			run.Worker.PID,
		)
	}
	frozen := left(run)
	frozen.Frozen = true
	killed, err := l.Machine.End(ctx, frozen)
	if err == nil { // a worker that did not begin to work yet is unknown to the machine
		err = signalWorker(run, unix.SIGKILL)
	}
	if err == nil || errors.Is(err, os.ErrProcessDone) {
		err = waitWhile(ctx, func() bool { return proc.SameProcess(run.Worker) })
	}
	return fail(what, errors.Join(err, host.Leftover("run "+run.ID, killed.Processes)))
}

// signalWorker sends a signal to the worker of a run.
func signalWorker(run reconcile.Run, sig unix.Signal) error {
	return proc.Signal(reconcile.Process{PID: run.Worker.PID, Start: run.Worker.Start}, sig)
}

// Reap implements reconcile.Runners.
func (l *Local) Reap(
	ctx context.Context,
	run reconcile.Run,
	record func([]reconcile.Process) error,
) ([]reconcile.Process, error) {
	release, err := proc.LockDead(filepath.Join(l.dir(run), host.AliveFile))
	if errors.Is(err, lock.ErrHeld) {
		return nil, fmt.Errorf("run %s: %w", run.ID, reconcile.ErrConflict)
	}
	if err != nil {
		return nil, fail("alive file of run "+run.ID, err)
	}
	defer release()
	killed, err := l.Machine.End(ctx, left(run))
	if err != nil && len(killed.Processes) == 0 {
		return nil, fail("processes of run "+run.ID, err)
	}
	return killed.Processes, record(killed.Processes)
}

// Workspaces implements reconcile.Runners. The error names records that can't be read; the
// others are returned all the same. Old roots contribute only workspaces of this project, and
// errors of old roots are ignored.
func (l *Local) Workspaces(ctx context.Context) (list []reconcile.Workspace, failed error) {
	roots := l.OldRoots
	if l.Root != "" {
		roots = append([]string{l.Root}, roots...)
	}
	for _, root := range roots {
		spaces, err := l.Machine.Workspaces(ctx, root)
		if root == l.Root {
			failed = err
		}
		for _, w := range spaces {
			if root == l.Root || w.StateDir == l.StateDir {
				list = append(list, w.Workspace)
			}
		}
	}
	return list, failed
}

// TrashDue implements reconcile.Runners.
func (l *Local) TrashDue(now time.Time, minFree int64) (bool, error) {
	if l.Root == "" {
		return false, nil
	}
	return l.Machine.TrashDue(context.Background(), host.ProjectTrash{
		Root:        l.Root,
		Project:     l.Project,
		KeepRemoved: l.KeepRemoved,
		MinFree:     minFree,
		Now:         now,
	})
}

// FreeBytes implements reconcile.Runners.
func (l *Local) FreeBytes() int64 {
	if l.Root == "" {
		return -1
	}
	free, err := l.Machine.FreeBytes(context.Background(), l.Root)
	if err != nil {
		return -1
	}
	return free
}

// Shelter implements reconcile.Deps. It fails if workers would be ended together with this
// pass.
func (l *Local) Shelter(ctx context.Context) error {
	err := l.Scopes.Ask(ctx)
	if l.Stays {
		return nil // the unit, for instance a CI job, lasts until these runs have ended
	}
	return err
}

// fail adds the action that failed, and the code of a fault of the machine.
func fail(what string, err error) error {
	if err == nil {
		return nil
	}
	return host.WithCode(fmt.Errorf("%s: %w", what, err))
}

// Hold creates the alive file in a directory that is used like the directory of a run, and
// locks it until the result is closed.
func Hold(dir string) (io.Closer, error) {
	path := filepath.Join(dir, host.AliveFile)
	if err := proc.CreateAlive(path); err != nil {
		return nil, err
	}
	return proc.HoldAlive(path, readyBound)
}

// Alive reports whether the worker of a run is alive, or may be.
func Alive(stateDir, runID string) bool {
	pulse, err := proc.ProbeAlive(filepath.Join(host.RunDir(stateDir, runID), host.AliveFile))
	return err != nil || pulse.Held
}
