package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/runner/workspace"
)

// Worker carries out one run that it has taken.
type Worker struct {
	Config   Config
	Prompt   Prompt
	Journal  Journal
	Tracker  Tracker
	Tool     *Tool // nil: the agent gets none
	Executor Executor
	Alive    *proc.Alive
	// Dir is the run's directory, StateDir the project's.
	Dir, StateDir string
	// Env is what hooks and agent get, before the secrets are taken out.
	Env     []string
	Version string
	Now     func() time.Time
	Log     *slog.Logger

	fingerprint func(ctx context.Context, dir string) (string, error) // nil: workspace.Fingerprint
}

// errStopped is the cause of a cancelled run.
type errStopped struct{ reason string }

func (e errStopped) Error() string { return "stopped: " + e.reason }

// CodeTerminated is the error code of a run whose worker was asked to end by somebody else than a pass.
const CodeTerminated = "terminated"

// errTerminated: somebody outside ended the worker.
var errTerminated = errors.New("the worker was asked to end from outside")

// errNotOurs: the row belongs to somebody else; nothing may be recorded.
var errNotOurs = fmt.Errorf("the run was settled by a pass: %w", reconcile.ErrConflict)

// errMovedOn: the issue is no longer to be worked on.
type errMovedOn struct{ reason string }

func (e errMovedOn) Error() string { return "the issue is no longer ours: " + e.reason }

// errTrackerGone: the tracker did not answer for so long that the run can't know whether to go on.
type errTrackerGone struct{ err error }

func (e errTrackerGone) Error() string { return "no answer from the tracker: " + e.err.Error() }
func (e errTrackerGone) Unwrap() error { return e.err }

// attempt is one run under way.
type attempt struct {
	*Worker
	run    reconcile.Run // as dispatched
	rec    *record
	events *eventLog
	procs  *proc.ProcFile
	noting sync.Mutex // procs has one writer at a time: the run itself or its heartbeat
	space  *workspace.Workspace
	agent  *agent
	// secrets are kept out of everything that is written.
	secrets secrets
	// begun: the hooks before the run have begun, so that after_run is due. before is the workspace's fingerprint
	// then, empty where it took too long to find out.
	begun  bool
	before string
}

// Run carries out the run and returns it as recorded. Terminate, when closed, asks the worker to end as
// soon as it decently can. The error says that the outcome could not be recorded.
func (w *Worker) Run(ctx context.Context, run reconcile.Run, terminate <-chan struct{}) (reconcile.Run, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := &attempt{Worker: w, run: run, secrets: newSecrets(w.Config.SecretValues)}
	if w.fingerprint == nil {
		w.fingerprint = workspace.Fingerprint
	}
	if err := a.open(cancel); err != nil {
		return run, err
	}
	defer a.close()

	beats, stopBeats := context.WithCancel(context.WithoutCancel(ctx))
	beating := make(chan struct{})
	go func() { defer close(beating); a.rec.beat(beats, heartbeat) }()
	go func() {
		select {
		case <-terminate:
			a.rec.flush(beats) // a pass that signals has written its reason first
			cancel(errTerminated)
		case <-beats.Done():
		}
	}()

	err := a.work(ctx)
	err = a.finish(ctx, err)
	stopBeats()
	<-beating
	if errors.Is(err, errNotOurs) {
		return a.rec.get(), err
	}
	return a.rec.get(), a.conclude(ctx)
}

func (a *attempt) open(cancel context.CancelCauseFunc) (err error) {
	if a.events, err = openEventLog(filepath.Join(a.Dir, eventsFile), a.secrets); err != nil {
		return err
	}
	if a.procs, err = proc.OpenProcs(filepath.Join(a.Dir, procsFile)); err != nil {
		return err
	}
	a.rec = &record{
		journal: a.Journal, alive: a.Alive, now: a.Now, log: a.Log, run: a.run,
		procs:   a.noteProcesses,
		stopped: func(reason string) { cancel(errStopped{reason}) },
		lost:    func(error) { cancel(errNotOurs) },
		base:    map[string]reconcile.Tokens{},
	}
	return nil
}

func (a *attempt) close() {
	if err := errors.Join(a.events.close(), a.procs.Close()); err != nil {
		a.Log.Warn("run directory", slog.String("error", err.Error()))
	}
}

// work takes the run through its phases (specification 7.2) up to the end of its last turn.
func (a *attempt) work(ctx context.Context) error {
	if a.run.Kind == reconcile.CleanupRun {
		return a.removeWorkspace(ctx)
	}
	a.rec.phase(ctx, reconcile.PreparingWorkspace)
	if err := a.refresh(ctx); err != nil {
		return err
	}
	if err := a.prepare(ctx); err != nil {
		return err
	}
	a.rec.phase(ctx, reconcile.BuildingPrompt)
	prompt, err := a.Prompt.Render(a.rec.get().Issue, a.run.Attempt)
	if err != nil {
		return err
	}
	return a.converse(ctx, prompt)
}

// refresh asks the tracker for the issue and keeps the answer. An issue that is no longer active gives
// errMovedOn.
func (a *attempt) refresh(ctx context.Context) error {
	found, err := a.Tracker.ByIDs(ctx, []string{a.run.IssueID})
	if err != nil {
		return err
	}
	issue, visible := found[a.run.IssueID]
	switch p := a.Config.Policy; {
	case !visible:
		return errMovedOn{reconcile.StopMissing}
	case p.Terminal(issue.State):
		return errMovedOn{reconcile.StopTerminal}
	case issue.Elsewhere:
		return errMovedOn{reconcile.StopMoved}
	case issue.Archived || !p.Active(issue.State):
		return errMovedOn{reconcile.StopInactive}
	case !p.Labelled(issue):
		return errMovedOn{reconcile.StopLabel}
	case !p.Ours(issue):
		return errMovedOn{reconcile.StopAssignee}
	}
	a.rec.change(func(r *reconcile.Run) { r.Issue = issue })
	return nil
}

// The patience of a refresh between two turns, when the agent waits with its work half done.
const (
	refreshPatience = 15 * time.Minute
	refreshPause    = 10 * time.Second
)

// refreshPatiently repeats a refresh that fails: the work of the turn before is not thrown away for a
// tracker that is down for a moment.
func (a *attempt) refreshPatiently(ctx context.Context) error {
	end := time.NewTimer(refreshPatience)
	defer end.Stop()
	for {
		err := a.refresh(ctx)
		var known *reconcile.Error
		if err == nil || !errors.As(err, &known) || !reconcile.TrackerFault(known.Code) {
			return err
		}
		a.Log.LogAttrs(ctx, slog.LevelWarn, "refresh failed, trying again", slog.String("error", err.Error()))
		pause := refreshPause
		var limit reconcile.Limited
		if errors.As(err, &limit) {
			pause = max(pause, limit.ResetAt().Sub(a.Now())) // a question before that is refused and costs the others
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-end.C:
			return errTrackerGone{err}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// judge turns the error that ended the work into the run's outcome (specification 10.6).
func (a *attempt) judge(ctx context.Context, err error) (outcome reconcile.Outcome, code, message string) {
	var stopped errStopped
	var moved errMovedOn
	var gone errTrackerGone
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		return reconcile.Succeeded, "", ""
	case errors.As(cause, &stopped):
		return reconcile.Canceled, stopped.reason, stopped.Error()
	case errors.Is(cause, errTerminated):
		return reconcile.InterruptedRun, CodeTerminated, errTerminated.Error()
	case errors.As(err, &moved):
		return reconcile.Canceled, moved.reason, moved.Error()
	case errors.As(err, &gone):
		return reconcile.InterruptedRun, "tracker_unavailable", gone.Error()
	}
	code, message = a.codeOf(err)
	var agents *codex.Error
	if errors.As(err, &agents) {
		switch agents.Code {
		case codex.CodeTurnTimeout:
			return reconcile.TimedOut, code, message
		case codex.CodeStalled:
			return reconcile.Stalled, code, message
		default: // a failure like any other
		}
	}
	return reconcile.Failed, code, message
}

// codeOf finds the stable code of an error and its text without that code.
func (a *attempt) codeOf(err error) (code, message string) {
	var ours *reconcile.Error
	var agents *codex.Error
	var spaces *workspace.Error
	switch {
	case errors.As(err, &ours):
		return ours.Code, ours.Message
	case errors.As(err, &agents) && agents.Code == codex.CodeStalled && agents.Cause != "":
		return string(agents.Cause), agents.Message // it waited for something outside, and said for what
	case errors.As(err, &agents):
		return string(agents.Code), agents.Message
	case errors.As(err, &spaces):
		return spaces.Code, spaces.Message
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return workspace.CodeDiskFull, err.Error()
	}
	return "run_failed", err.Error()
}

// The patience of the outcome: a full disk or a busy database must not lose what a run has done.
const (
	concludePatience = 10 * time.Minute
	concludePause    = 2 * time.Second
)

// conclude records the outcome. Until it is recorded the worker lives on and holds its run.
func (a *attempt) conclude(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), concludePatience)
	defer cancel()
	for {
		err := a.Journal.Finish(ctx, a.Now(), a.rec.get())
		if err == nil || errors.Is(err, reconcile.ErrConflict) {
			return err
		}
		a.Log.LogAttrs(ctx, slog.LevelError, "outcome not stored, trying again", slog.String("error", err.Error()))
		pause := time.NewTimer(concludePause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return fmt.Errorf("outcome of %s: %w", a.run.ID, err)
		}
	}
}
